/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_MACRO_H
#define SNP_BASE_MACRO_H

/* Attributes, cleanup and ownership helpers used by every layer. */

#include <stddef.h>

#define SNP_PRINTF(fmt, first) __attribute__((__format__(__printf__, fmt, first)))
#define SNP_NODISCARD          __attribute__((__warn_unused_result__))
#define SNP_UNUSED             __attribute__((__unused__))
#define SNP_PACKED             __attribute__((__packed__))
#define SNP_NORETURN           __attribute__((__noreturn__))
#define SNP_ARRAY_LEN(a)       (sizeof(a) / sizeof((a)[0]))

#define snp_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* snp_cleanup(fn): run fn(&variable) when the variable leaves its scope. */
#define snp_cleanup(fn) __attribute__((__cleanup__(fn)))

/*
 * SNP_DEFINE_CLEANUP(struct snp_foo *, snp_foo_free) defines snp_foo_freep(), to be
 * used as snp_cleanup(snp_foo_freep). The free function accepts NULL.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): type is a type name */
#define SNP_DEFINE_CLEANUP(type, fn)             \
    static inline SNP_UNUSED void fn##p(type *p) \
    {                                            \
        fn(*p);                                  \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

/* Move a value out of an owning variable, and leave the empty value behind. */
#define SNP_TAKE(var, empty)                \
    __extension__({                         \
        __typeof__(var) snp_taken_ = (var); \
        (var) = (empty);                    \
        snp_taken_;                         \
    })
#define SNP_TAKE_PTR(p) SNP_TAKE(p, NULL)
#define SNP_TAKE_FD(fd) SNP_TAKE(fd, -1)

#define snp_autofree  snp_cleanup(snp_freep)
#define snp_autoclose snp_cleanup(snp_closep)

/* For our own bugs, never for outside data: always compiled in, prints and aborts. */
#define SNP_ASSERT(x) ((x) ? (void)0 : snp_assert_failed(#x, __FILE__, __LINE__))

void snp_assert_failed(const char *expr, const char *file, int line) SNP_NORETURN;

/* free() / close() of what p points to; errno is kept. A closed descriptor becomes -1. */
void snp_freep(void *p);
void snp_closep(int *fd);

#endif
