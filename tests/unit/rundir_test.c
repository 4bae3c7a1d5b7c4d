/* SPDX-License-Identifier: Apache-2.0 */
/* Runtime and state folders: made private, and refused when somebody could get in. */
#include "base/rundir.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "unit/harness.h"

struct place {
    char dir[32];
    char *run;
};

static int place_setup(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    if (place == NULL) {
        return -1;
    }
    (void)snprintf(place->dir, sizeof(place->dir), "/tmp/snp-rundir-XXXXXX");
    if (mkdtemp(place->dir) == NULL) {
        free(place);
        return -1;
    }
    place->run = snp_format("%s/run", place->dir);
    (void)setenv("SNIPARA_SANDBOX_RUNTIME_DIR", place->run, 1);
    (void)unsetenv("SNIPARA_SANDBOX_STATE_DIR");
    *state = place;
    return 0;
}

static int place_teardown(void **state)
{
    struct place *place = *state;
    snp_autofree char *log = snp_format("%s/daemon.log", place->dir);
    (void)unlink(log);
    if (unlink(place->run) < 0) {
        (void)rmdir(place->run);
    }
    (void)rmdir(place->dir);
    free(place->run);
    free(place);
    return 0;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static int find(struct snp_err *err)
{
    snp_autofree char *path = NULL;
    return snp_runtime_dir(&path, err);
}

TEST(a_missing_folder_is_made_private)
{
    struct place *place = *state;
    snp_autofree char *path = NULL;
    struct snp_err err;
    assert_int_equal(snp_runtime_dir(&path, &err), 0);
    assert_string_equal(path, place->run);
    assert_int_equal(mode_of(place->run), 0700);
    assert_int_equal(find(&err), 0);
}

TEST(a_folder_open_to_others_is_refused)
{
    struct place *place = *state;
    struct snp_err err;
    assert_int_equal(mkdir(place->run, 0700), 0);
    assert_int_equal(chmod(place->run, 0710), 0);
    assert_int_equal(find(&err), SNP_E_DENIED);
    assert_non_null(strstr(err.msg, "chmod 700"));
    assert_int_equal(mode_of(place->run), 0710);
    assert_int_equal(chmod(place->run, 0701), 0);
    assert_int_equal(find(&err), SNP_E_DENIED);
}

TEST(a_link_is_refused)
{
    struct place *place = *state;
    struct snp_err err;
    assert_int_equal(symlink(place->dir, place->run), 0);
    assert_int_equal(find(&err), SNP_E_DENIED);
}

TEST(a_file_is_refused)
{
    struct place *place = *state;
    struct snp_err err;
    snp_autoclose int fd = open(place->run, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(find(&err), SNP_E_DENIED);
}

TEST(a_relative_folder_is_refused)
{
    struct snp_err err;
    (void)setenv("SNIPARA_SANDBOX_RUNTIME_DIR", "run", 1);
    assert_int_equal(find(&err), SNP_E_INVALID);
}

TEST(a_socket_path_that_fits_no_address_is_refused)
{
    struct place *place = *state;
    struct snp_err err;
    snp_autofree char *path = NULL;
    snp_autofree char *longer = snp_format("%s/%0100d", place->dir, 1);
    assert_int_equal(snp_socket_path(&path, &err), 0);
    assert_true(snp_has_suffix(path, "/run/sandboxd.sock"));
    assert_int_equal(snp_socket_path_check(longer, &err), SNP_E_LIMIT);
}

TEST(a_large_log_is_emptied)
{
    struct place *place = *state;
    struct snp_err err;
    snp_autofree char *path = snp_format("%s/daemon.log", place->dir);
    struct stat st;
    snp_autoclose int first = -1;
    snp_autoclose int second = -1;
    assert_int_equal(snp_daemon_log_open(place->dir, &first, &err), 0);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(ftruncate(first, 1 << 20), 0);
    assert_int_equal(snp_daemon_log_open(place->dir, &second, &err), 0);
    assert_int_equal(fstat(first, &st), 0);
    assert_int_equal(st.st_size, 1 << 20);
    assert_int_equal(ftruncate(first, (1 << 20) + 1), 0);
    snp_closep(&second);
    assert_int_equal(snp_daemon_log_open(place->dir, &second, &err), 0);
    assert_int_equal(fstat(first, &st), 0);
    assert_int_equal(st.st_size, 0);
}

TEST(the_key_of_runs_is_made_once_and_private)
{
    struct place *place = *state;
    struct snp_err err;
    snp_autofree char *path = snp_format("%s/run.key", place->run);
    snp_autofree char *other = snp_format("%s/other", place->run);
    unsigned char first[SNP_RUN_KEY] = {0};
    unsigned char second[SNP_RUN_KEY] = {1};

    (void)setenv("SNIPARA_SANDBOX_STATE_DIR", place->run, 1);
    assert_int_equal(snp_run_key(first, &err), 0);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(snp_run_key(second, &err), 0);
    assert_memory_equal(first, second, SNP_RUN_KEY);

    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(snp_run_key(second, &err), SNP_E_DENIED);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, SNP_RUN_KEY - 1), 0);
    assert_int_equal(snp_run_key(second, &err), SNP_E_INVALID);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(snp_run_key(second, &err), SNP_E_SYS);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(snp_run_key(second, &err), 0);
    assert_memory_not_equal(first, second, SNP_RUN_KEY);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(place->run), 0); /* nothing else was left there */
    (void)unsetenv("SNIPARA_SANDBOX_STATE_DIR");
}

TEST(a_missing_program_names_both_places)
{
    struct snp_err err;
    snp_autofree char *path = NULL;
    assert_int_equal(snp_own_program("no-such-program", &path, &err), SNP_E_NOT_FOUND);
    assert_null(path);
    assert_non_null(strstr(err.msg, "no-such-program"));
    assert_non_null(strstr(err.msg, "libexec/snipara-sandbox or bin"));
}

TEST(a_state_folder_that_was_named_is_used_or_an_error_names_it)
{
    struct place *place = *state;
    const char *home_was = getenv("HOME");
    snp_autofree char *home = strdup(home_was == NULL ? "/" : home_was);
    snp_autofree char *file = snp_format("%s/daemon.log/snipara-sandbox", place->dir);
    snp_autofree char *path = NULL;
    snp_autoclose int log = -1;
    struct snp_err err;
    const struct {
        const char *own;
        const char *xdg;
        const char *home;
        const char *said;
    } rows[] = {
        {file, "", place->dir, file},
        {"x", "", place->dir, "SNIPARA_SANDBOX_STATE_DIR"},
        {"", "/proc/1/none", place->dir, "/proc/1/none"},
        {"", file, place->dir, file},
        {"", "x", place->dir, "XDG_STATE_HOME"},
        {"", "", "/proc/1/none", "HOME"},
        {"", "", "", "HOME"},
    };

    assert_int_equal(snp_daemon_log_open(place->dir, &log, &err), 0); /* a file, no folder */
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        (void)setenv("SNIPARA_SANDBOX_STATE_DIR", rows[i].own, 1);
        (void)setenv("XDG_STATE_HOME", rows[i].xdg, 1);
        (void)setenv("HOME", rows[i].home, 1);
        assert_true(snp_state_dir(&path, &err) < 0);
        assert_null(path);
        assert_non_null(strstr(err.msg, rows[i].said));
    }
    (void)unsetenv("XDG_STATE_HOME");
    (void)unsetenv("SNIPARA_SANDBOX_STATE_DIR");
    (void)setenv("HOME", home, 1);
    assert_true(access(place->run, F_OK) < 0); /* the runtime folder was not even made */
}

#define PLACED(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

RUN(PLACED(a_missing_folder_is_made_private),
    PLACED(a_folder_open_to_others_is_refused),
    PLACED(a_link_is_refused),
    PLACED(a_file_is_refused),
    PLACED(a_relative_folder_is_refused),
    PLACED(a_socket_path_that_fits_no_address_is_refused),
    PLACED(a_large_log_is_emptied),
    PLACED(the_key_of_runs_is_made_once_and_private),
    PLACED(a_missing_program_names_both_places),
    PLACED(a_state_folder_that_was_named_is_used_or_an_error_names_it))
