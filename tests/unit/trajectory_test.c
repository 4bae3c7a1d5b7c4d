/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of runs: the chain finds every change, torn ends are cut, and the lock tells who writes.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "trajectory/reader.h"
#include "trajectory/writer.h"
#include "unit/harness.h"

enum {
    FILE_MAX = 1 << 20,
    STEPS = 4,
};

static const unsigned char key[SNP_CHAIN_KEY] = "a key that nobody else has: 32 b";

struct world {
    char dir[64];
    char path[128];
};

static void world_make(struct world *world)
{
    snp_autotrajectory struct snp_trajectory *t = NULL;
    struct snp_err err;

    (void)snprintf(world->dir, sizeof(world->dir), "/tmp/snp-trajectory-XXXXXX");
    assert_non_null(mkdtemp(world->dir));
    (void)snprintf(world->path, sizeof(world->path), "%s/aa11-bb22.jsonl", world->dir);
    assert_int_equal(snp_trajectory_create(&(struct snp_trajectory_place){.dir = world->dir},
                                           "aa11-bb22", key,
                                           json_pack("{s:s, s:s}", "_type", "trajectory_metadata",
                                                     "trajectory_id", "aa11-bb22"),
                                           &t, &err),
                     0);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(
            snp_trajectory_add(t,
                               json_pack("{s:s, s:s, s:i}", "_type", "step", "step", "ask", "n", i),
                               true, &err),
            0);
    }
}

static void world_drop(struct world *world)
{
    assert_int_equal(unlink(world->path), 0);
    assert_int_equal(rmdir(world->dir), 0);
}

static struct snp_trajectory_check check_of(const struct world *world)
{
    struct snp_trajectory_check check;
    struct snp_err err;

    assert_int_equal(snp_trajectory_read(world->path, NULL, NULL, &check, &err), 0);
    return check;
}

static void file_set(const struct world *world, const char *text, size_t n)
{
    snp_autoclose int fd = open(world->path, O_WRONLY | O_TRUNC | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(snp_write_all(fd, text, n), 0);
}

static void file_get(const struct world *world, char **ret_text, size_t *ret_n)
{
    struct snp_err err;

    assert_int_equal(snp_file_read(world->path, FILE_MAX, ret_text, ret_n, &err), 0);
}

TEST(what_was_written_is_intact_and_private)
{
    struct world world;
    struct snp_trajectory_check check;
    struct stat st;

    world_make(&world);
    check = check_of(&world);
    assert_int_equal(check.n_lines, STEPS + 1);
    assert_int_equal(check.last_seq, STEPS + 1);
    assert_true(check.is_chained);
    assert_int_equal(check.first_bad, 0);
    assert_int_equal(stat(world.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    world_drop(&world);
}

TEST(every_changed_byte_is_found)
{
    struct world world;
    snp_autofree char *text = NULL;
    size_t n = 0;

    world_make(&world);
    file_get(&world, &text, &n);
    for (size_t i = 0; i < n; i += 7) {
        struct snp_trajectory_check check;
        char old = text[i];

        text[i] = old == 'x' ? 'y' : 'x';
        file_set(&world, text, n);
        check = check_of(&world);
        assert_true(check.n_broken + check.n_corrupt > 0 || check.torn > 0);
        text[i] = old;
    }
    world_drop(&world);
}

TEST(a_line_that_is_missing_moved_or_put_in_is_found)
{
    struct world world;
    snp_autofree char *text = NULL;
    size_t n = 0;
    char *second;
    char *third;

    world_make(&world);
    file_get(&world, &text, &n);
    second = strchr(text, '\n') + 1;
    third = strchr(second, '\n') + 1;
    {
        snp_autofree char *without = snp_format("%.*s%s", (int)(second - text), text, third);

        file_set(&world, without, strlen(without));
        assert_int_equal(check_of(&world).first_bad, 2);
    }
    {
        snp_autofree char *twice = snp_format("%.*s%s", (int)(third - text), text, second);

        file_set(&world, twice, strlen(twice));
        assert_int_equal(check_of(&world).first_bad, 3);
    }
    {
        snp_autofree char *more = snp_format("%s{\"_type\":\"step\"}\n", text);

        file_set(&world, more, strlen(more));
        assert_int_equal(check_of(&world).n_broken, 1);
    }
    world_drop(&world);
}

TEST(corrupt_lines_are_counted_and_passed_over)
{
    struct world world;
    static const char lines[] = "{\"_type\":\"trajectory_metadata\",\"event_count\":1}\n"
                                "not json\n\n"
                                "{\"call_id\":\"a\",\"input_tokens\":3,\"output_tokens\":4}\n";
    struct snp_trajectory_check check;
    struct snp_trajectory_info info;
    struct snp_err err;

    world_make(&world);
    file_set(&world, lines, strlen(lines));
    check = check_of(&world);
    assert_int_equal(check.n_lines, 2);
    assert_int_equal(check.n_corrupt, 1);
    assert_int_equal(check.first_bad, 2);
    assert_false(check.is_chained);
    assert_int_equal(snp_trajectory_info_read(world.path, &info, &err), 0);
    assert_int_equal(info.calls, 1);
    assert_int_equal(info.state, SNP_TRAJECTORY_DONE);
    snp_trajectory_info_done(&info);
    world_drop(&world);
}

TEST(a_torn_end_is_cut_off_and_the_chain_goes_on)
{
    struct world world;
    snp_autofree char *text = NULL;
    size_t n = 0;
    size_t torn = 0;
    snp_autotrajectory struct snp_trajectory *t = NULL;
    struct snp_err err;

    world_make(&world);
    file_get(&world, &text, &n);
    file_set(&world, text, n - 10);
    assert_int_equal(snp_trajectory_resume(world.path, false, key, &t, &torn, &err), 0);
    assert_true(torn > 10);
    assert_int_equal(snp_trajectory_add(t, json_pack("{s:s}", "_type", "step"), true, &err), 0);
    assert_int_equal(check_of(&world).n_lines, STEPS + 1);
    assert_int_equal(check_of(&world).first_bad, 0);
    world_drop(&world);
}

TEST(a_damaged_file_is_not_gone_on_with)
{
    struct world world;
    snp_autofree char *text = NULL;
    size_t n = 0;
    size_t torn;
    snp_autotrajectory struct snp_trajectory *t = NULL;
    struct snp_err err;

    world_make(&world);
    file_get(&world, &text, &n);
    *strchr(text, 'a') = 'b';
    file_set(&world, text, n);
    assert_int_equal(snp_trajectory_resume(world.path, false, key, &t, &torn, &err), SNP_E_INVALID);
    assert_null(t);
    world_drop(&world);
}

TEST(one_writes_at_a_time_and_others_see_it)
{
    struct world world;
    size_t torn;
    struct snp_trajectory *first = NULL;
    struct snp_trajectory *second = NULL;
    struct snp_err err;

    world_make(&world);
    assert_false(snp_trajectory_is_written(world.path));
    assert_int_equal(snp_trajectory_resume(world.path, false, key, &first, &torn, &err), 0);
    assert_true(snp_trajectory_is_written(world.path));
    assert_int_equal(snp_trajectory_resume(world.path, false, key, &second, &torn, &err),
                     SNP_E_LIMIT);
    snp_trajectory_free(first);
    assert_false(snp_trajectory_is_written(world.path));
    world_drop(&world);
}

TEST(ids_are_found_by_their_beginning_and_nothing_else)
{
    struct world world;
    snp_autofree char *path = NULL;
    static const char *const bad[] = {"../x", "", "zz", "aa11-bb22.jsonl", "/etc/passwd"};
    struct snp_err err;

    world_make(&world);
    assert_int_equal(snp_trajectory_find(world.dir, "aa1", &path, &err), 0);
    assert_string_equal(path, world.path);
    for (size_t i = 0; i < SNP_ARRAY_LEN(bad); i++) {
        char *none = NULL;

        assert_int_equal(snp_trajectory_find(world.dir, bad[i], &none, &err), SNP_E_NOT_FOUND);
    }
    world_drop(&world);
}

TEST(who_wrote_a_record_is_known)
{
    static const unsigned char other[SNP_CHAIN_KEY] = "a key that is not that one: 32 b";
    struct world world;
    snp_autofree char *text = NULL;
    size_t n = 0;
    size_t torn;
    struct snp_trajectory_check check;
    snp_autotrajectory struct snp_trajectory *t = NULL;
    struct stat before;
    struct stat after;
    struct snp_err err;

    world_make(&world);
    assert_int_equal(snp_trajectory_own(world.path, key, &check, &err), 0);
    assert_int_equal(check.n_lines, STEPS + 1);
    assert_int_equal(check.n_foreign, 0);
    assert_int_equal(snp_trajectory_own(world.path, other, &check, &err), SNP_E_DENIED);
    assert_int_equal(check.n_foreign, STEPS + 1);

    /* A torn end stays where it is when the file is refused. */
    file_get(&world, &text, &n);
    file_set(&world, text, n - 5);
    assert_int_equal(stat(world.path, &before), 0);
    assert_int_equal(snp_trajectory_resume(world.path, false, other, &t, &torn, &err),
                     SNP_E_DENIED);
    assert_non_null(strstr(err.msg, "not made by this user on this machine"));
    assert_int_equal(stat(world.path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(snp_trajectory_resume(world.path, false, key, &t, &torn, &err), 0);
    assert_int_equal(stat(world.path, &after), 0);
    assert_true(after.st_size < before.st_size);
    world_drop(&world);
}

/* A chain that anybody can make: of lines as they are, with macs of others, or none. */
static size_t foreign_of(const struct world *world, const char *const *bodies, size_t n)
{
    struct snp_trajectory_check check;
    struct snp_chain chain;
    snp_autobuf struct snp_buf text = {0};
    struct snp_err err;

    snp_chain_init(&chain);
    snp_buf_init(&text, FILE_MAX);
    for (size_t i = 0; i < n; i++) {
        char hash[SNP_CHAIN_HEX + 1];

        assert_int_equal(snp_chain_next(&chain, bodies[i], strlen(bodies[i]), hash), 0);
        assert_int_equal(snp_buf_addf(&text, "%.*s,\"hash\":\"%s\"}\n", (int)strlen(bodies[i]) - 1,
                                      bodies[i], hash),
                         0);
    }
    file_set(world, snp_buf_bytes(&text), text.len);
    check = check_of(world);
    assert_int_equal(check.first_bad, 0); /* the chain is whole */
    (void)!snp_trajectory_own(world->path, key, &check, &err);
    return check.n_foreign;
}

TEST(a_mac_is_of_its_line_and_its_place)
{
    struct world world;
    struct snp_chain chain;
    char mac[SNP_CHAIN_HEX + 1];
    snp_autofree char *ours = NULL;
    snp_autofree char *changed = NULL;

    world_make(&world);
    snp_chain_init(&chain);
    assert_int_equal(snp_chain_mac(&chain, key, "{\"a\":1}", strlen("{\"a\":1}"), mac), 0);
    ours = snp_format("{\"a\":1,\"mac\":\"%s\"}", mac);
    changed = snp_format("{\"a\":2,\"mac\":\"%s\"}", mac);
    assert_int_equal(foreign_of(&world, (const char *const[]){ours}, 1), 0);
    assert_int_equal(foreign_of(&world, (const char *const[]){changed}, 1), 1);
    assert_int_equal(foreign_of(&world, (const char *const[]){"{\"a\":1}"}, 1), 1);
    assert_int_equal(foreign_of(&world, (const char *const[]){ours, ours}, 2), 1);
    assert_int_equal(foreign_of(&world, (const char *const[]){ours, "{\"b\":1}"}, 2), 1);
    assert_int_equal(foreign_of(&world, (const char *const[]){"{\"b\":1}", ours}, 2), 2);
    world_drop(&world);
}

TEST(only_the_process_on_record_is_told_to_stop)
{
    struct world world;
    size_t torn;
    snp_autotrajectory struct snp_trajectory *t = NULL;
    snp_autojson json_t *ours = snp_trajectory_process();
    snp_autojson json_t *other = json_deep_copy(ours);
    struct snp_err err;

    world_make(&world);
    assert_int_equal(snp_trajectory_stop(world.path, ours, SIGTERM, &err), SNP_E_NOT_FOUND);
    assert_int_equal(snp_trajectory_resume(world.path, false, key, &t, &torn, &err), 0);
    assert_int_equal(json_object_set_new(other, "start", json_integer(1)), 0);
    assert_int_equal(snp_trajectory_stop(world.path, other, SIGTERM, &err), SNP_E_UNSUPPORTED);
    world_drop(&world);
}

/* Where the user did not choose the folder nobody's link leads out of the current one. */
TEST(a_folder_nobody_chose_is_below)
{
    static const char *const out[] = {"link", "below/link/deep", "below/../link", "/tmp"};
    struct world world;
    char here[PATH_MAX];
    struct snp_err err;

    world_make(&world);
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(world.dir), 0);
    assert_int_equal(mkdir("below", 0700), 0);
    assert_int_equal(mkdir("out", 0700), 0);
    assert_int_equal(symlink("out", "link"), 0);
    assert_int_equal(symlink("../out", "below/link"), 0);
    for (size_t i = 0; i < SNP_ARRAY_LEN(out); i++) {
        snp_autotrajectory struct snp_trajectory *t = NULL;
        assert_int_equal(snp_trajectory_create(&(struct snp_trajectory_place){out[i], true}, "a",
                                               key, json_object(), &t, &err),
                         SNP_E_DENIED);
    }
    assert_int_equal(rmdir("out"), 0); /* nothing is in it */
    snp_autotrajectory struct snp_trajectory *t = NULL;
    assert_int_equal(snp_trajectory_create(&(struct snp_trajectory_place){"./below//deep", true},
                                           "a", key, json_object(), &t, &err),
                     0);
    assert_int_equal(unlink("below/deep/a.jsonl"), 0);
    assert_int_equal(rmdir("below/deep"), 0);
    assert_int_equal(unlink("below/link"), 0);
    assert_int_equal(rmdir("below"), 0);
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(chdir(here), 0);
    world_drop(&world);
}

RUN(UNIT(what_was_written_is_intact_and_private),
    UNIT(every_changed_byte_is_found),
    UNIT(a_line_that_is_missing_moved_or_put_in_is_found),
    UNIT(corrupt_lines_are_counted_and_passed_over),
    UNIT(a_torn_end_is_cut_off_and_the_chain_goes_on),
    UNIT(a_damaged_file_is_not_gone_on_with),
    UNIT(one_writes_at_a_time_and_others_see_it),
    UNIT(ids_are_found_by_their_beginning_and_nothing_else),
    UNIT(who_wrote_a_record_is_known),
    UNIT(a_mac_is_of_its_line_and_its_place),
    UNIT(only_the_process_on_record_is_told_to_stop),
    UNIT(a_folder_nobody_chose_is_below))
