/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP client.
 *
 * libcurl names its sockets and its next timeout; libuv watches them. curl must not be called from
 * its callbacks, and those call users, who may start and cancel requests: both are then deferred
 * until curl has returned.
 *
 * Invariants: a call is in the list from snp_http_start until its end; `depth` is above 0 exactly
 * while curl is on the stack. A call's memory goes when libuv has closed its timer.
 */
#include "base/http/http.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/http/curl.h"
#include "base/str.h"

enum {
    CONNECT_MS = 10000,
    KEPT_CONNECTIONS = 8,
    LOOPBACK_SHIFT = 24, /* 127/8 */
    HOST_MAX = 256,
    HTTP_FINAL = 200,       /* a status below is followed by another */
    HEADERS_MAX = 64 << 10, /* bytes of a reply's headers */
};

struct snp_http_call {
    struct snp_http *http;
    /* pointers of the caller are not kept, except ctx and callbacks */
    struct snp_http_spec spec;
    CURL *easy;
    struct curl_slist *headers;
    uv_timer_t idle;
    bool is_added;  /* to curl */
    bool is_headed; /* head was called */
    bool is_unwanted;
    bool is_cancelled;
    size_t n_bytes;
    size_t n_header_bytes;
    curl_off_t moved;   /* bytes either way, by curl's count */
    struct snp_err err; /* of our own; code SNP_OK = none */
    char text[CURL_ERROR_SIZE];
    struct snp_http_call *next;
};

/* A socket that curl waits for. It may outlive curl's interest. */
struct watch {
    uv_poll_t poll;
    struct snp_http *http;
    curl_socket_t fd;
};

struct snp_http {
    uv_loop_t *loop;
    const struct snp_curl *curl;
    CURLM *multi;
    uv_timer_t timer;
    struct snp_http_call *calls;
    unsigned depth;
    bool is_freed;
};

/* Calls ----------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* Take it from the list and from curl; memory is freed on the loop's next turn. */
static void call_end(struct snp_http_call *call)
{
    struct snp_http_call **at = &call->http->calls;

    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    if (call->is_added) {
        (void)call->http->curl->multi_remove_handle(call->http->multi, call->easy);
    }
    call->http->curl->easy_cleanup(call->easy);
    call->http->curl->slist_free_all(call->headers);
    uv_close((uv_handle_t *)&call->idle, on_closed);
}

static void call_done(struct snp_http_call *call, const struct snp_err *err)
{
    if (!call->is_cancelled) {
        call->spec.done(call->spec.ctx, call, err);
    }
    call_end(call);
}

static enum snp_code code_of(CURLcode result)
{
    switch ((int)result) {
    case CURLE_OPERATION_TIMEDOUT:
        return SNP_E_TIMEOUT;
    case CURLE_URL_MALFORMAT:
        return SNP_E_INVALID;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        return SNP_E_DENIED;
    case CURLE_OUT_OF_MEMORY:
        return SNP_E_NOMEM;
    default:
        return SNP_E_PEER;
    }
}

/* curl has finished a call. */
static void call_finished(struct snp_http_call *call, CURLcode result)
{
    struct snp_err err;

    if (call->is_cancelled || call->err.code != SNP_OK) {
        call_done(call, &call->err);
        return;
    }
    if (result == CURLE_OK || call->is_unwanted) {
        call_done(call, NULL);
        return;
    }
    (void)snp_fail(&err, code_of(result), "%s",
                   call->text[0] != '\0' ? call->text : call->http->curl->easy_strerror(result));
    call_done(call, &err);
}

/* Add it to curl, which only sets its timer. */
static int call_add(struct snp_http_call *call)
{
    if (call->http->curl->multi_add_handle(call->http->multi, call->easy) != CURLM_OK) {
        return snp_fail(&call->err, SNP_E_NOMEM, "out of memory");
    }
    call->is_added = true;
    return 0;
}

/*
 * Handle requests that callbacks deferred while curl was on the stack, and calls that curl
 * finished.
 */
static void settle(struct snp_http *http)
{
    struct snp_http_call *call = http->calls;
    CURLMsg *message = NULL;
    int n_left = 0;

    while (call != NULL) {
        struct snp_http_call *next = call->next;

        if (call->is_cancelled) {
            call_end(call);
        } else if (!call->is_added) {
            int r = call_add(call);

            if (r < 0) {
                call_done(call, &call->err);
                next = http->calls; /* done may have changed the list */
            }
        }
        call = next;
    }
    while ((message = http->curl->multi_info_read(http->multi, &n_left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            CURLcode result = message->data.result;
            char *private = NULL;

            (void)http->curl->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
            call_finished((struct snp_http_call *)(void *)private, result);
        }
    }
}

static void act(struct snp_http *http, curl_socket_t fd, int events)
{
    int n_running = 0;

    http->depth++;
    (void)http->curl->multi_socket_action(http->multi, fd, events, &n_running);
    http->depth--;
    if (http->depth == 0) {
        settle(http);
    }
}

static void on_idle(uv_timer_t *timer)
{
    struct snp_http_call *call = timer->data;

    (void)snp_fail(&call->err, SNP_E_TIMEOUT, "no data was sent or received for %llu ms",
                   (unsigned long long)call->spec.idle_ms);
    call_done(call, &call->err);
}

static void idle_restart(struct snp_http_call *call)
{
    if (call->spec.idle_ms > 0 && !call->is_cancelled) {
        (void)uv_timer_start(&call->idle, on_idle, call->spec.idle_ms, 0);
    }
}

/* Callbacks of curl ------------------------------------------------------------------------ */

/* Report status and headers, once complete. */
static void head_tell(struct snp_http_call *call)
{
    if (!call->is_headed) {
        call->is_headed = true;
        call->is_unwanted = call->spec.head != NULL && !call->spec.head(call->spec.ctx, call);
    }
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct snp_http_call *call = arg;

    n *= size;
    if (call->is_cancelled) {
        return CURL_WRITEFUNC_ERROR;
    }
    idle_restart(call);
    head_tell(call);
    if (!call->is_unwanted && call->spec.max_bytes > 0 &&
        n > call->spec.max_bytes - call->n_bytes) {
        (void)snp_fail(&call->err, SNP_E_LIMIT, "the reply is larger than %zu bytes",
                       call->spec.max_bytes);
        return CURL_WRITEFUNC_ERROR;
    }
    call->n_bytes += n;
    if (!call->is_unwanted && !call->is_cancelled && call->spec.data != NULL) {
        call->is_unwanted = !call->spec.data(call->spec.ctx, bytes, n);
    }
    return call->is_unwanted || call->is_cancelled ? CURL_WRITEFUNC_ERROR : n;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    struct snp_http_call *call = arg;

    n *= size;
    call->n_header_bytes += n;
    if (call->n_header_bytes > HEADERS_MAX) {
        (void)snp_fail(&call->err, SNP_E_LIMIT, "the headers of the reply are larger than %d bytes",
                       HEADERS_MAX);
        return 0;
    }
    /* The blank line after the headers of a final reply, neither interim nor a proxy's. */
    if (!call->is_cancelled && (n == 1 || (n == 2 && bytes[0] == '\r')) &&
        snp_http_status(call) >= HTTP_FINAL) {
        head_tell(call);
    }
    return call->is_cancelled || call->is_unwanted ? 0 : n;
}

static int on_progress(
    void *arg, curl_off_t down_all, curl_off_t down, curl_off_t up_all, curl_off_t up)
{
    struct snp_http_call *call = arg;

    (void)down_all;
    (void)up_all;
    if (down + up != call->moved) {
        call->moved = down + up;
        idle_restart(call);
    }
    return 0;
}

/* Sockets are not inherited by children. */
static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
    (void)arg;
    (void)purpose;
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    int flags = status < 0 ? CURL_CSELECT_ERR : 0;

    flags |= (events & UV_READABLE) != 0 ? CURL_CSELECT_IN : 0;
    flags |= (events & UV_WRITABLE) != 0 ? CURL_CSELECT_OUT : 0;
    act(watch->http, watch->fd, flags);
}

static struct watch *watch_new(struct snp_http *http, curl_socket_t fd)
{
    struct watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL || uv_poll_init_socket(http->loop, &watch->poll, fd) < 0) {
        free(watch);
        return NULL;
    }
    watch->poll.data = watch;
    watch->http = http;
    watch->fd = fd;
    if (http->curl->multi_assign(http->multi, fd, watch) != CURLM_OK) {
        uv_close((uv_handle_t *)&watch->poll, on_closed);
        return NULL;
    }
    return watch;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct snp_http *http = arg;
    struct watch *watch = socket_arg;
    int events = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watch != NULL) {
            uv_close((uv_handle_t *)&watch->poll, on_closed);
            (void)http->curl->multi_assign(http->multi, fd, NULL);
        }
        return 0;
    }
    if (watch == NULL) {
        watch = watch_new(http, fd);
        if (watch == NULL) {
            return -1; /* curl fails all calls */
        }
    }
    events |= what != CURL_POLL_OUT ? UV_READABLE : 0;
    events |= what != CURL_POLL_IN ? UV_WRITABLE : 0;
    return uv_poll_start(&watch->poll, events, on_ready) < 0 ? -1 : 0;
}

static void on_timer(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timeout(CURLM *multi, long ms, void *arg)
{
    struct snp_http *http = arg;

    (void)multi;
    if (http->is_freed || ms < 0) {
        (void)uv_timer_stop(&http->timer);
    } else {
        (void)uv_timer_start(&http->timer, on_timer, (uint64_t)ms, 0);
    }
    return 0;
}

/* Starting -------------------------------------------------------------------------------- */

static bool is_line(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' && *text != '\t') {
            return false;
        }
    }
    return true;
}

static bool is_http(const char *url)
{
    return strncasecmp(url, "http://", strlen("http://")) == 0 ||
           strncasecmp(url, "https://", strlen("https://")) == 0;
}

/* Rewrite an empty "Name: " as "Name;", else curl omits it. NULL: it has a value. */
static char *header_empty(const char *header)
{
    size_t n = strcspn(header, ":");

    return header[n] == ':' && header[n + 1 + strspn(header + n + 1, " ")] == '\0'
               ? snp_format("%.*s;", (int)n, header)
               : NULL;
}

static int add_headers(struct snp_http_call *call, const char *const *headers, struct snp_err *err)
{
    /* else curl waits for a 100 before it sends a large body */
    struct curl_slist *list = call->http->curl->slist_append(NULL, "Expect:");

    call->headers = list;
    for (; list != NULL && headers != NULL && *headers != NULL; headers++) {
        snp_autofree char *empty = NULL;

        if (!is_line(*headers)) { /* for example a key from a file with several lines */
            return snp_fail(err, SNP_E_INVALID, "a header contains control characters: %.*s",
                            (int)strcspn(*headers, ": "), *headers);
        }
        empty = header_empty(*headers);
        list = call->http->curl->slist_append(call->headers, empty != NULL ? empty : *headers);
    }
    if (list == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

#define SET(option, value) \
    (r = r != CURLE_OK ? r : call->http->curl->easy_setopt(call->easy, (option), (value)))

static CURLcode set_behaviour(struct snp_http_call *call)
{
    CURLcode r = CURLE_OK;

    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L); /* a cancelled call does not wait for the resolver */
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, call);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, call);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, call);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_ERRORBUFFER, call->text);
    SET(CURLOPT_PRIVATE, call);
    return r;
}

static CURLcode set_request(struct snp_http_call *call, const struct snp_http_spec *spec)
{
    CURLcode r = CURLE_OK;

    SET(CURLOPT_URL, spec->url);
    if (snp_http_is_loopback(spec->url)) { /* requests to this host must not leave it */
        SET(CURLOPT_NOPROXY, "*");
    }
    if (spec->unix_socket != NULL) {
        SET(CURLOPT_UNIX_SOCKET_PATH, spec->unix_socket);
    }
    if (spec->ca_file != NULL) {
        SET(CURLOPT_CAINFO, spec->ca_file);
    }
    SET(CURLOPT_HTTPHEADER, call->headers);
    SET(CURLOPT_CONNECTTIMEOUT_MS, spec->connect_ms > 0 ? (long)spec->connect_ms : CONNECT_MS);
    SET(CURLOPT_TIMEOUT_MS, (long)spec->total_ms);
    if (spec->body != NULL) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)spec->body_len);
        SET(CURLOPT_COPYPOSTFIELDS, spec->body_len > 0 ? (const char *)spec->body : "");
    }
    if (spec->method != NULL) {
        SET(CURLOPT_CUSTOMREQUEST, spec->method);
    }
    return r;
}

/* NULL: see *err. */
static struct snp_http_call *call_new(struct snp_http *http,
                                      const struct snp_http_spec *spec,
                                      struct snp_err *err)
{
    struct snp_http_call *call = calloc(1, sizeof(*call));

    if (call == NULL) {
        (void)snp_fail(err, SNP_E_NOMEM, "out of memory");
        return NULL;
    }
    call->http = http;
    call->spec = *spec;
    call->easy = http->curl->easy_init();
    int r = call->easy == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                               : add_headers(call, spec->headers, err);
    if (r == 0 && (set_behaviour(call) != CURLE_OK || set_request(call, spec) != CURLE_OK)) {
        r = snp_fail(err, SNP_E_INTERNAL, "libcurl refused the options of a request");
    }
    if (r < 0) {
        http->curl->easy_cleanup(call->easy);
        http->curl->slist_free_all(call->headers);
        free(call);
        return NULL;
    }
    (void)uv_timer_init(http->loop, &call->idle); /* cannot fail */
    call->idle.data = call;
    return call;
}

int snp_http_new(uv_loop_t *loop, struct snp_http **ret, struct snp_err *err)
{
    struct snp_http *http = calloc(1, sizeof(*http));

    if (http == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    http->loop = loop;
    (void)uv_timer_init(loop, &http->timer);
    http->timer.data = http;
    *ret = http;
    return 0;
}

/* Before the first request: load curl, and set its socket and timer callbacks. */
static int open_multi(struct snp_http *http, struct snp_err *err)
{
    const struct snp_curl *curl = snp_curl_load(err);

    if (curl == NULL) {
        return (int)err->code;
    }
    if (curl->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    http->curl = curl;
    http->multi = curl->multi_init();
    if (http->multi == NULL) {
        curl->global_cleanup();
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    (void)curl->multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl->multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    (void)curl->multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    (void)curl->multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    (void)curl->multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)KEPT_CONNECTIONS);
    return 0;
}

int snp_http_start(struct snp_http *http,
                   const struct snp_http_spec *spec,
                   struct snp_http_call **ret,
                   struct snp_err *err)
{
    if (spec->url == NULL || !is_http(spec->url)) {
        return snp_fail(err, SNP_E_INVALID, "a URL begins with http:// or https://");
    }
    if (!is_line(spec->url) || (spec->method != NULL && !is_line(spec->method))) {
        return snp_fail(err, SNP_E_INVALID,
                        "the URL or method of a request contains control characters");
    }
    int r = http->multi == NULL ? open_multi(http, err) : 0;
    if (r < 0) {
        return r;
    }
    struct snp_http_call *call = call_new(http, spec, err);
    if (call == NULL) {
        return (int)err->code;
    }
    call->next = http->calls;
    http->calls = call;
    idle_restart(call);
    if (http->depth == 0 && call_add(call) < 0) {
        call_end(call);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *ret = call;
    return 0;
}

int snp_http_status(const struct snp_http_call *call)
{
    long status = 0;

    (void)call->http->curl->easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

const char *snp_http_header(struct snp_http_call *call, const char *name)
{
    struct curl_header *header = NULL;

    if (call->http->curl->easy_header(call->easy, name, 0, CURLH_HEADER, -1, &header) !=
        CURLHE_OK) {
        return NULL;
    }
    return header->value;
}

void snp_http_cancel(struct snp_http_call *call)
{
    if (call->http->depth > 0) {
        call->is_cancelled = true;
        (void)uv_timer_stop(&call->idle);
        return;
    }
    call_end(call);
}

void snp_http_free(struct snp_http *http)
{
    if (http == NULL) {
        return;
    }
    http->is_freed = true;
    while (http->calls != NULL) {
        call_end(http->calls);
    }
    if (http->multi != NULL) {
        (void)http->curl->multi_cleanup(http->multi);
        http->curl->global_cleanup();
    }
    uv_close((uv_handle_t *)&http->timer, on_closed);
}

bool snp_http_is_loopback(const char *url)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]";
    char host[HOST_MAX];
    struct in_addr address;
    const char *at = strstr(url, "://");

    at = at == NULL ? url : at + strlen("://");
    size_t n = strcspn(at, "/?#");
    if (n == 0 || n >= sizeof(host) || strspn(at, plain) < n) {
        return false; /* with a user, or ambiguous */
    }
    memcpy(host, at, n);
    host[n] = '\0';
    host[host[0] == '[' ? strcspn(host, "]") : strcspn(host, ":")] = '\0';
    return strcmp(host, "[::1") == 0 || strcasecmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET, host, &address) == 1 &&
            ntohl(address.s_addr) >> LOOPBACK_SHIFT == IN_LOOPBACKNET);
}

int64_t snp_http_date(const char *text)
{
    struct snp_err ignored;
    const struct snp_curl *curl = snp_curl_load(&ignored);

    return curl == NULL ? -1 : (int64_t)curl->getdate(text, NULL);
}
