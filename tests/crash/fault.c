/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault points of test builds: counting, and obeying orders.
 *
 * Invariants: nothing here allocates; errno is kept unless a failure is ordered; a process
 * that was forked from ours counts nothing, so that a thread's lock is never met there.
 */
#include "crash/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fault.h"
#include "base/macro.h"

static struct {
    pid_t pid; /* 0: nothing is counted */
    char program[16];
    struct snp_fault_file *file; /* NULL: none is shared */
    struct snp_fault_order own[SNP_FAULT_ORDERS];
} fault;

bool snp_fault_is_on(void)
{
    return fault.pid != 0 && fault.pid == (pid_t)syscall(SYS_getpid);
}

struct snp_fault_file *snp_fault_shared(void)
{
    return fault.file;
}

void snp_fault_die(void)
{
    (void)syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

/* The text's beginning up to end into a field of fixed size, always terminated. */
static void field_set(char *field, size_t size, const char *text, size_t n)
{
    n = n < size ? n : size - 1;
    memcpy(field, text, n);
    field[n] = '\0';
}

static void count_point(struct snp_fault_file *file, const char *name)
{
    uint32_t n = __atomic_load_n(&file->n_points, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n && i < SNP_FAULT_POINTS; i++) {
        struct snp_fault_point *point = &file->points[i];
        if (strcmp(point->name, name) == 0 && strcmp(point->program, fault.program) == 0) {
            (void)__atomic_add_fetch(&point->count, 1, __ATOMIC_RELAXED);
            return;
        }
    }
    /* Two at once may both add it: who reads the table adds up. */
    n = __atomic_fetch_add(&file->n_points, 1, __ATOMIC_ACQ_REL);
    if (n < SNP_FAULT_POINTS) {
        struct snp_fault_point *point = &file->points[n];
        field_set(point->program, sizeof(point->program), fault.program, strlen(fault.program));
        field_set(point->name, sizeof(point->name), name, strlen(name));
        (void)__atomic_add_fetch(&point->count, 1, __ATOMIC_RELAXED);
    }
}

static bool is_meant(const struct snp_fault_order *order, const char *name)
{
    size_t n = strnlen(order->name, sizeof(order->name));
    bool matches = n > 0 && order->name[n - 1] == '*' ? strncmp(order->name, name, n - 1) == 0
                                                      : strcmp(order->name, name) == 0;
    return matches && (order->program[0] == '\0' ||
                       strncmp(order->program, fault.program, sizeof(order->program)) == 0);
}

/* What one order wants at this point, NONE for nothing. */
static enum snp_fault_action ask(struct snp_fault_order *order, const char *name, int *ret_eno)
{
    uint32_t action = __atomic_load_n(&order->action, __ATOMIC_ACQUIRE);
    if (action == SNP_FAULT_NONE || !is_meant(order, name)) {
        return SNP_FAULT_NONE;
    }
    uint64_t seen = __atomic_add_fetch(&order->seen, 1, __ATOMIC_RELAXED);
    if (seen < order->nth || (seen > order->nth && action != SNP_FAULT_FULL)) {
        return SNP_FAULT_NONE;
    }
    (void)__atomic_add_fetch(&order->obeyed, 1, __ATOMIC_RELEASE);
    if (action != SNP_FAULT_FULL) {
        __atomic_store_n(&order->action, SNP_FAULT_NONE, __ATOMIC_RELEASE);
    }
    *ret_eno = order->eno;
    return (enum snp_fault_action)action;
}

static enum snp_fault_action obey(enum snp_fault_action action)
{
    if (action == SNP_FAULT_KILL) {
        snp_fault_die();
    } else if (action == SNP_FAULT_STOP) {
        (void)syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP);
        action = SNP_FAULT_NONE;
    } else if (action == SNP_FAULT_FULL) {
        action = SNP_FAULT_FAIL;
    }
    return action;
}

enum snp_fault_action snp_fault_hit(const char *name, int *ret_eno)
{
    int eno = errno;
    enum snp_fault_action action = SNP_FAULT_NONE;

    *ret_eno = 0;
    if (!snp_fault_is_on()) {
        return SNP_FAULT_NONE;
    }
    for (size_t i = 0; action == SNP_FAULT_NONE && i < SNP_FAULT_ORDERS; i++) {
        action = ask(&fault.own[i], name, ret_eno);
    }
    if (fault.file != NULL) {
        count_point(fault.file, name);
        for (size_t i = 0; action == SNP_FAULT_NONE && i < SNP_FAULT_ORDERS; i++) {
            action = ask(&fault.file->orders[i], name, ret_eno);
        }
    }
    action = obey(action);
    errno = eno;
    return action;
}

void snp_fault_pass(const char *name)
{
    int eno;
    if (snp_fault_hit(name, &eno) == SNP_FAULT_TORN) {
        snp_fault_die();
    }
}

bool snp_fault_fails(const char *name)
{
    int eno;
    enum snp_fault_action action = snp_fault_hit(name, &eno);
    if (action == SNP_FAULT_TORN) {
        snp_fault_die();
    }
    if (action == SNP_FAULT_FAIL) {
        errno = eno;
    }
    return action == SNP_FAULT_FAIL;
}

/* Start ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum snp_fault_action action;
} action_names[] = {
    {"kill", SNP_FAULT_KILL},  {"torn", SNP_FAULT_TORN},  {"stop", SNP_FAULT_STOP},
    {"fail=", SNP_FAULT_FAIL}, {"full=", SNP_FAULT_FULL},
};

static uint64_t number(const char *text)
{
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9' && value < 1U << 30; text++) {
        value = value * 10 + (uint64_t)(*text - '0');
    }
    return value;
}

/* [PROGRAM/]NAME:N:ACTION of n characters; a program of ours has no '.', a name begins with it. */
static void order_parse(struct snp_fault_order *order, const char *text, size_t n)
{
    const char *colon = memchr(text, ':', n);
    const char *second =
        colon == NULL ? NULL : memchr(colon + 1, ':', n - (size_t)(colon + 1 - text));
    if (second == NULL) {
        return;
    }
    const char *name = text;
    const char *slash = memchr(text, '/', (size_t)(colon - text));
    if (slash != NULL && memchr(text, '.', (size_t)(slash - text)) == NULL) {
        field_set(order->program, sizeof(order->program), text, (size_t)(slash - text));
        name = slash + 1;
    }
    field_set(order->name, sizeof(order->name), name, (size_t)(colon - name));
    order->nth = number(colon + 1);
    for (size_t i = 0; i < SNP_ARRAY_LEN(action_names); i++) {
        size_t len = strlen(action_names[i].name);
        if (strncmp(second + 1, action_names[i].name, len) == 0) {
            order->action = action_names[i].action;
            order->eno = (int)number(second + 1 + len);
        }
    }
}

static void map_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= SNP_FAULT_IO_AT) {
        void *at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED && ((struct snp_fault_file *)at)->magic == SNP_FAULT_MAGIC) {
            fault.file = at;
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

__attribute__((__constructor__)) static void start(void)
{
    const char *text = getenv("SNP_FAULT");
    const char *path = getenv("SNP_FAULT_FILE");
    const char *program = program_invocation_short_name;
    if (strcmp(program, "snipara-sandboxd") == 0) {
        program = "daemon";
    } else if (strncmp(program, "tier-", 5) != 0 && text == NULL) {
        return; /* what only asks the daemon has nothing to lose, unless it is told to die itself */
    }
    field_set(fault.program, sizeof(fault.program), program, strlen(program));
    for (size_t i = 0; text != NULL && i < SNP_FAULT_ORDERS; i++) {
        size_t n = strcspn(text, ",");
        order_parse(&fault.own[i], text, n);
        text = text[n] == ',' ? text + n + 1 : NULL;
    }
    if (path != NULL) {
        map_file(path);
    }
    if (fault.file != NULL || fault.own[0].action != SNP_FAULT_NONE) {
        fault.pid = getpid();
    }
}
