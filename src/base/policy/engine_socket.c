/* SPDX-License-Identifier: Apache-2.0 */
#include "base/policy/engine_socket.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/str.h"

/* Below $XDG_RUNTIME_DIR, and for the whole host; in this order. */
static const char *const own[] = {"docker.sock", "podman/podman.sock"};
static const char *const shared[] = {"/var/run/docker.sock", "/run/podman/podman.sock"};

/* 127.0.0.1:2375: only this host, because containers are shown programs of this host. */
static bool read_loopback(const char *text, struct sockaddr_in *ret)
{
    char address[INET_ADDRSTRLEN] = "";
    const char *colon = strchr(text, ':');
    uint64_t port = 0;

    if (colon == NULL || snp_parse_u64(colon + 1, &port) < 0 || port == 0 || port > UINT16_MAX ||
        (size_t)(colon - text) >= sizeof(address)) {
        return false;
    }
    memcpy(address, text, (size_t)(colon - text));
    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, address, &ret->sin_addr) == 1 &&
           ntohl(ret->sin_addr.s_addr) >> 24U == IN_LOOPBACKNET;
}

bool snp_engine_is_local(const char *socket)
{
    struct sockaddr_in ignored;

    return socket[0] == '/' || read_loopback(socket, &ignored);
}

static int connected(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct sockaddr_in address;
    const bool is_tcp = read_loopback(path, &address);
    const struct sockaddr *peer =
        is_tcp ? (const struct sockaddr *)&address : (const struct sockaddr *)&name;
    int fd = socket(peer->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    if (fd >= 0 && connect(fd, peer, is_tcp ? sizeof(address) : sizeof(name)) == 0) {
        return fd;
    }
    int eno = errno;
    snp_closep(&fd);
    errno = eno;
    return -1;
}

const char *snp_engine_host(const char *socket)
{
    return socket[0] == '/' ? "localhost" : socket;
}

int snp_engine_connect(const char *path, int *ret_fd, struct snp_err *err)
{
    int fd = connected(path);

    if (fd >= 0) {
        *ret_fd = fd;
        return 0;
    }
    int eno = errno;
    if (eno == EACCES || eno == EPERM) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
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
    const char *tls = getenv("DOCKER_TLS_VERIFY"); /* NOLINT(concurrency-mt-unsafe) */
    const char *rest = strstr(host, "://");
    struct sockaddr_in ignored;

    if (snp_has_prefix(host, "tcp://localhost:")) {
        (void)snprintf(out, SNP_ENGINE_PATH_MAX + 1, "127.0.0.1%s", strrchr(host, ':'));
    } else {
        (void)snprintf(out, SNP_ENGINE_PATH_MAX + 1, "%s", rest == NULL ? "" : rest + 3);
    }
    if (snp_has_prefix(host, "unix:///") && strlen(rest + 3) <= SNP_ENGINE_PATH_MAX) {
        return 0;
    }
    if (snp_has_prefix(host, "tcp://") && (tls == NULL || tls[0] == '\0') &&
        read_loopback(out, &ignored)) {
        return 0;
    }
    return snp_fail(err, SNP_E_UNSUPPORTED,
                    "DOCKER_HOST=%.100s: the docker tier needs an engine on this host, whose "
                    "files it shows to containers, without TLS; set "
                    "DOCKER_HOST=unix:///var/run/docker.sock or tcp://127.0.0.1:PORT, or unset it",
                    host);
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
