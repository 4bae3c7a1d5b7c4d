/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over every file of a folder: the seeds and each input that once
 * failed stay tested without a fuzzer. Also over every beginning of each file, as a stream
 * that ends early delivers it. A folder with no file is a failure.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "fuzz/target.h"

enum {
    INPUT_MAX = 1 << 20,
    CUT_MAX = 4096, /* beginnings up to this length are tried too */
};

/* The target gets an exact copy, so that a sanitizer sees a read past its end. */
static void run_copy(const char *bytes, size_t n)
{
    unsigned char *copy = malloc(n == 0 ? 1 : n);
    if (copy == NULL) {
        (void)fprintf(stderr, "out of memory\n");
        exit(1);
    }
    memcpy(copy, bytes, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static int run_file(const char *folder, const char *name)
{
    char path[4096];
    struct snp_err err;
    char *bytes = NULL;
    size_t n = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (snp_file_read(path, INPUT_MAX, &bytes, &n, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    for (size_t cut = 0; cut < n && cut < CUT_MAX; cut++) {
        run_copy(bytes, cut);
    }
    run_copy(bytes, n);
    free(bytes);
    return 0;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (folder == NULL) {
        (void)fprintf(stderr, "usage: replay FOLDER\n");
        return 2;
    }
    unsigned files = 0;
    unsigned failed = 0;
    for (const struct dirent *entry = NULL; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.') {
            files++;
            failed += run_file(argv[1], entry->d_name) < 0 ? 1 : 0;
        }
    }
    (void)closedir(folder);
    (void)printf("%u inputs\n", files);
    return files > 0 && failed == 0 ? 0 : 1;
}
