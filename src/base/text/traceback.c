/* SPDX-License-Identifier: Apache-2.0 */
/* Tracebacks. */
#include "base/text/traceback.h"

#include <stdbool.h>
#include <string.h>

/* Paths of libraries in any interpreter and template. */
static const char *const libraries[] = {"<frozen ", "/lib/python3", "/site-packages/",
                                        "/dist-packages/"};

/* Whether a line begins a frame, and whether the frame is the user's code. */
static bool is_frame(const char *line, size_t n, bool *ret_own)
{
    static const char begin[] = "  File \"";
    const char *file = line + sizeof(begin) - 1;
    const char *end;

    if (n < sizeof(begin) || strncmp(line, begin, sizeof(begin) - 1) != 0) {
        return false;
    }
    end = memchr(file, '"', n - (sizeof(begin) - 1));
    *ret_own = true;
    for (size_t i = 0; i < SNP_ARRAY_LEN(libraries) && end != NULL; i++) {
        *ret_own = *ret_own &&
                   memmem(file, (size_t)(end - file), libraries[i], strlen(libraries[i])) == NULL;
    }
    return true;
}

int snp_traceback_own(struct snp_buf *out, const char *text, size_t n, size_t *ret_frames)
{
    bool is_shown = true;
    bool is_own = true;
    size_t hidden = 0;
    int r = 0;

    *ret_frames = 0;
    while (n > 0 && text[n - 1] == '\n') {
        n--;
    }
    while (n > 0 && r == 0) {
        const char *end = memchr(text, '\n', n);
        size_t len = end == NULL ? n : (size_t)(end - text) + 1;

        if (is_frame(text, len, &is_own)) {
            is_shown = is_own;
            hidden += is_own ? 0 : 1;
            *ret_frames += is_own ? 1 : 0;
        } else if (text[0] != ' ') {
            is_shown = true; /* the exception, or the start of another one */
        }
        if (is_shown && hidden > 0) {
            r = snp_buf_addf(out, "  (%zu of libraries)\n", hidden);
            hidden = 0;
        }
        r = r < 0 || !is_shown ? r : snp_buf_add(out, text, len);
        text += len;
        n -= len;
    }
    return r;
}
