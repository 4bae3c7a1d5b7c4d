/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of an exported session, up to its bundle (which fuzz_stream reads). What passes
 * must keep the promises that import relies on.
 */
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/str.h"
#include "daemon/archive/archive.h"
#include "fuzz/target.h"

static void check_spec(const struct snp_archive *archive)
{
    struct snp_archive_policy most = {.tier = "native", .is_auto = true};
    snp_autojson json_t *notes = json_array();
    snp_autofree char *text = NULL;
    snp_autojson json_t *spec = NULL;
    struct snp_limits limits;
    struct snp_err err = {0};

    snp_limits_default(&most.limits);
    if (snp_archive_spec(archive, &most, notes, &text, &err) < 0) {
        SNP_ASSERT(err.msg[0] != '\0');
        return;
    }
    SNP_ASSERT(snp_json_parse(text, strlen(text), &spec, &err) == 0);
    snp_limits_default(&limits);
    SNP_ASSERT(snp_limits_from_json(json_object_get(spec, "limits"), &limits, &err) == 0);
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        SNP_ASSERT(limits.value[i] <= most.limits.value[i]);
    }
    SNP_ASSERT(json_is_null(json_object_get(spec, "project")));
    SNP_ASSERT(json_is_null(json_object_get(spec, "rootfs")));
    SNP_ASSERT(!snp_json_bool(spec, "allow_degraded", true));
    SNP_ASSERT(snp_streq(snp_json_str(spec, "tier", NULL), "native"));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    snp_autoclose int fd = memfd_create("import", MFD_CLOEXEC);
    struct snp_archive archive = {0};
    struct snp_err err = {0};

    SNP_ASSERT(fd >= 0 && snp_write_all(fd, bytes, n) == 0);
    if (snp_archive_read(fd, &archive, &err) < 0) {
        SNP_ASSERT(err.msg[0] != '\0' && archive.spec == NULL && archive.lost == NULL);
        return 0;
    }
    SNP_ASSERT(archive.name[0] == '\0' || snp_session_name_check(archive.name, &err) == 0);
    SNP_ASSERT(archive.n_cells <= SNP_ARCHIVE_CELLS_MAX && archive.cells_at > 0);
    SNP_ASSERT(archive.bundle_at >= archive.cells_at && (size_t)archive.bundle_at < n);
    check_spec(&archive);
    snp_archive_done(&archive);
    return 0;
}
