/* SPDX-License-Identifier: Apache-2.0 */
#include "base/policy/guarantee.h"

#include <string.h>

#include "base/buf.h"
#include "base/str.h"

enum {
    TEXT_MAX = 2048
};

/* Each guarantee, and how to get it. */
static const struct {
    const char *name;
    const char *way;
} rows[] = {
    {"network", "every built-in tier gives it"},
    {"filesystem", "every built-in tier gives it"},
    {"syscalls", "every built-in tier gives it"},
    {"resources", "use --env native or docker"},
    {"disposable", "every built-in tier gives it"},
    {"namespaces", "use --env native or docker"},
    {"kernel",
     "use --env docker with docker_runtime = \"runsc\": gVisor, which the container engine "
     "must know"},
};

int snp_guarantee_check(const char *name, struct snp_err *err)
{
    const char *names[SNP_ARRAY_LEN(rows)];
    const char *nearest;

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (snp_streq(rows[i].name, name)) {
            return 0;
        }
        names[i] = rows[i].name;
    }
    nearest = snp_suggest(name, names, SNP_ARRAY_LEN(rows));
    return snp_fail(err, SNP_E_INVALID,
                    "no guarantee \"%.32s\"%s%s%s; use network, filesystem, syscalls, "
                    "resources, disposable, namespaces or kernel",
                    name, nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest,
                    nearest == NULL ? "" : "?");
}

static bool has(const json_t *list, const char *name)
{
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)list, i, one)
    {
        if (snp_streq(json_string_value(one), name)) {
            return true;
        }
    }
    return false;
}

/* Shims have longer names: io.containerd.runsc.v1. */
static bool has_kernel(const json_t *about, const char *runtime)
{
    size_t i;
    json_t *one;

    json_array_foreach(json_object_get(about, "kernels"), i, one)
    {
        if (runtime != NULL && strstr(runtime, json_string_value(one)) != NULL) {
            return true;
        }
    }
    return false;
}

int snp_guarantees_of(const char *tier,
                      const json_t *about,
                      const char *runtime,
                      const json_t *wanted,
                      struct snp_err *err)
{
    snp_autobuf struct snp_buf text = {0};
    size_t i;
    json_t *one;

    snp_buf_init(&text, TEXT_MAX);
    json_array_foreach((json_t *)(uintptr_t)wanted, i, one)
    {
        const char *name = json_string_value(one);
        const char *way = "";

        SNP_TRY(snp_guarantee_check(name == NULL ? "" : name, err));
        if (has(json_object_get(about, "guarantees"), name) ||
            (snp_streq(name, "kernel") && has_kernel(about, runtime))) {
            continue;
        }
        for (size_t k = 0; k < SNP_ARRAY_LEN(rows); k++) {
            way = snp_streq(rows[k].name, name) ? rows[k].way : way;
        }
        (void)!snp_buf_addf(&text, "%s%s (%s)", text.len == 0 ? "" : ", ", name, way);
    }
    return text.len == 0
               ? 0
               : snp_fail(err, SNP_E_UNSUPPORTED, "the %.32s tier does not guarantee %.400s", tier,
                          snp_buf_cstr(&text));
}

int snp_guarantees_in(const char *tier,
                      const json_t *manifest,
                      const json_t *wanted,
                      struct snp_err *err)
{
    const json_t *controls = json_object_get(manifest, "controls");
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)wanted, i, one)
    {
        const char *name = json_string_value(one);
        const json_t *control = name == NULL ? NULL : json_object_get(controls, name);

        if (!snp_json_bool(control, "enforced", true)) {
            return snp_fail(err, SNP_E_UNSUPPORTED,
                            "the %.32s tier does not guarantee %.32s here (%.200s)", tier, name,
                            snp_json_str(control, "how", "see manifest.degraded"));
        }
    }
    return 0;
}
