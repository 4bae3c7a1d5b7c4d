/* SPDX-License-Identifier: Apache-2.0 */
/* Pins of tools' definitions. */
#include "mcp/client/fingerprints.h"

#include <string.h>

#include "base/fd.h"
#include "base/mcp/tooldef.h"
#include "base/str.h"

enum {
    FILE_MAX = 1 << 20,
};

int snp_mcp_fingerprints_read(const char *path, json_t **ret, struct snp_err *err)
{
    snp_autofree char *text = NULL;
    size_t n = 0;
    int r = snp_file_read(path, FILE_MAX, &text, &n, err);

    *ret = NULL;
    if (r == SNP_E_NOT_FOUND) {
        return 0;
    }
    r = r < 0 ? r : snp_json_parse(text, n, ret, err);
    return r < 0 ? snp_err_wrap(err, "fingerprints %.200s", path) : 0;
}

int snp_mcp_fingerprints_write(const char *path, const json_t *tools, struct snp_err *err)
{
    snp_autojson json_t *prints = json_object();
    snp_autofree char *text = NULL;
    char print[SNP_MCP_FINGERPRINT_LEN + 1];
    size_t i;
    json_t *tool;
    int r = 0;

    json_array_foreach(tools, i, tool)
    {
        r = r < 0 ? r : snp_mcp_tooldef_fingerprint(tool, print, err);
        if (r == 0 &&
            json_object_set_new(prints, snp_json_str(tool, "name", ""), json_string(print)) < 0) {
            r = snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    text = r < 0 ? NULL : json_dumps(prints, JSON_INDENT(2) | JSON_SORT_KEYS);
    if (text == NULL) {
        return r < 0 ? r : snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return snp_file_write_atomic(path, text, strlen(text), 0644, err);
}

/* Whether a tool equals its pin; *ret_known: whether it is pinned. */
static int same(
    const json_t *prints, const json_t *tool, bool *ret_known, bool *ret_same, struct snp_err *err)
{
    char print[SNP_MCP_FINGERPRINT_LEN + 1];
    const char *before = snp_json_str(prints, snp_json_str(tool, "name", ""), NULL);
    int r = snp_mcp_tooldef_fingerprint(tool, print, err);

    *ret_known = before != NULL;
    *ret_same = r == 0 && snp_streq(before, print);
    return r;
}

int snp_mcp_fingerprints_compare(const json_t *prints,
                                 const json_t *tools,
                                 json_t **ret,
                                 struct snp_err *err)
{
    snp_autojson json_t *made = json_pack("{s:[], s:[], s:[]}", "changed", "new", "gone");
    snp_autojson json_t *left = json_copy((json_t *)(uintptr_t)prints);
    const char *name;
    json_t *value;
    size_t i;
    json_t *tool;

    json_array_foreach(tools, i, tool)
    {
        bool is_known = false;
        bool is_same = false;
        int r = same(prints, tool, &is_known, &is_same, err);

        if (r < 0) {
            return r;
        }
        if (!is_same && json_array_append(json_object_get(made, is_known ? "changed" : "new"),
                                          json_object_get(tool, "name")) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        (void)json_object_del(left, snp_json_str(tool, "name", ""));
    }
    json_object_foreach(left, name, value)
    {
        if (json_array_append_new(json_object_get(made, "gone"), json_string(name)) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    if (made == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *ret = SNP_TAKE_PTR(made);
    return 0;
}

int snp_mcp_fingerprints_check(const json_t *prints, const json_t *tool, struct snp_err *err)
{
    bool is_known = false;
    bool is_same = false;
    int r = same(prints, tool, &is_known, &is_same, err);

    if (r < 0 || is_same) {
        return r;
    }
    return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_FINGERPRINTS, NULL, 0,
                         is_known
                             ? "the definition of tool '%s' changed since its fingerprint was saved"
                             : "tool '%s' has no saved fingerprint",
                         snp_json_str(tool, "name", ""));
}
