/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets of a project: found by name and content, cut out of a git configuration. */
#include "tier/engine/secrets.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "unit/harness.h"

enum {
    MASK_MAX = 1 << 20
};

struct tree {
    char dir[32];
    int fd;
    struct snp_buf mask;
    json_t *paths;
};

static int setup(void **state)
{
    struct tree *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        return -1;
    }
    (void)snprintf(t->dir, sizeof(t->dir), "/tmp/snp-secrets-XXXXXX");
    if (mkdtemp(t->dir) == NULL) {
        free(t);
        return -1;
    }
    t->fd = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    t->paths = json_array();
    snp_buf_init(&t->mask, MASK_MAX);
    *state = t;
    return t->fd < 0 ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct tree *t = *state;

    (void)nftw(t->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    snp_closep(&t->fd);
    json_decref(t->paths);
    snp_buf_done(&t->mask);
    free(t);
    return 0;
}

/* Make a file and the folders above it. */
static void plant(const struct tree *t, const char *path, const char *text)
{
    snp_autofree char *copy = strdup(path);
    snp_autoclose int fd = -1;

    assert_non_null(copy);
    for (char *slash = strchr(copy, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdirat(t->fd, copy, 0755);
        *slash = '/';
    }
    fd = openat(t->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(snp_write_all(fd, text, strlen(text)), 0);
}

static void scan(struct tree *t)
{
    struct snp_err err;

    assert_int_equal(snp_secrets_scan(t->fd, &t->mask, t->paths, &err), 0);
}

static bool is_hidden(const struct tree *t, const char *path)
{
    size_t i;
    json_t *hidden;

    json_array_foreach(t->paths, i, hidden)
    {
        if (snp_streq(json_string_value(hidden), path)) {
            return true;
        }
    }
    return false;
}

TEST(secrets_are_found_by_name)
{
    static const char *const secret[] = {
        ".env",
        ".env.production",
        "a/b/.env",
        "prod.env",
        "id_rsa",
        "id_rsa.bak",
        "id_ecdsa_sk",
        "sub/id_ed25519",
        "id_ed25519-work",
        "id_dsa.old",
        ".netrc",
        ".pypirc",
        ".npmrc",
        ".my.cnf",
        ".vault-token",
        ".docker/config.json",
        "x/.DOCKER/config.json",
        ".cargo/credentials.toml",
        ".cargo/credentials",
        "prod.tfvars",
        "prod.auto.tfvars.json",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "kubeconfig",
        "prod.kubeconfig",
        "x/store.p12",
        ".git-credentials",
        "X/.ENV",
        "client_secret_1.json",
    };
    static const char *const plain[] = {
        "env.py",
        "id_rsa.pub",
        "id_ed25519-work.pub",
        "id_map.csv",
        "id_cards.py",
        "readme",
        "a/b/c",
        "environment",
        "config.json",
        "docker/config.json",
        "x.docker/config.json",
        "credentials.toml",
        "cargo/credentials",
        "tfvars.md",
        "kubeconfig.py",
        "main.tf",
        "my.cnf",
        "client_secret.py",
    };
    struct tree *t = *state;

    for (size_t i = 0; i < SNP_ARRAY_LEN(secret); i++) {
        plant(t, secret[i], "s");
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(plain); i++) {
        plant(t, plain[i], "p");
    }
    scan(t);
    for (size_t i = 0; i < SNP_ARRAY_LEN(secret); i++) {
        if (!is_hidden(t, secret[i])) {
            fail_msg("%s", secret[i]);
        }
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(plain); i++) {
        if (is_hidden(t, plain[i])) {
            fail_msg("%s", plain[i]);
        }
    }
    assert_int_equal(json_array_size(t->paths), SNP_ARRAY_LEN(secret));
}

TEST(keys_are_told_from_certificates_by_content)
{
    struct tree *t = *state;
    static char chain[150000];
    static const char last[] = "-----BEGIN PRIVATE KEY-----\nx\n";

    plant(t, "key.pem", "-----BEGIN EC PRIVATE KEY-----\nx\n");
    plant(t, "server.KEY", "-----BEGIN PRIVATE KEY-----\nx\n");
    plant(t, "cert.pem", "-----BEGIN CERTIFICATE-----\nx\n");
    plant(t, "empty.key", "");
    plant(t, "key.der", "\x30\x82\x04\xa5\x02\x01\x03\x02\x01");
    plant(t, "cert.der", "\x30\x82\x04\xa5\x30\x82\x03\x8d");
    (void)memset(chain, 'A', sizeof(chain) - 1);
    plant(t, "bundle.pem", chain);
    memcpy(chain + sizeof(chain) - 1 - strlen(last), last, strlen(last) + 1);
    plant(t, "chain.pem", chain);
    scan(t);
    assert_true(is_hidden(t, "key.der"));
    assert_false(is_hidden(t, "cert.der"));
    assert_true(is_hidden(t, "chain.pem"));
    assert_false(is_hidden(t, "bundle.pem"));
    assert_true(is_hidden(t, "key.pem"));
    assert_true(is_hidden(t, "server.KEY"));
    assert_false(is_hidden(t, "cert.pem"));
    assert_false(is_hidden(t, "empty.key"));
}

/* Whatever their names; what only speaks of keys stays, and so do sources and data. */
TEST(files_of_keys_are_found_by_what_they_are)
{
#define PEM "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n"
    static const struct {
        const char *path;
        const char *text;
        bool is_hidden;
    } cases[] = {
        {"deploy", PEM, true},
        {"a/b/deploy.txt", "\xef\xbb\xbf\n " PEM, true},
        {"old.bak", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n" PEM, true},
        {"exported", "Bag Attributes\n  x: y\nKey Attributes: <No Attributes>\n" PEM, true},
        {"putty", "PuTTY-User-Key-File-3: ssh-rsa\n", true},
        {"age", "# created: now\n# public key: age1\nAGE-SECRET-KEY-1QQ\n", true},
        {"proj-1a2b.json", "{\"type\": \"x\", \"private_key\": \"-----BEGIN PRIVATE KEY-----\\n\"}",
         true},
        {".git/hooks/key", PEM, true},
        {"notes.txt", "A key begins with\n" PEM, false},
        {"id_map.csv", PEM, false},
        {"test_keys.py", "KEY =  PEM \n", false},
        {"chain", "-----BEGIN CERTIFICATE-----\nx\n", false},
        {"schema.json", "{\"private_key\": {\"type\": \"string\"}}", false},
        {"empty", "", false},
        {"binary", "\x30\x82\x04\xa5\x02\x01", false},
    };
    struct tree *t = *state;

    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        plant(t, cases[i].path, cases[i].text);
    }
    assert_int_equal(symlinkat("deploy", t->fd, "link"), 0); /* leads to what is hidden */
    assert_int_equal(mkfifoat(t->fd, "fifo", 0600), 0);
    scan(t);
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        if (is_hidden(t, cases[i].path) != cases[i].is_hidden) {
            fail_msg("%s", cases[i].path);
        }
    }
}

TEST(a_folder_of_secrets_is_hidden_once)
{
    struct tree *t = *state;

    plant(t, ".ssh/config", "x");
    plant(t, ".ssh/id_rsa", "x");
    scan(t);
    assert_true(is_hidden(t, ".ssh"));
    assert_int_equal(json_array_size(t->paths), 1);
}

TEST(links_are_hidden_by_name_and_not_followed)
{
    struct tree *t = *state;

    assert_int_equal(symlinkat("/etc/hostname", t->fd, ".env"), 0);
    assert_int_equal(symlinkat(".", t->fd, "loop"), 0);
    assert_int_equal(symlinkat("/", t->fd, "root"), 0);
    scan(t);
    assert_true(is_hidden(t, ".env"));
    assert_int_equal(json_array_size(t->paths), 1);
}

TEST(a_fifo_with_a_secret_name_blocks_nobody)
{
    struct tree *t = *state;

    assert_int_equal(mkfifoat(t->fd, "x.pem", 0600), 0);
    assert_int_equal(mkdirat(t->fd, ".git", 0755), 0);
    assert_int_equal(mkfifoat(t->fd, ".git/config", 0600), 0);
    scan(t);
    assert_true(is_hidden(t, ".git/config")); /* what cannot be checked is not shown */
}

TEST(folders_nested_too_deep_are_refused)
{
    struct tree *t = *state;
    struct snp_err err;
    snp_autobuf struct snp_buf path = {0};

    snp_buf_init(&path, 4096);
    for (int i = 0; i < SNP_SECRETS_DEPTH_MAX + 2; i++) {
        assert_int_equal(snp_buf_adds(&path, "d/"), 0);
        assert_int_equal(mkdirat(t->fd, snp_buf_cstr(&path), 0755), 0);
    }
    assert_int_equal(snp_secrets_scan(t->fd, &t->mask, t->paths, &err), SNP_E_LIMIT);
}

TEST(records_of_the_mask_are_whole)
{
    struct tree *t = *state;
    const char *at;

    plant(t, ".env", "s");
    plant(t, ".git/config", "[remote]\n\turl = https://u:p@host/r\n");
    plant(t, "sub/.gitmodules", "[submodule \"a\"]\n\turl = https://u:p@host/r\n");
    plant(t, ".git/worktrees/w/config.worktree", "[other]\n\tpat = x\n");
    scan(t);
    assert_true(is_hidden(t, "sub/.gitmodules"));
    assert_true(is_hidden(t, ".git/worktrees/w/config.worktree"));
    assert_false(memmem(t->mask.data, t->mask.len, "u:p", 3) != NULL);
    at = snp_buf_bytes(&t->mask);
    for (size_t left = t->mask.len; left > 0;) {
        uint32_t len;
        size_t name_len = strnlen(at + 1, left - 1);
        assert_true(at[0] == 'w' || at[0] == 'f');
        memcpy(&len, at + 1 + name_len + 1, sizeof(len));
        assert_true(at[0] == 'f' || len == 0);
        assert_true(1 + name_len + 1 + 4 + len <= left);
        left -= 1 + name_len + 1 + 4 + len;
        at += 1 + name_len + 1 + 4 + len;
    }
}

static void assert_cleaned(const char *text, const char *expected)
{
    bool changed = false;
    snp_autofree char *clean = snp_secrets_clean_git_config(text, &changed);

    assert_non_null(clean);
    assert_string_equal(clean, expected);
    assert_int_equal(changed, strcmp(text, expected) != 0);
}

TEST(git_configurations_lose_their_credentials_only)
{
    assert_cleaned("", "");
    assert_cleaned("[core]\n\tbare = false\n", "[core]\n\tbare = false\n");
    assert_cleaned("\turl = https://host/r.git\n", "\turl = https://host/r.git\n");
    assert_cleaned("\turl = https://me:pw@host/r.git\n", "\turl = https://host/r.git\n");
    assert_cleaned("\turl = https://tok@en@host/r", "\turl = https://host/r");
    assert_cleaned("\turl = git@host:r.git\n", "\turl = git@host:r.git\n");
    assert_cleaned("[http]\n\textraHeader = A: b\n[core]\n", "[http]\n[core]\n");
    assert_cleaned("\thelper = store\n\tname = me\n", "\tname = me\n");
    assert_cleaned("\tPassword = x", "");
    assert_cleaned("\tsmtpPass = x\n", "");
}

/* What other programs keep there can be anything. */
TEST(git_configurations_show_the_sections_of_git_only)
{
    assert_cleaned(
        "[core]\n\tbare = false\n[github]\n\toauth = 1a2b\n\tx = y\n [ Core ]\n\ta = b\n",
        "[core]\n\tbare = false\n [ Core ]\n\ta = b\n");
    assert_cleaned("[core] [github]\n\toauth = 1a2b\n", "");
    assert_cleaned("[hub]oauth=1a2b\n[branch \"m\"]\n\tmerge = refs/heads/m\n",
                   "[branch \"m\"]\n\tmerge = refs/heads/m\n");
    assert_cleaned("[remote \"o\"]\n\turl = me:pw@host:r.git\n\tpushurl = git@host:r.git\n",
                   "[remote \"o\"]\n\tpushurl = git@host:r.git\n");
    assert_cleaned("[remote \"o\"]\n\turl = https://host/r?x=ghp_123\n", "[remote \"o\"]\n");
    assert_cleaned("[alias]\n\tup = !curl -H 'X: 1a2b' host\n", "");
}

/* Git reads on past the first URL of a line, past a break in a value, and past a NUL. */
TEST(git_configurations_are_understood_as_git_does)
{
    assert_cleaned("[url \"https://a:b@x/\"] insteadOf = https://c:d@y/\n",
                   "[url \"https://x/\"] insteadOf = https://y/\n");
    assert_cleaned("\turl = https://me:\\\npw@host/r.git\n\tx = y\n", "\tx = y\n");
    assert_cleaned("\turl = https://me:\\\r\npw@host/r.git\r\n\tx = y\r\n", "\tx = y\r\n");
    assert_cleaned("\tname = a\\\nb\n", "\tname = a\\\nb\n");
}

TEST(git_configurations_that_hold_a_nul_are_hidden)
{
    static const char text[] = "[a]\n\0[remote \"o\"]\n\turl = https://me:pw@host/\n";
    struct tree *t = *state;
    snp_autoclose int fd = -1;

    plant(t, ".git/config", "");
    fd = openat(t->fd, ".git/config", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(snp_write_all(fd, text, sizeof(text) - 1), 0);
    scan(t);
    assert_true(is_hidden(t, ".git/config"));
    assert_int_equal(snp_buf_bytes(&t->mask)[0], 'w');
}

#define IN_TREE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

RUN(IN_TREE(secrets_are_found_by_name),
    IN_TREE(keys_are_told_from_certificates_by_content),
    IN_TREE(files_of_keys_are_found_by_what_they_are),
    IN_TREE(a_folder_of_secrets_is_hidden_once),
    IN_TREE(links_are_hidden_by_name_and_not_followed),
    IN_TREE(a_fifo_with_a_secret_name_blocks_nobody),
    IN_TREE(folders_nested_too_deep_are_refused),
    IN_TREE(records_of_the_mask_are_whole),
    UNIT(git_configurations_lose_their_credentials_only),
    UNIT(git_configurations_show_the_sections_of_git_only),
    UNIT(git_configurations_are_understood_as_git_does),
    IN_TREE(git_configurations_that_hold_a_nul_are_hidden))
