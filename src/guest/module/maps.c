/* SPDX-License-Identifier: Apache-2.0 */
/* Long lines of /proc/self/maps, which are of no mapping that we need, are skipped in pieces. */
#include "guest/module/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/fd.h"

void snp_maps_open(struct snp_maps *maps)
{
    maps->list = fopen("/proc/self/maps", "re");
    if (maps->list != NULL) { /* else in pieces of 1 KiB */
        (void)setvbuf(maps->list, maps->buffer, _IOFBF, sizeof(maps->buffer));
    }
    maps->page_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

void snp_maps_close(struct snp_maps *maps)
{
    if (maps->list != NULL) {
        (void)fclose(maps->list);
    }
    maps->list = NULL;
    snp_closep(&maps->page_fd);
}

/* Read a hexadecimal number at *at, and skip it and the character end. */
static bool read_hex(const char **at, char end, uintptr_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    const char *digit;

    *ret = 0;
    for (; **at != '\0' && (digit = strchr(digits, **at)) != NULL; (*at)++) {
        *ret = *ret * 16 + (uintptr_t)(digit - digits);
    }
    return *(*at)++ == end;
}

bool snp_map_read(const char *line, struct snp_map *ret)
{
    static const char no_file[] = "00:00 0 ";
    const int data = PROT_READ | PROT_WRITE;
    const char *at = line;

    if (!read_hex(&at, '-', &ret->start) || !read_hex(&at, ' ', &ret->end) || strlen(at) < 5) {
        return false;
    }
    ret->prot = (at[0] == 'r' ? PROT_READ : 0) | (at[1] == 'w' ? PROT_WRITE : 0) |
                (at[2] == 'x' ? PROT_EXEC : 0);
    ret->is_shared = at[3] != 'p';
    ret->is_private = !ret->is_shared && ret->prot == data;
    at += strlen("rw-p ");
    if (!read_hex(&at, ' ', &ret->offset)) {
        return false;
    }
    ret->has_file = strncmp(at, no_file, strlen(no_file)) != 0;
    at += strcspn(at, " ");
    at += strspn(at, " ");
    for (ret->file = 0; *at >= '0' && *at <= '9'; at++) {
        ret->file = ret->file * 10 + (uint64_t)(*at - '0');
    }
    ret->name = at + strspn(at, " ");
    ret->is_stack = !ret->has_file && strncmp(ret->name, "[stack]", strlen("[stack]")) == 0;
    return true;
}

bool snp_maps_next(struct snp_maps *maps, struct snp_map *ret)
{
    while (maps->list != NULL && fgets(maps->line, sizeof(maps->line), maps->list) != NULL) {
        if (snp_map_read(maps->line, ret)) {
            return true;
        }
    }
    return false;
}

bool snp_maps_pages(int page_fd, uintptr_t start, size_t n, uint64_t *ret)
{
    const size_t len = n * sizeof(*ret);
    const off_t at = (off_t)(start / (size_t)sysconf(_SC_PAGESIZE) * sizeof(*ret));

    return page_fd >= 0 && SNP_RETRY(pread(page_fd, ret, len, at)) == (ssize_t)len;
}

void *snp_maps_at(uint64_t address)
{
    uintptr_t number = (uintptr_t)address;
    void *at;

    memcpy(&at, &number, sizeof(at)); /* from a number it must come */
    return at;
}
