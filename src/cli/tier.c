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

enum {
    MARK_MAX = 64
};

int snp_cli_tier_check(const struct snp_config *config, struct snp_err *err)
{
    static const char *const there[] = {"auto", "native", "local"};
    const char *tier = snp_config_str(config, SNP_KEY_ENVIRONMENT);

    for (size_t i = 0; i < SNP_ARRAY_LEN(there); i++) {
        if (snp_streq(tier, there[i])) {
            return 0;
        }
    }
    return snp_fail(
        err, SNP_E_UNSUPPORTED,
        "environment '%s' (%s) is not in this version; there are native, local, and "
        "auto, which takes native",
        tier == NULL ? "" : tier, snp_config_source(config, SNP_KEY_ENVIRONMENT));
}

static bool native_runs(void)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply probe = {0};
    struct snp_err err;

    return snp_remote_connect(false, &client, &err) == 0 &&
           snp_remote_call(client, "probe", json_pack("{s:s}", "tier", "native"), &probe,
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

void snp_cli_tier_notice(const struct snp_cli *cli, const struct snp_config *config)
{
    snp_autofree char *state = NULL;
    snp_autofree char *path = NULL;
    snp_autofree char *mark = NULL;
    snp_autofree char *boot = boot_id();
    struct snp_err err;
    const char *text = "said";

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
