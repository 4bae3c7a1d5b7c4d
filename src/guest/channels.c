/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One epoll instance watches all descriptors, so that one descriptor can be waited for or added to
 * another loop. It has a channel's descriptor only while events are wanted: a closed one would
 * always be ready.
 *
 * The other end is not trusted: sizes and windows are checked, unknown channels ignored. Only the
 * outer end creates channels, with increasing numbers.
 */
#include "guest/channels.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"

enum frame_type {
    FRAME_DATA = 0,
    FRAME_PASS,  /* u32 channel, u8 kind, u32 pair: sent with the next bytes of this channel */
    FRAME_TAKEN, /* u32: bytes written */
    FRAME_CLOSE, /* no more data in either direction */
};

enum passed_kind {
    PASSED_SOCKET = 0,
    PASSED_READER, /* the read end of a pipe: bytes go in */
    PASSED_WRITER,
    PASSED_HALF,  /* one end of a pair that stays inside */
    PASSED_AGAIN, /* a read end passed before, and partly read */
    PASSED_N
};

enum {
    ATTACHED_HEADER_LEN = 8,
    ATTACHED_STDERR = 2,
    PAIRS_MAX = 16,
    READERS_MAX = 4,
    EVENTS_MAX = 32,
    PASS_LEN = 9,
    TRUNK_MAX = 64 << 20, /* well above the sum of windows */
    TRUNK_FULL = 4 << 20, /* above it, channels wait */
};

struct channel {
    struct channel *next;
    uint32_t id;
    uint32_t over; /* the channel over which this pipe out of the sandbox was passed; else 0 */
    int fd;        /* owned; -1 = closed, to be freed */
    unsigned ways;
    unsigned events;    /* watched by epoll; 0 = fd is not in it */
    size_t credit;      /* bytes that the other end accepts */
    bool is_closing;    /* the other end has closed: close when all is written */
    int pass_fd;        /* owned; sent with the first byte of out; -1 = none */
    size_t pass_after;  /* bytes of out before it */
    struct snp_buf out; /* pending for fd */
};

struct socket_pair {
    uint32_t id; /* 0 = free */
    ino_t ends[2];
    int half_fd; /* owned, inside: the end not passed yet; -1 = none */
};

/* A read end that was passed, and may be passed again. */
struct passed_reader {
    uint32_t id; /* of its channel; 0 = free */
    ino_t inode; /* outside */
    int fd;      /* inside; owned; -1 = none */
};

struct snp_channels {
    struct snp_channels_spec spec;
    int epoll_fd;
    struct channel *list;
    uint32_t next_id;
    uint32_t next_pair;
    struct socket_pair pairs[PAIRS_MAX];
    size_t at_pair;
    struct passed_reader readers[READERS_MAX];
    size_t at_reader;
    unsigned in_events; /* of in_fd and out_fd; one entry if they are the same */
    unsigned out_events;
    struct snp_buf in;  /* of frames */
    struct snp_buf raw; /* unparsed bytes of an attached stream */
    struct snp_buf out;
    bool has_ended;
    bool has_spoken; /* attached: the first byte of standard output arrived */
};

/* Epoll data for the shared stream, which has no channel. */
static struct channel trunk_in;
static struct channel trunk_out;

static void watch(struct snp_channels *cs, int fd, void *what, unsigned *now, unsigned wanted)
{
    struct epoll_event event = {.events = wanted, .data = {.ptr = what}};
    int op = *now == 0 ? EPOLL_CTL_ADD : wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

    if (*now != wanted && fd >= 0 && epoll_ctl(cs->epoll_fd, op, fd, &event) == 0) {
        *now = wanted;
    }
}

static struct channel *find(const struct snp_channels *cs, uint32_t id);

static bool is_output(uint32_t id)
{
    return id == SNP_CHANNEL_STDOUT || id == SNP_CHANNEL_STDERR;
}

/*
 * Must data already written to pipe precede later data of c? Output always; other pipes if c passed
 * them.
 */
static bool goes_before(const struct channel *pipe, const struct channel *c)
{
    return is_output(pipe->id) || (pipe->over != 0 && pipe->over == c->id);
}

/* Inside: does a preceding pipe wait for credit? */
static bool is_stuck(const struct snp_channels *cs, const struct channel *c)
{
    for (const struct channel *at = cs->spec.is_inner ? cs->list : NULL; at != NULL;
         at = at->next) {
        if (at->fd >= 0 && at->credit == 0 && goes_before(at, c)) {
            return true;
        }
    }
    return false;
}

static void want(struct snp_channels *cs, struct channel *c)
{
    bool reads = (c->ways & SNP_CHANNEL_READ) != 0 && c->credit > 0 && !c->is_closing &&
                 cs->out.len < TRUNK_FULL && (is_output(c->id) || !is_stuck(cs, c));

    watch(cs, c->fd, c, &c->events,
          (reads ? (unsigned)EPOLLIN : 0) | (c->out.len > 0 ? (unsigned)EPOLLOUT : 0));
}

static void want_trunk(struct snp_channels *cs)
{
    unsigned writes = cs->out.len > 0 ? EPOLLOUT : 0;

    if (cs->spec.in_fd == cs->spec.out_fd) {
        watch(cs, cs->spec.in_fd, &trunk_in, &cs->in_events, EPOLLIN | writes);
    } else {
        watch(cs, cs->spec.in_fd, &trunk_in, &cs->in_events, EPOLLIN);
        watch(cs, cs->spec.out_fd, &trunk_out, &cs->out_events, writes);
    }
}

static struct channel *find(const struct snp_channels *cs, uint32_t id)
{
    for (struct channel *c = cs->list; c != NULL; c = c->next) {
        if (c->id == id && c->fd >= 0) {
            return c;
        }
    }
    return NULL;
}

static void send_frame(
    struct snp_channels *cs, uint32_t id, enum frame_type type, const void *bytes, size_t n)
{
    const uint32_t head[3] = {(uint32_t)n, id, (uint32_t)type};

    if (snp_buf_add(&cs->out, head, sizeof(head)) < 0 || snp_buf_add(&cs->out, bytes, n) < 0) {
        cs->has_ended = true;
    }
}

static void close_channel(struct snp_channels *cs, struct channel *c)
{
    watch(cs, c->fd, c, &c->events, 0);
    snp_closep(&c->fd);
    snp_closep(&c->pass_fd);
    snp_buf_done(&c->out);
}

/* Our end is closed: tell the other end. */
static void end_channel(struct snp_channels *cs, struct channel *c)
{
    if (!c->is_closing) {
        send_frame(cs, c->id, FRAME_CLOSE, NULL, 0);
    }
    close_channel(cs, c);
}

static void forget_closed(struct snp_channels *cs)
{
    for (struct channel **at = &cs->list; *at != NULL;) {
        struct channel *c = *at;

        if (c->fd >= 0) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        free(c);
    }
}

int snp_channels_add(struct snp_channels *cs, uint32_t id, int fd, unsigned ways)
{
    struct channel *c = fd < 0 ? NULL : calloc(1, sizeof(*c));

    if (c == NULL || snp_set_nonblock(fd, true) < 0) {
        free(c);
        snp_closep(&fd);
        return -1;
    }
    *c = (struct channel){.next = cs->list,
                          .id = id,
                          .fd = fd,
                          .ways = ways,
                          .credit = SNP_CHANNEL_WINDOW,
                          .pass_fd = -1};
    snp_buf_init(&c->out, SNP_CHANNEL_WINDOW);
    cs->list = c;
    cs->next_id = id >= cs->next_id ? id + 1 : cs->next_id;
    want(cs, c);
    return 0;
}

/* Pairs ------------------------------------------------------------------------------------ */

static ino_t inode_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

void snp_channels_pair(struct snp_channels *cs, const int ends[2])
{
    struct socket_pair *pair = &cs->pairs[cs->at_pair++ % PAIRS_MAX];

    cs->next_pair = cs->next_pair == UINT32_MAX ? 1 : cs->next_pair + 1;
    *pair = (struct socket_pair){.id = cs->next_pair, .half_fd = -1};
    pair->ends[0] = inode_of(ends[0]);
    pair->ends[1] = inode_of(ends[1]);
}

static uint32_t pair_of(const struct snp_channels *cs, int fd)
{
    const ino_t inode = inode_of(fd);

    for (size_t i = 0; inode != 0 && i < PAIRS_MAX; i++) {
        const struct socket_pair *pair = &cs->pairs[i];
        if (pair->id != 0 && (pair->ends[0] == inode || pair->ends[1] == inode)) {
            return pair->id;
        }
    }
    return 0;
}

/*
 * Inside: an end of the pair of that number; -1: out of descriptors. SO_PASSCRED is set on pid 1's
 * end from the first byte on, whichever end is requested first.
 */
static int take_half(struct snp_channels *cs, uint32_t id, bool is_of_init)
{
    const int on = 1;
    struct socket_pair *pair;
    int ends[2]; /* kept, returned */

    for (size_t i = 0; i < PAIRS_MAX; i++) {
        if (cs->pairs[i].id == id && cs->pairs[i].half_fd >= 0) {
            cs->pairs[i].id = 0;
            return SNP_TAKE_FD(cs->pairs[i].half_fd);
        }
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return -1;
    }
    (void)setsockopt(ends[is_of_init ? 1 : 0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
    pair = &cs->pairs[cs->at_pair++ % PAIRS_MAX];
    snp_closep(&pair->half_fd);
    *pair = (struct socket_pair){.id = id, .half_fd = ends[0]};
    return ends[1];
}

/* Read ends passed again ---------------------------------------------------------- */

static void remember_reader(struct snp_channels *cs, uint32_t id, ino_t inode, int fd)
{
    struct passed_reader *reader = &cs->readers[cs->at_reader++ % READERS_MAX];

    snp_closep(&reader->fd);
    *reader = (struct passed_reader){.id = id, .inode = inode, .fd = fd};
}

/* The channel of a pipe passed before; 0 = none. */
static uint32_t reader_of(const struct snp_channels *cs, int fd)
{
    const ino_t inode = inode_of(fd);

    for (size_t i = 0; inode != 0 && i < READERS_MAX; i++) {
        if (cs->readers[i].id != 0 && cs->readers[i].inode == inode) {
            return cs->readers[i].id;
        }
    }
    return 0;
}

static int take_reader(const struct snp_channels *cs, uint32_t id)
{
    for (size_t i = 0; i < READERS_MAX; i++) {
        if (cs->readers[i].id == id && cs->readers[i].fd >= 0) {
            return fcntl(cs->readers[i].fd, F_DUPFD_CLOEXEC, 0);
        }
    }
    return -1;
}

/* From our descriptors to the shared stream ------------------------------------------------ */

static unsigned ways_of(enum passed_kind kind)
{
    return kind == PASSED_READER   ? SNP_CHANNEL_READ
           : kind == PASSED_WRITER ? SNP_CHANNEL_WRITE
                                   : SNP_CHANNEL_READ | SNP_CHANNEL_WRITE;
}

static enum passed_kind kind_of(int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0 || S_ISSOCK(st.st_mode)) {
        return PASSED_SOCKET;
    }
    return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY ? PASSED_WRITER : PASSED_READER;
}

/* Pass a received descriptor to the other end; fd is owned. */
static void pass_on(struct snp_channels *cs, const struct channel *over, int fd)
{
    uint32_t again = reader_of(cs, fd);
    uint32_t pair = again != 0 ? again : pair_of(cs, fd);
    enum passed_kind kind = again != 0 ? PASSED_AGAIN : pair != 0 ? PASSED_HALF : kind_of(fd);
    uint32_t id = cs->next_id++;
    char raw[PASS_LEN];

    memcpy(raw, &id, sizeof(id));
    raw[4] = (char)kind;
    memcpy(raw + 5, &pair, sizeof(pair));
    send_frame(cs, over->id, FRAME_PASS, raw, sizeof(raw));
    if (kind == PASSED_READER) {
        remember_reader(cs, id, inode_of(fd), -1);
    }
    if (kind == PASSED_HALF || kind == PASSED_AGAIN) {
        snp_closep(&fd);
    } else if (snp_channels_add(cs, id, fd, ways_of(kind)) < 0) {
        send_frame(cs, id, FRAME_CLOSE, NULL, 0);
    } else {
        cs->list->over = kind == PASSED_WRITER ? over->id : 0;
    }
}

/* recvmsg for a socket that may carry descriptors, else read. */
static ssize_t read_some(struct snp_channels *cs, struct channel *c, char *bytes, size_t n)
{
    int fds[SNP_FDS_MAX];
    size_t n_fds = 0;
    ssize_t got = snp_recv_fds(c->fd, bytes, n, fds, &n_fds);

    if (got < 0 && errno == ENOTSOCK) {
        return SNP_RETRY(read(c->fd, bytes, n));
    }
    for (size_t i = 0; i < n_fds; i++) {
        if (cs->spec.is_inner) {
            (void)close(fds[i]); /* descriptors are never passed out */
        } else {
            pass_on(cs, c, fds[i]);
        }
    }
    return got;
}

/* Returns true if more may be available. */
static bool read_channel(struct snp_channels *cs, struct channel *c)
{
    static char bytes[SNP_CHANNEL_BYTES_MAX];
    size_t most = c->credit < sizeof(bytes) ? c->credit : sizeof(bytes);
    ssize_t n = most == 0 ? -1 : read_some(cs, c, bytes, most);

    if (n > 0) {
        c->credit -= (size_t)n;
        send_frame(cs, c->id, FRAME_DATA, bytes, (size_t)n);
        return true;
    }
    if (most > 0 && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
        end_channel(cs, c);
    }
    return false;
}

/* Inside: send data that must precede later data of c. False: not possible yet. */
static bool read_before(struct snp_channels *cs, const struct channel *c)
{
    for (struct channel *at = cs->spec.is_inner ? cs->list : NULL; at != NULL; at = at->next) {
        while (at->fd >= 0 && goes_before(at, c) && read_channel(cs, at)) {
        }
    }
    return !is_stuck(cs, c);
}

/* From the shared stream to our descriptors ------------------------------------------------ */

/* Write once, like write(2). */
static ssize_t write_some(struct channel *c)
{
    char *bytes = snp_buf_bytes(&c->out);
    ssize_t n;

    if (c->pass_fd >= 0 && c->pass_after == 0) {
        if (snp_send_fds(c->fd, bytes, 1, &c->pass_fd, 1) < 0) {
            return -1;
        }
        snp_closep(&c->pass_fd);
        return 1;
    }
    n = (ssize_t)(c->pass_fd >= 0 ? c->pass_after : c->out.len);
    n = (c->ways & SNP_CHANNEL_READ) != 0
            ? SNP_RETRY(send(c->fd, bytes, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT))
            : SNP_RETRY(write(c->fd, bytes, (size_t)n));
    c->pass_after -= n > 0 && c->pass_fd >= 0 ? (size_t)n : 0;
    return n;
}

static void write_channel(struct snp_channels *cs, struct channel *c)
{
    uint32_t taken = 0;

    while (c->out.len > 0) {
        ssize_t n = write_some(c);

        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            end_channel(cs, c);
            return;
        }
        snp_buf_consume(&c->out, (size_t)n);
        taken += (uint32_t)n;
    }
    if (taken > 0 && !c->is_closing) {
        send_frame(cs, c->id, FRAME_TAKEN, &taken, sizeof(taken));
    }
    if (c->is_closing && c->out.len == 0) {
        close_channel(cs, c);
    }
}

/* Inside: create the passed object; our end becomes a channel. -1: out of descriptors. */
static int make_passed(struct snp_channels *cs,
                       const struct channel *over,
                       uint32_t id,
                       enum passed_kind kind)
{
    int ends[2]; /* ours, passed */

    if (kind == PASSED_SOCKET) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
            return -1;
        }
    } else {
        int pipe_fd[2];
        if (pipe2(pipe_fd, O_CLOEXEC) < 0) {
            return -1;
        }
        ends[0] = pipe_fd[kind == PASSED_READER ? 1 : 0];
        ends[1] = pipe_fd[kind == PASSED_READER ? 0 : 1];
    }
    /* The reverse of the outer end's direction. */
    unsigned ways = kind == PASSED_READER   ? SNP_CHANNEL_WRITE
                    : kind == PASSED_WRITER ? SNP_CHANNEL_READ
                                            : SNP_CHANNEL_READ | SNP_CHANNEL_WRITE;
    if (snp_channels_add(cs, id, ends[0], ways) < 0) {
        snp_closep(&ends[1]);
        return -1;
    }
    cs->list->over = kind == PASSED_WRITER ? over->id : 0;
    if (kind == PASSED_READER) {
        remember_reader(cs, id, 0, fcntl(ends[1], F_DUPFD_CLOEXEC, 0));
    }
    return ends[1];
}

static int on_pass(struct snp_channels *cs, struct channel *c, const char *raw, size_t n)
{
    uint32_t id;
    uint32_t pair;

    if (!cs->spec.is_inner || n != PASS_LEN || (unsigned char)raw[4] >= PASSED_N ||
        c->pass_fd >= 0) {
        return -1;
    }
    memcpy(&id, raw, sizeof(id));
    memcpy(&pair, raw + 5, sizeof(pair));
    c->pass_fd = raw[4] == PASSED_HALF    ? take_half(cs, pair, c->id == SNP_CHANNEL_INIT)
                 : raw[4] == PASSED_AGAIN ? take_reader(cs, pair)
                                          : make_passed(cs, c, id, (enum passed_kind)raw[4]);
    c->pass_after = c->out.len;
    return c->pass_fd < 0 ? -1 : 0;
}

/* A passed descriptor is sent before the next is accepted. -1: protocol error of the other end. */
static int take_frame(
    struct snp_channels *cs, uint32_t id, uint32_t type, const char *raw, size_t n)
{
    struct channel *c = find(cs, id);
    uint32_t taken;

    if (c == NULL || c->is_closing) {
        return 0; /* it was closed here just now */
    }
    switch (type) {
    case FRAME_DATA:
        if ((c->ways & SNP_CHANNEL_WRITE) == 0 || snp_buf_add(&c->out, raw, n) < 0) {
            return -1;
        }
        write_channel(cs, c);
        break;
    case FRAME_PASS:
        return on_pass(cs, c, raw, n);
    case FRAME_TAKEN:
        memcpy(&taken, raw, n == sizeof(taken) ? sizeof(taken) : 0);
        if (n != sizeof(taken) || taken > SNP_CHANNEL_WINDOW - c->credit) {
            return -1;
        }
        c->credit += taken;
        break;
    case FRAME_CLOSE:
        c->is_closing = true;
        write_channel(cs, c);
        break;
    default:
        return -1;
    }
    if (c->fd >= 0) {
        want(cs, c);
    }
    return 0;
}

/*
 * A descriptor that waits for its first byte precedes the next one. All of a cell's output must be
 * in the pipes before its result is readable, and all of a save's before its answer.
 */
static bool is_held_up(const struct snp_channels *cs, uint32_t id, uint32_t type)
{
    const struct channel *c = find(cs, id);

    if (c == NULL || type == FRAME_PASS) {
        return c != NULL && c->pass_fd >= 0;
    }
    if (cs->spec.is_inner || type != FRAME_DATA || is_output(id)) {
        return false;
    }
    for (const struct channel *at = cs->list; at != NULL; at = at->next) {
        if (at->fd >= 0 && at->out.len > 0 && goes_before(at, c)) {
            return true;
        }
    }
    return false;
}

static int take_frames(struct snp_channels *cs)
{
    while (cs->in.len >= SNP_CHANNEL_HEADER_LEN) {
        const char *bytes = snp_buf_bytes(&cs->in);
        uint32_t head[3];

        memcpy(head, bytes, sizeof(head));
        if (head[0] > SNP_CHANNEL_BYTES_MAX) {
            return -1;
        }
        if (cs->in.len < SNP_CHANNEL_HEADER_LEN + (size_t)head[0] ||
            is_held_up(cs, head[1], head[2])) {
            break;
        }
        if (take_frame(cs, head[1], head[2], bytes + SNP_CHANNEL_HEADER_LEN, head[0]) < 0) {
            return -1;
        }
        snp_buf_consume(&cs->in, SNP_CHANNEL_HEADER_LEN + (size_t)head[0]);
    }
    return 0;
}

/* The shared stream ------------------------------------------------------------------------ */

/* Parse an attached stream. */
static int split_attached(struct snp_channels *cs)
{
    while (cs->raw.len > ATTACHED_HEADER_LEN) {
        const unsigned char *head = (const unsigned char *)snp_buf_bytes(&cs->raw);
        size_t n = (size_t)head[4] << 24U | (size_t)head[5] << 16U | (size_t)head[6] << 8U |
                   (size_t)head[7];
        size_t there = cs->raw.len - ATTACHED_HEADER_LEN;
        const char *bytes = (const char *)head + ATTACHED_HEADER_LEN;

        if (head[0] > ATTACHED_STDERR || n > TRUNK_MAX) {
            return -1;
        }
        if (there < n) {
            break;
        }
        if (head[0] != ATTACHED_STDERR && !cs->has_spoken && cs->spec.spoken != NULL) {
            cs->has_spoken = true;
            cs->spec.spoken(cs->spec.data);
        }
        if (head[0] == ATTACHED_STDERR) {
            cs->spec.complain(cs->spec.data, bytes, n);
        } else if (snp_buf_add(&cs->in, bytes, n) < 0) {
            return -1;
        }
        snp_buf_consume(&cs->raw, ATTACHED_HEADER_LEN + n);
    }
    return 0;
}

static int read_trunk(struct snp_channels *cs)
{
    struct snp_buf *to = cs->spec.is_attached ? &cs->raw : &cs->in;
    char *space;
    ssize_t n;

    if (snp_buf_reserve(to, SNP_CHANNEL_BYTES_MAX, &space) < 0) {
        return -1;
    }
    n = SNP_RETRY(read(cs->spec.in_fd, space, SNP_CHANNEL_BYTES_MAX));
    if (n <= 0) {
        return n < 0 && errno == EAGAIN ? 0 : -1;
    }
    snp_buf_commit(to, (size_t)n);
    return cs->spec.is_attached ? split_attached(cs) : 0;
}

static int write_trunk(struct snp_channels *cs)
{
    while (cs->out.len > 0) {
        ssize_t n = SNP_RETRY(write(cs->spec.out_fd, snp_buf_bytes(&cs->out), cs->out.len));

        if (n < 0) {
            return errno == EAGAIN ? 0 : -1;
        }
        snp_buf_consume(&cs->out, (size_t)n);
    }
    return 0;
}

static void on_event(struct snp_channels *cs, struct channel *c, unsigned events)
{
    if (c->fd >= 0 && c->out.len > 0 && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) {
        write_channel(cs, c);
    }
    if (c->fd >= 0 && (c->events & EPOLLIN) != 0 &&
        (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 &&
        (is_output(c->id) || read_before(cs, c))) {
        (void)read_channel(cs, c);
    }
}

int snp_channels_step(struct snp_channels *cs, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(cs->epoll_fd, events, EVENTS_MAX, timeout_ms);
    int r = 0;

    for (int i = 0; i < n && r == 0; i++) {
        struct channel *c = events[i].data.ptr;

        if (c == &trunk_out) {
            continue; /* handled below */
        }
        if (c == &trunk_in) {
            r = (events[i].events & ~(unsigned)EPOLLOUT) == 0 ? 0 : read_trunk(cs);
        } else {
            on_event(cs, c, events[i].events);
        }
    }
    if (r < 0 || take_frames(cs) < 0 || write_trunk(cs) < 0 || cs->has_ended) {
        return -1;
    }
    forget_closed(cs);
    for (struct channel *c = cs->list; c != NULL; c = c->next) {
        want(cs, c);
    }
    want_trunk(cs);
    return 0;
}

/*
 * All channels ----------------------------------------------------------------------------------
 */

struct snp_channels *snp_channels_new(const struct snp_channels_spec *spec)
{
    struct snp_channels *cs = calloc(1, sizeof(*cs));
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

    if (cs == NULL || epoll_fd < 0 || snp_set_nonblock(spec->in_fd, true) < 0 ||
        snp_set_nonblock(spec->out_fd, true) < 0) {
        free(cs);
        snp_closep(&epoll_fd);
        (void)close(spec->in_fd);
        (void)(spec->out_fd != spec->in_fd && close(spec->out_fd));
        return NULL;
    }
    cs->spec = *spec;
    cs->epoll_fd = epoll_fd;
    cs->next_id = SNP_CHANNEL_FIRST;
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        cs->pairs[i].half_fd = -1;
    }
    for (size_t i = 0; i < READERS_MAX; i++) {
        cs->readers[i].fd = -1;
    }
    snp_buf_init(&cs->in, TRUNK_MAX);
    snp_buf_init(&cs->raw, TRUNK_MAX);
    snp_buf_init(&cs->out, TRUNK_MAX);
    want_trunk(cs);
    return cs;
}

void snp_channels_free(struct snp_channels *cs)
{
    if (cs == NULL) {
        return;
    }
    for (struct channel *c = cs->list; c != NULL; c = c->next) {
        close_channel(cs, c);
    }
    forget_closed(cs);
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        snp_closep(&cs->pairs[i].half_fd);
    }
    for (size_t i = 0; i < READERS_MAX; i++) {
        snp_closep(&cs->readers[i].fd);
    }
    if (cs->spec.out_fd != cs->spec.in_fd) {
        (void)close(cs->spec.out_fd);
    }
    (void)close(cs->spec.in_fd);
    (void)close(cs->epoll_fd);
    snp_buf_done(&cs->in);
    snp_buf_done(&cs->raw);
    snp_buf_done(&cs->out);
    free(cs);
}

int snp_channels_fd(const struct snp_channels *cs)
{
    return cs->epoll_fd;
}
