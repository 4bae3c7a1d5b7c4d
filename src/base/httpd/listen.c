/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening. Names are never resolved: an address is a number, so no resolver decides who can reach
 * us.
 */
#include "base/httpd/listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"

enum {
    BACKLOG = 256,
    PORT_MAX = 65535,
};

static int unix_parse(const char *path, struct snp_httpd_address *ret, struct snp_err *err)
{
    struct sockaddr_un *where = (struct sockaddr_un *)&ret->where;
    int r = snp_socket_path_check(path, err);

    if (r < 0) {
        return r;
    }
    if (path[0] != '/') {
        return snp_fail(err, SNP_E_INVALID, "the path of a unix socket begins with '/'");
    }
    where->sun_family = AF_UNIX;
    (void)snprintf(where->sun_path, sizeof(where->sun_path), "%s", path);
    ret->len = sizeof(*where);
    ret->is_unix = true;
    ret->is_loopback = true;
    (void)snprintf(ret->host, sizeof(ret->host), "localhost");
    return 0;
}

static bool ip4_parse(const char *host, in_port_t port, struct snp_httpd_address *ret)
{
    struct sockaddr_in *where = (struct sockaddr_in *)&ret->where;

    if (inet_pton(AF_INET, host, &where->sin_addr) != 1) {
        return false;
    }
    where->sin_family = AF_INET;
    where->sin_port = port;
    ret->len = sizeof(*where);
    ret->is_loopback = ntohl(where->sin_addr.s_addr) >> 24U == IN_LOOPBACKNET;
    (void)snprintf(ret->host, sizeof(ret->host), "%s", host);
    return true;
}

static bool ip6_parse(const char *host, in_port_t port, struct snp_httpd_address *ret)
{
    struct sockaddr_in6 *where = (struct sockaddr_in6 *)&ret->where;
    char text[INET6_ADDRSTRLEN];

    if (inet_pton(AF_INET6, host, &where->sin6_addr) != 1 ||
        inet_ntop(AF_INET6, &where->sin6_addr, text, sizeof(text)) == NULL) {
        return false;
    }
    where->sin6_family = AF_INET6;
    where->sin6_port = port;
    ret->len = sizeof(*where);
    ret->is_loopback = IN6_IS_ADDR_LOOPBACK(&where->sin6_addr);
    (void)snprintf(ret->host, sizeof(ret->host), "[%s]", text);
    return true;
}

int snp_httpd_address_parse(const char *text, struct snp_httpd_address *ret, struct snp_err *err)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon == NULL ? 0 : (size_t)(colon - text);
    char host[INET6_ADDRSTRLEN + 2] = "127.0.0.1";
    uint64_t port = 0;
    bool is_good;

    *ret = (struct snp_httpd_address){0};
    if (snp_has_prefix(text, "unix:")) {
        return unix_parse(text + strlen("unix:"), ret, err);
    }
    is_good = snp_parse_u64(colon == NULL ? text : colon + 1, &port) == 0 && port <= PORT_MAX &&
              n < sizeof(host);
    if (is_good && colon != NULL) {
        memcpy(host, text, n);
        host[n] = '\0';
        if (strcmp(host, "localhost") == 0) {
            (void)snprintf(host, sizeof(host), "127.0.0.1");
        }
    }
    if (is_good && host[0] == '[' && strlen(host) > 2 && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = '\0';
        is_good = ip6_parse(host + 1, htons((in_port_t)port), ret);
    } else if (is_good) {
        is_good = ip4_parse(host, htons((in_port_t)port), ret);
    }
    return is_good ? 0
                   : snp_fail(err, SNP_E_INVALID,
                              "'%s' is not PORT, ADDRESS:PORT, [IPV6]:PORT, localhost:PORT or "
                              "unix:/PATH",
                              text);
}

/* Remove the file of a socket without a listener. */
static void stale_remove(const struct snp_httpd_address *address)
{
    const char *path = ((const struct sockaddr_un *)&address->where)->sun_path;
    snp_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct stat st;

    if (fd >= 0 && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == geteuid() &&
        connect(fd, (const struct sockaddr *)&address->where, address->len) < 0 &&
        errno == ECONNREFUSED) {
        (void)unlink(path);
    }
}

static int address_bind(const struct snp_httpd_address *address, int fd)
{
    mode_t before;
    int r;
    int eno;

    if (!address->is_unix) {
        return bind(fd, (const struct sockaddr *)&address->where, address->len);
    }
    stale_remove(address);
    before = umask(0177); /* not open to others, even briefly */
    r = bind(fd, (const struct sockaddr *)&address->where, address->len);
    eno = errno;
    (void)umask(before);
    errno = eno;
    return r;
}

int snp_httpd_listen(const struct snp_httpd_address *address,
                     int *ret_fd,
                     unsigned *ret_port,
                     struct snp_err *err)
{
    snp_autoclose int fd =
        socket(address->where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    union {
        struct sockaddr any;
        struct sockaddr_in in; /* the port is at the same place in IPv6 */
        struct sockaddr_storage room;
    } got = {.room = {0}};
    socklen_t len = sizeof(got);
    int on = 1;

    if (fd < 0) {
        return snp_fail_sys(err, errno, "socket");
    }
    if (!address->is_unix) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    if (address->where.ss_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    if (address_bind(address, fd) < 0 || listen(fd, BACKLOG) < 0) {
        return errno == EADDRINUSE ? snp_fail(err, SNP_E_LIMIT, "the address is already in use")
                                   : snp_fail_sys(err, errno, "listen");
    }
    *ret_port = 0;
    if (!address->is_unix && getsockname(fd, &got.any, &len) == 0) {
        *ret_port = ntohs(got.in.sin_port);
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}
