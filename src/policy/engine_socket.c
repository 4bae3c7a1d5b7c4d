/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/engine_socket.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/str.h"

/* Below $XDG_RUNTIME_DIR, and of the whole host; in this order. */
static const char *const own[] = {"docker.sock", "podman/podman.sock"};
static const char *const shared[] = {"/var/run/docker.sock", "/run/podman/podman.sock"};

int snp_engine_connect(const char *path, int *ret_fd, struct snp_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        *ret_fd = fd;
        return 0;
    }
    int eno = errno;
    snp_closep(&fd);
    if (eno == EACCES || eno == EPERM) {
        return snp_fail(
            err, SNP_E_UNSUPPORTED,
            "no permission to use the container engine at %s; run as root, or add "
            "yourself to its group: sudo usermod -aG docker $USER, then log in again",
            path);
    }
    return snp_fail(err, SNP_E_UNSUPPORTED,
                    "no container engine answers at %s (%s); start one (sudo systemctl start "
                    "docker), or set DOCKER_HOST=unix://SOCKET",
                    path, eno == ENOENT ? "no such socket" : strerrordesc_np(eno));
}

static bool answers(const char *path)
{
    struct snp_err ignored;
    int fd = -1;

    if (snp_engine_connect(path, &fd, &ignored) < 0) {
        return false;
    }
    (void)close(fd);
    return true;
}

static int from_variable(const char *host, char *out, struct snp_err *err)
{
    static const char scheme[] = "unix://";
    const char *path = host + (snp_has_prefix(host, scheme) ? strlen(scheme) : 0);

    if (path == host || path[0] != '/' || strlen(path) > SNP_ENGINE_PATH_MAX) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "DOCKER_HOST=%.100s: the docker tier needs an engine on this host; set "
                        "DOCKER_HOST=unix:///var/run/docker.sock, or unset it",
                        host);
    }
    (void)snprintf(out, SNP_ENGINE_PATH_MAX + 1, "%s", path);
    return 0;
}

int snp_engine_socket(char out[SNP_ENGINE_PATH_MAX + 1], struct snp_err *err)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
    const char *host = getenv("DOCKER_HOST");
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    /* NOLINTEND(concurrency-mt-unsafe) */

    if (host != NULL && host[0] != '\0') {
        return from_variable(host, out, err);
    }
    for (size_t i = 0; runtime != NULL && i < SNP_ARRAY_LEN(own); i++) {
        int n = snprintf(out, SNP_ENGINE_PATH_MAX + 1, "%s/%s", runtime, own[i]);

        if (n <= SNP_ENGINE_PATH_MAX && answers(out)) {
            return 0;
        }
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(shared); i++) {
        (void)snprintf(out, SNP_ENGINE_PATH_MAX + 1, "%s", shared[i]);
        if (answers(out)) {
            return 0;
        }
    }
    (void)snprintf(out, SNP_ENGINE_PATH_MAX + 1, "%s", shared[0]);
    return 0;
}

int snp_engine_find(char out[SNP_ENGINE_PATH_MAX + 1], struct snp_err *err)
{
    int fd = -1;
    int r = snp_engine_socket(out, err);

    r = r < 0 ? r : snp_engine_connect(out, &fd, err);
    if (r == 0) {
        (void)close(fd);
    }
    return r;
}
