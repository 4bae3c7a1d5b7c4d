/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_ROUTE_H
#define SNP_MODEL_ROUTE_H

/* The provider of a model's name, its address, and its key. */

#include "base/config/config.h"
#include "model/driver.h"

enum {
    SNP_MODEL_ENV_NAMES = 3
};

struct snp_model_route {
    const char *name;                      /* of the provider, also its prefix: "mistral/..." */
    const struct snp_model_driver *driver; /* NULL = replay */
    const char *base_url;                  /* NULL = must be set */
    const char *key_header;                /* text before the key, including the header's name */
    const char *base_env[SNP_MODEL_ENV_NAMES];
    const char *key_env[SNP_MODEL_ENV_NAMES];
    const char *base_suffix; /* appended to a base from these variables; NULL = none */
    const char *version_env; /* Azure */
    const char *version;
    bool needs_no_key;
};

/* The i-th route; NULL past the end. */
const struct snp_model_route *snp_model_route_at(size_t i);

enum snp_model_key_kind {
    SNP_MODEL_KEY_NONE = 0,
    SNP_MODEL_KEY_TEXT,
    SNP_MODEL_KEY_FILE,
    SNP_MODEL_KEY_COMMAND,
};

/* The destination of a request. */
struct snp_model_target {
    const struct snp_model_route *route;
    char *model;    /* owned; the provider's name of it */
    char *base_url; /* owned; NULL for replay */
    bool is_origin; /* the provider's own service */
    const char *api_version;
    enum snp_model_key_kind key_kind;
    const char *key_value;   /* borrowed from config: the key, the file's path, or the command */
    char key_name[64];       /* "OPENAI_API_KEY_FILE"; "" = none */
    const char *replay_file; /* borrowed from config, or a suffix of model */
};

/*
 * Find the route. name NULL or "" = the configured one; defaults: {"openai": MODEL, ...}, used if
 * only a backend is configured. *ret is the caller's: snp_model_target_done(); after a failure it
 * is filled as far as known. SNP_E_NOT_FOUND: no key, no base URL, no such provider; SNP_E_DENIED:
 * the project sets an address and would get a key that is not its own.
 */
int snp_model_route(const struct snp_config *config,
                    const json_t *defaults,
                    const char *name,
                    struct snp_model_target *ret,
                    struct snp_err *err) SNP_NODISCARD;
void snp_model_target_done(struct snp_model_target *target);

#endif
