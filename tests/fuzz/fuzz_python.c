/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which interpreter runs: the first byte chooses what the rest is: 'V' the pyvenv.cfg of a hostile
 * project, 'R' a template's record, 'M' a list of modules. No project gets another
 * interpreter than those that are installed, and what cannot be used is passed over or refused.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/registry/python.h"
#include "base/registry/registry.h"
#include "base/str.h"
#include "fuzz/target.h"

/* A folder with a project and records; made at the first input, removed at the end. */
static struct {
    char dir[32];
    int config_fd;
    int record_fd;
} place;

static const char *const folders[] = {"p", "p/.venv", "p/.venv/lib", "s", "s/templates"};

static const char *in_place(const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", place.dir, name);
    return path;
}

static void remove_place(void)
{
    (void)unlink(in_place("p/.venv/pyvenv.cfg"));
    (void)unlink(in_place("s/templates/t.json"));
    for (size_t i = SNP_ARRAY_LEN(folders); i > 0; i--) {
        (void)rmdir(in_place(folders[i - 1]));
    }
    (void)rmdir(place.dir);
}

static int new_file(const char *name)
{
    int fd = open(in_place(name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    SNP_ASSERT(fd >= 0);
    return fd;
}

static void make_place(void)
{
    (void)snprintf(place.dir, sizeof(place.dir), "/dev/shm/snp-fuzz-XXXXXX"); /* quick */
    if (mkdtemp(place.dir) == NULL) {
        (void)snprintf(place.dir, sizeof(place.dir), "/tmp/snp-fuzz-XXXXXX");
        SNP_ASSERT(mkdtemp(place.dir) != NULL);
    }
    SNP_ASSERT(atexit(remove_place) == 0);
    for (size_t i = 0; i < SNP_ARRAY_LEN(folders); i++) {
        struct snp_err err;
        SNP_ASSERT(snp_mkdir_p(in_place(folders[i]), 0700, &err) == 0);
    }
    place.config_fd = new_file("p/.venv/pyvenv.cfg");
    place.record_fd = new_file("s/templates/t.json");
}

static void fill(int fd, const char *bytes, size_t n)
{
    SNP_ASSERT(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, n, 0) == (ssize_t)n);
}

static void find(const char *name, bool must)
{
    char project[64];
    char state[64];
    const struct snp_python_query query = {.name = name,
                                           .project = project,
                                           .state_dir = state,
                                           .default_python = "/usr/bin/python3",
                                           .home = "/home/u"};
    struct snp_python python = {0};
    struct snp_err err = {0};

    (void)snprintf(project, sizeof(project), "%s/p", place.dir);
    (void)snprintf(state, sizeof(state), "%s/s", place.dir);
    if (snp_python_find(&query, &python, &err) == 0) {
        SNP_ASSERT(python.name != NULL && python.exe != NULL && python.exe[0] == '/');
        SNP_ASSERT(snp_has_prefix(python.exe, "/usr/") || snp_has_prefix(python.exe, "/opt/") ||
                   name != NULL);
        SNP_ASSERT(!snp_has_prefix(python.exe, place.dir));
        SNP_ASSERT(python.preload == NULL || snp_registry_preload_check(python.preload, &err) == 0);
    } else {
        SNP_ASSERT(!must && err.msg[0] != '\0');
    }
    snp_python_done(&python);
}

static void check_list(const char *text)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._,";
    struct snp_err err;

    if (snp_registry_preload_check(text, &err) == 0) {
        SNP_ASSERT(text[strspn(text, allowed)] == '\0' && strlen(text) <= SNP_REGISTRY_PRELOAD_MAX);
        SNP_ASSERT(strstr(text, ",,") == NULL && text[0] != ',' && !snp_has_suffix(text, ","));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *rest = (const char *)bytes + 1;

    if (n == 0) {
        return 0;
    }
    if (place.dir[0] == '\0') {
        make_place();
    }
    if (bytes[0] == 'V') {
        fill(place.config_fd, rest, n - 1);
        find(NULL, true);
    } else if (bytes[0] == 'R') {
        fill(place.record_fd, rest, n - 1);
        find("t", false);
    } else {
        snp_autofree char *text = strndup(rest, n - 1);
        SNP_ASSERT(text != NULL);
        check_list(text);
    }
    return 0;
}
