/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context-parser: reads questions from descriptor 0 and writes answers to descriptor 1
 * (context/parsed.h). Generated tables and third-party scanners in C parse untrusted files, so
 * before the first one this program gives up everything except reading, writing and memory.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "context/parser/extract.h"

#define PARSER_MEMORY_MAX (UINT64_C(768) << 20)

static const int calls[] = {
    SCMP_SYS(read),       SCMP_SYS(write),        SCMP_SYS(brk),    SCMP_SYS(munmap),
    SCMP_SYS(mremap),     SCMP_SYS(madvise),      SCMP_SYS(futex),  SCMP_SYS(clock_gettime),
    SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn), SCMP_SYS(getpid), SCMP_SYS(gettid),
};

static int confine(void)
{
    struct rlimit memory = {PARSER_MEMORY_MAX, PARSER_MEMORY_MAX};
    struct rlimit none = {0, 0};
    scmp_filter_ctx filter;
    int r = 0;

    if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0) {
        return -1;
    }
    if (setrlimit(RLIMIT_AS, &memory) < 0) {
        return -1;
    }
    filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (filter == NULL) {
        return -1;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(calls) && r == 0; i++) {
        r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, calls[i], 0, NULL);
    }
    r = r != 0 ? r
               : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                                  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    r = r != 0 ? r
               : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                                  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    r = r != 0 ? r : seccomp_load(filter);
    seccomp_release(filter);
    return r;
}

static int answer(const struct snp_parse_question *question, char *text)
{
    const struct snp_parse_item *items = NULL;
    const char *tree = NULL;
    struct snp_parse_answer head = {0};

    if (snp_read_all(0, text, question->n_bytes) != (ssize_t)question->n_bytes) {
        return -1;
    }
    head.is_whole =
        question->wants_tree != 0
            ? snp_tree_write(question->language, text, question->n_bytes, &tree, &head.n_items)
            : snp_extract(question->language, text, question->n_bytes, &items, &head.n_items);
    head.n_items = head.is_whole == 0 ? 0 : head.n_items;
    if (snp_write_all(1, &head, sizeof(head)) < 0) {
        return -1;
    }
    return tree != NULL ? snp_write_all(1, tree, head.n_items)
                        : snp_write_all(1, items, head.n_items * sizeof(items[0]));
}

int main(void)
{
    struct snp_parse_question question;
    char *text = malloc(SNP_PARSE_BYTES_MAX);

    if (text == NULL || confine() != 0) {
        return 1;
    }
    while (snp_read_all(0, &question, sizeof(question)) == sizeof(question)) {
        if (question.n_bytes > SNP_PARSE_BYTES_MAX || answer(&question, text) < 0) {
            return 1;
        }
    }
    return 0;
}
