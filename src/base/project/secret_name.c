/* SPDX-License-Identifier: Apache-2.0 */
#include "base/project/secret_name.h"

#include <string.h>
#include <strings.h>

#include "base/macro.h"

/* Names with at most one `*`; before a `/` the name of the parent folder. */
/* clang-format off */
static const char *const hidden_names[] = {
    ".env*", "*.env", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.ppk", "*.p12",
    "*.pfx", "*.jks", "*.keystore", "*.kdbx", ".netrc", "_netrc", ".authinfo*", ".pgpass",
    ".my.cnf", ".mylogin.cnf", ".pypirc", "pip.conf", ".npmrc", ".git-credentials",
    ".htpasswd", ".dockercfg", ".docker/config.json", ".cargo/credentials",
    ".cargo/credentials.toml", ".gem/credentials", ".config/gcloud", "gh/hosts.yml", ".ssh",
    ".gnupg", ".password-store", ".snipara", ".aws", ".azure", ".kube", "kubeconfig",
    "kubeconfig.y*ml", "*.kubeconfig", ".s3cfg", ".boto", ".vault-token", "*.tfvars",
    "*.tfvars.json", "*.tfstate", "*.tfstate.backup", "terraform.tfstate.*", ".terraformrc",
    "credentials.tfrc.json", "credentials.json", ".credentials.json",
    "application_default_credentials.json", "client_secret*.json", "service-account*.json",
    "secrets.toml", "secrets.yaml", "secrets.yml",
};
/* clang-format on */

/* The public half of these keys is no secret. */
static const char public_name[] = "id_*.pub";

/* Match a pattern with at most one `*`; much faster than fnmatch, and there are many names. */
bool snp_name_fits(const char *pattern, const char *name, size_t n)
{
    if (*pattern != '*' && (*pattern | 0x20) != (*name | 0x20)) {
        return false; /* decides nearly all names; case is one bit of a letter */
    }
    const char *star = strchr(pattern, '*');
    size_t n_end = star == NULL ? 0 : strlen(star + 1);
    size_t n_begin = star == NULL ? strlen(pattern) : (size_t)(star - pattern);

    return (star == NULL ? n == n_begin : n >= n_begin + n_end) &&
           strncasecmp(pattern, name, n_begin) == 0 &&
           (star == NULL || strcasecmp(star + 1, name + (n - n_end)) == 0);
}

/* folder: the path up to the name, with its slash. */
static bool fits_in(
    const char *pattern, const char *folder, size_t len, const char *name, size_t name_len)
{
    const char *slash = strchr(pattern, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - pattern);

    if (slash == NULL) {
        return snp_name_fits(pattern, name, name_len);
    }
    return len > n && snp_name_fits(slash + 1, name, name_len) &&
           strncasecmp(folder + (len - n - 1), pattern, n) == 0 &&
           (len == n + 1 || folder[len - n - 2] == '/');
}

bool snp_secret_name(const char *folder, size_t len, const char *name)
{
    size_t n = strlen(name);

    if (snp_name_fits(public_name, name, n)) {
        return false;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(hidden_names); i++) {
        if (fits_in(hidden_names[i], folder, len, name, n)) {
            return true;
        }
    }
    return false;
}
