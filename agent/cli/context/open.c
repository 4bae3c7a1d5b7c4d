/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/context/open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/cli/project_dir.h"
#include "base/cli/term.h"
#include "base/str.h"
#include "base/text/text.h"

int snp_context_open(const char *dir, bool rebuild, struct snp_index *ret, struct snp_err *err)
{
    snp_autofree char *real = NULL;

    SNP_TRY(snp_project_dir(dir, &real, err));
    return snp_index_open(real, rebuild, ret, err);
}

int snp_context_update(struct snp_cli *cli,
                       const struct snp_opts *opts,
                       struct snp_index *ret,
                       struct snp_err *err)
{
    struct snp_index_report report;
    int r;

    SNP_TRY(snp_context_open(snp_opts_str(opts, "dir"), false, ret, err));
    r = snp_index_refresh(ret, false, NULL, NULL, &report, err);
    if (r < 0) {
        snp_index_close(ret);
        return r;
    }
    if (report.is_busy) {
        snp_cli_warn(cli, "another process is updating the index; the latest changes may be "
                          "missing");
    }
    return 0;
}

int snp_context_fresh(struct snp_cli *cli,
                      const struct snp_opts *opts,
                      struct snp_index *ret,
                      struct snp_err *err)
{
    int r;

    SNP_TRY(snp_context_update(cli, opts, ret, err));
    r = snp_db_exec(&ret->db, "BEGIN", err);
    if (r < 0) {
        snp_index_close(ret);
    }
    return r;
}

char *snp_context_path(const struct snp_index *index, const char *path)
{
    snp_autofree char *real = realpath(path, NULL);
    size_t n = strlen(index->root);

    return snp_need_copy(
        real != NULL && strncmp(real, index->root, n) == 0 && real[n] == '/' ? real + n + 1 : path);
}

int snp_context_number(const struct snp_opts *opts,
                       const char *name,
                       struct snp_context_range range,
                       uint64_t *ret,
                       struct snp_err *err)
{
    int64_t value = snp_opts_int(opts, name, range.fallback);

    if (value < range.min || value > range.max) {
        return snp_fail(err, SNP_E_INVALID, "--%s must be %lld to %lld", name, (long long)range.min,
                        (long long)range.max);
    }
    *ret = (uint64_t)value;
    return 0;
}

int snp_context_print(const char *text, size_t n, struct snp_err *err)
{
    return snp_term_write(stdout, text, n) < 0 ? snp_fail_sys(err, errno, "write") : 0;
}

int snp_context_end(struct snp_cli *cli, int r, const struct snp_err *err, json_t *answer)
{
    if (r == 0 && answer == NULL) {
        return fflush(stdout) == 0 ? SNP_EXIT_OK : SNP_EXIT_FAILED;
    }
    if (r == 0) {
        (void)json_object_set_new(answer, "untrusted", json_string(SNP_TEXT_OF_PROJECT));
    }
    return snp_cli_end(cli, r, err, answer);
}
