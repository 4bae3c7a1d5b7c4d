/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bundle's reader, whose bytes come from an archive that anybody may have made. The first
 * byte chooses the part, the rest is the stream. Reading ends; what it hands out keeps within
 * its bounds; a path that is taken is below the folder and has one text only.
 */
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "fuzz/target.h"
#include "guest/files/bundle.h"

static void check_item(const struct snp_bundle_item *item)
{
    char path[SNP_BUNDLE_PATH_LEN];
    char text[SNP_BUNDLE_NAME_LEN];

    SNP_ASSERT((unsigned)item->kind < SNP_BUNDLE_KINDS);
    SNP_ASSERT(item->name[0] != '\0' && strlen(item->name) <= SNP_BUNDLE_HEAD_MAX);
    SNP_ASSERT(strlen(item->key) <= SNP_BUNDLE_KEY_LEN);
    SNP_ASSERT(item->mode <= 07777);
    if (snp_bundle_to_path(item->name, path) < 0) {
        return;
    }
    SNP_ASSERT(snp_bundle_from_path(path, text) == 0 && strcmp(text, item->name) == 0);
    if (snp_bundle_is_path(path)) {
        SNP_ASSERT(path[0] != '/' && path[0] != '\0' && path[strlen(path) - 1] != '/');
        SNP_ASSERT(strncmp(path, "../", 3) != 0 && strstr(path, "/../") == NULL);
        SNP_ASSERT(strcmp(path, "..") != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct snp_bundle_in in;
    struct snp_bundle_frame frame;
    const char *part = n > 0 && (bytes[0] & 1U) != 0 ? "vars" : "files";
    uint64_t items = 0;
    uint64_t total = 0;
    int fd = memfd_create("bundle", MFD_CLOEXEC);

    SNP_ASSERT(fd >= 0);
    SNP_ASSERT(n < 2 || snp_write_all(fd, bytes + 1, n - 1) == 0);
    SNP_ASSERT(lseek(fd, 0, SEEK_SET) == 0);
    SNP_ASSERT(snp_bundle_in_init(&in, fd) == 0);
    while (snp_bundle_next(&in, part, &frame) == 0) {
        total += frame.n;
        SNP_ASSERT(frame.n <= SNP_BUNDLE_RAW_MAX && total <= n);
        if (frame.type == SNP_BUNDLE_ITEM) {
            items++;
            check_item(&frame.item);
        } else if (frame.type == SNP_BUNDLE_END) {
            SNP_ASSERT(in.is_at_end && in.left == 0 && in.items == items);
        }
    }
    snp_bundle_in_done(&in);
    (void)close(fd);
    return 0;
}
