/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SERVE_SETTING_H
#define SNP_BASE_CLI_SERVE_SETTING_H

/*
 * Settings of a program, "KEY=VALUE", as words for a verb: configuration keys, and options of the
 * verb that have no key.
 */

#include "base/cli/cli.h"

enum {
    SNP_SETTINGS_MAX = 256,
};

struct snp_settings {
    char *argv[SNP_SETTINGS_MAX + 8]; /* owned */
    int argc;
    /* texts borrowed; ended by an option without a name */
    struct snp_cli_setting keys[SNP_SETTINGS_MAX + 1];
    size_t n_keys;
};

/*
 * Read the settings: an array of strings, borrowed until done; NULL = none. SNP_E_INVALID, with the
 * nearest name.
 */
int snp_settings_read(struct snp_settings *ret,
                      const json_t *settings,
                      const struct snp_verb *verb,
                      struct snp_err *err) SNP_NODISCARD;
/* Add a word for the verb. */
void snp_settings_add(struct snp_settings *settings, char *word);
void snp_settings_done(struct snp_settings *settings);

#endif
