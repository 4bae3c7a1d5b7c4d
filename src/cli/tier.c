/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tier.h"

#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"
#include "cli/remote.h"
#include "client/client.h"
#include "config/config.h"
#include "wire/session.h"

enum {
    MARK_MAX = 64
};

const char *const snp_cli_tiers[] = {"auto", "native", "local", NULL};

const char *snp_cli_tier(const struct snp_config *config)
{
    const char *name = snp_config_str(config, SNP_KEY_ENVIRONMENT);

    for (size_t i = 0; snp_cli_tiers[i] != NULL; i++) {
        if (snp_streq(name, snp_cli_tiers[i])) {
            return snp_cli_tiers[i];
        }
    }
    /* A virtual machine keeps code in where a hole in the kernel lets it out of native. */
    return snp_streq(name, "docker") || snp_streq(name, "wasm") ? "native" : NULL;
}

int snp_cli_tier_check(const struct snp_config *config, struct snp_err *err)
{
    const char *name = snp_config_str(config, SNP_KEY_ENVIRONMENT);

    return snp_cli_tier(config) != NULL
               ? 0
               : snp_fail(err, SNP_E_UNSUPPORTED,
                          "this version has no tier \"%s\" (%s); use native, local or auto",
                          name == NULL ? "" : name,
                          snp_config_source(config, SNP_KEY_ENVIRONMENT));
}

static bool native_runs(void)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply probe = {0};
    struct snp_err err;

    return snp_remote_connect(false, &client, &err) == 0 &&
           snp_remote_call(client, SNP_WRITE(snp_probe_request, .tier = "native"), &probe,
                           &err) == 0 &&
           snp_json_bool(probe.head, "usable", false);
}

/* What tells this start of the machine from the next, after which native may run. */
static char *boot_id(void)
{
    char *text = NULL;
    struct snp_err err;

    if (snp_file_read("/proc/sys/kernel/random/boot_id", MARK_MAX, &text, NULL, &err) < 0) {
        return NULL;
    }
    text[strcspn(text, "\n")] = '\0';
    return text;
}

void snp_cli_tier_stand_in(const struct snp_cli *cli, const struct snp_config *config)
{
    const char *name = snp_config_str(config, SNP_KEY_ENVIRONMENT);

    if (!snp_streq(name, snp_cli_tier(config))) {
        snp_cli_warn(cli, "this version has no %s tier (%s); code runs in native", name,
                     snp_config_source(config, SNP_KEY_ENVIRONMENT));
    }
}

void snp_cli_tier_notice(const struct snp_cli *cli, const struct snp_config *config)
{
    snp_autofree char *state = NULL;
    snp_autofree char *path = NULL;
    snp_autofree char *mark = NULL;
    snp_autofree char *boot = boot_id();
    struct snp_err err;
    const char *text = "said";

    snp_cli_tier_stand_in(cli, config);
    if (!snp_streq(snp_config_str(config, SNP_KEY_ENVIRONMENT), "local") ||
        snp_state_dir(&state, &err) < 0) {
        return;
    }
    path = snp_format("%s/local-notice", state);
    if (path == NULL) {
        return;
    }
    if (snp_file_read(path, MARK_MAX, &mark, NULL, &err) == 0 &&
        (snp_streq(mark, text) || (boot != NULL && snp_streq(mark, boot)))) {
        return;
    }
    if (native_runs()) {
        snp_cli_warn(cli,
                     "this ran in the local tier, as configured (%s); the stronger native tier "
                     "works on this host: --env native, or environment = \"native\"",
                     snp_config_source(config, SNP_KEY_ENVIRONMENT));
    } else {
        text = boot; /* asked again after the next start */
    }
    if (text != NULL) {
        (void)!snp_file_write_atomic(path, text, strlen(text), 0600, &err);
    }
}
