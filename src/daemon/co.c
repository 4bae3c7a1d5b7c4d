/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coroutines by swapcontext, which keeps shadow stacks.
 *
 * Invariants: a coroutine is running, waits for one that it has started or continued, or is
 * suspended in snp_await(). The first two kinds are a chain from `current`. A stack is reused, or
 * unmapped, only from another stack.
 */
#include "daemon/co.h"

#include <ucontext.h>
#include <sys/mman.h>

#if defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define HAS_ASAN 1
#    endif
#endif
#ifdef __SANITIZE_ADDRESS__
#    define HAS_ASAN 1
#endif
#ifdef HAS_ASAN
#    include <dlfcn.h>
#    include <sanitizer/asan_interface.h>
#    define SWITCH_BEGIN __sanitizer_start_switch_fiber
#    define SWITCH_END   __sanitizer_finish_switch_fiber
#    define FORGET       ASAN_UNPOISON_MEMORY_REGION
#else
#    define FORGET(stack, size)              ((void)0)
#    define SWITCH_BEGIN(fake, bottom, size) ((void)0)
#    define SWITCH_END(fake, bottom, size)   ((void)0)
#endif
/* Valgrind takes a switch between stacks that are close for a large frame. */
#if __has_include(<valgrind/valgrind.h>)
#    include <valgrind/valgrind.h>
#else
#    define VALGRIND_STACK_REGISTER(from, to) 0
#endif

enum {
    GUARD = 64 << 10, /* more than the largest frame of a library */
    SPARE_MAX = 16,
};

/* At the end of its mapping, above the stack. */
struct snp_co {
    ucontext_t self;
    ucontext_t caller;
    void (*run)(void *arg);
    void *arg;
    struct snp_await *wait; /* suspended in it; NULL = not suspended */
    bool is_aborted;
    bool is_over;
    struct snp_co *next; /* caller, or next spare one */
    void *fake;          /* of the address sanitizer */
    const void *caller_bottom;
    size_t caller_size;
};

enum {
    STACK = SNP_CO_STACK - (int)((sizeof(struct snp_co) + 63) & ~63UL),
    MAP = GUARD + SNP_CO_STACK,
};

/* The sanitizer's own swapcontext writes a warning, which it takes for a report. */
static int context_swap(ucontext_t *from, const ucontext_t *to)
{
#ifdef HAS_ASAN
    static int (*libc_swap)(ucontext_t * from, const ucontext_t *to);

    if (libc_swap == NULL) {
        *(void **)&libc_swap = dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), "swapcontext");
    }
    return libc_swap(from, to);
#else
    return swapcontext(from, to);
#endif
}

static struct snp_co *current;
static struct snp_co *spares;
static unsigned n_spares;

static char *map_of(struct snp_co *co)
{
    return (char *)co - STACK - GUARD;
}

static struct snp_co *stack_get(void)
{
    struct snp_co *co = spares;
    char *map;

    if (co != NULL) {
        spares = co->next;
        n_spares--;
        return co;
    }
    map = mmap(NULL, MAP, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (map != MAP_FAILED && mprotect(map, GUARD, PROT_NONE) == 0) {
        (void)VALGRIND_STACK_REGISTER(map + GUARD, map + GUARD + STACK);
        return (struct snp_co *)(void *)(map + GUARD + STACK);
    }
    if (map != MAP_FAILED) {
        (void)munmap(map, MAP);
    }
    return NULL;
}

static void stack_put(struct snp_co *co)
{
    if (n_spares == SPARE_MAX) {
        (void)munmap(map_of(co), MAP);
        return;
    }
    co->next = spares;
    spares = co;
    n_spares++;
}

static void enter(void)
{
    struct snp_co *co = current;

    SWITCH_END(NULL, &co->caller_bottom, &co->caller_size);
    co->run(co->arg);
    co->is_over = true;
    SWITCH_BEGIN(NULL, co->caller_bottom, co->caller_size);
    (void)setcontext(&co->caller);
}

static void resume(struct snp_co *co)
{
    void *fake SNP_UNUSED = NULL;

    co->next = current;
    current = co;
    SWITCH_BEGIN(&fake, map_of(co) + GUARD, STACK);
    (void)context_swap(&co->caller, &co->self);
    SWITCH_END(fake, NULL, NULL);
    current = co->next;
    if (co->is_over) {
        stack_put(co);
    }
}

int snp_co_start(void (*run)(void *arg), void *arg, struct snp_err *err)
{
    struct snp_co *co = stack_get();

    SNP_TRY_MEMORY(co, err);
    *co = (struct snp_co){.run = run, .arg = arg};
    (void)getcontext(&co->self);
    FORGET(map_of(co) + GUARD, STACK); /* frames that setcontext() left */
    co->self.uc_stack = (stack_t){.ss_sp = map_of(co) + GUARD, .ss_size = STACK};
    makecontext(&co->self, enter, 0);
    resume(co);
    return 0;
}

struct snp_co *snp_co_self(void)
{
    return current;
}

void snp_co_abort(struct snp_co *co)
{
    struct snp_await *wait = co->wait;

    co->is_aborted = true;
    if (wait != NULL && wait->cancel != NULL) {
        wait->cancel(wait);
    }
}

int snp_await(struct snp_await *wait, json_t **ret, struct snp_err *err)
{
    struct snp_co *co = current;

    SNP_ASSERT(co != NULL);
    if (!wait->is_over && co->is_aborted && wait->cancel != NULL) {
        wait->cancel(wait);
    }
    if (!wait->is_over) {
        wait->co = co;
        co->wait = wait;
        SWITCH_BEGIN(&co->fake, co->caller_bottom, co->caller_size);
        (void)context_swap(&co->self, &co->caller);
        SWITCH_END(co->fake, &co->caller_bottom, &co->caller_size);
        co->wait = NULL;
    }
    if (wait->err.code == SNP_OK && co->is_aborted) {
        (void)snp_fail(&wait->err, SNP_E_PEER, "the operation was aborted");
    }
    if (wait->err.code == SNP_OK && ret != NULL) {
        *ret = SNP_TAKE_PTR(wait->result);
    }
    json_decref(SNP_TAKE_PTR(wait->result));
    if (wait->err.code != SNP_OK) {
        *err = wait->err;
    }
    return wait->err.code;
}

void snp_await_end(void *ctx, json_t *result, const struct snp_err *err)
{
    struct snp_await *wait = ctx;

    SNP_ASSERT(!wait->is_over);
    wait->is_over = true;
    wait->result = json_incref(result);
    if (err != NULL) {
        wait->err = *err;
    }
    if (wait->co != NULL) {
        resume(wait->co);
    }
}

void snp_await_ended(void *ctx, const struct snp_err *err)
{
    snp_await_end(ctx, NULL, err);
}
