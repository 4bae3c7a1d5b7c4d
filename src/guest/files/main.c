/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the workspace and bundles, for pid 1 (guest/pid1/helper.c), in a separate process.
 *
 * The code's data is hostile: trees, names, contents. The process that parses it has neither the
 * supervisor's stream nor the mark of pid 1's signals. It is confined like the code, and protected
 * from it like pid 1: its program is unreadable, so it cannot be traced, and the code cannot signal
 * it. It handles one request at a time, in pid 1's order; it ends with its stream, and pid 1 ends
 * if it has ended.
 *
 * usage: snp-files [FOLDER]   (descriptors as in guest/spec.h)
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/magic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"
#include "guest/body.h"
#include "guest/files/copies.h"
#include "guest/files/pack.h"
#include "guest/pid1/wire.h"
#include "guest/spec.h"

enum {
    READ_LEN = 64 << 10,
    OUT_MAX = 4096,  /* of an answer */
    ROOM_TRIES = 200 /* a millisecond apart */
};

struct files {
    struct snp_copies *copies;
    bool has_worker; /* until pid 1 has reaped it */
    bool is_writing; /* it writes to the workspace */
    struct snp_buf in;
    struct snp_buf out; /* a complete frame */
};

/* EBUSY while the workspace is being written. */
static int check_idle(const struct files *f)
{
    return f->is_writing ? EBUSY : 0;
}

static int on_keep(struct files *f, struct snp_guest_request *rq)
{
    struct snp_body *b = &rq->body;
    uint32_t number = (uint32_t)snp_body_take(b, 4);
    struct snp_copy_most most = {.bytes = snp_body_take(b, 8)};
    struct snp_copied kept = {0};
    int r;

    most.files = (uint32_t)snp_body_take(b, 4);
    most.new_bytes = snp_body_take(b, 8);
    r = b->bad ? EINVAL : check_idle(f);
    r = r == 0 ? snp_copies_take(f->copies, number, &most, &kept) : r;
    if (r == 0 &&
        (snp_buf_add(&f->out, &kept.bytes, 8) < 0 || snp_buf_add(&f->out, &kept.files, 4) < 0 ||
         snp_buf_add(&f->out, &kept.flags, 1) < 0)) {
        r = ENOMEM;
    }
    return r;
}

static int on_restore(struct files *f, struct snp_guest_request *rq)
{
    uint32_t number = (uint32_t)snp_body_take(&rq->body, 4);
    int r = rq->body.bad ? EINVAL : check_idle(f);

    return r == 0 ? snp_copies_restore(f->copies, number) : r;
}

static int on_drop(struct files *f, struct snp_guest_request *rq)
{
    uint32_t number = (uint32_t)snp_body_take(&rq->body, 4);

    if (!rq->body.bad) {
        (void)snp_copies_drop(f->copies, number); /* it may not exist */
    }
    return 0;
}

/*
 * Continue as a child of pid 1, which is sent the pid: returns in another process, whose parent has
 * ended.
 */
static void be_adopted(int told_fd)
{
    const pid_t between = getpid();
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid != 0) {
        _exit(snp_write_all(told_fd, &pid, sizeof(pid)) < 0);
    }
    while (getppid() == between) {
        (void)sched_yield();
    }
}

/*
 * Fork a child of pid 1, not of ours. gVisor ignores CLONE_PARENT: there an intermediate process,
 * which we wait for, leaves its child to pid 1.
 */
static pid_t fork_beside(void)
{
    const pid_t self = getpid();
    int told[2];
    pid_t pid;

    if (pipe2(told, O_CLOEXEC | O_NONBLOCK) < 0) {
        return -1;
    }
    pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0 && getppid() == self) {
        be_adopted(told[1]);
    }
    if (pid > 0 && SNP_RETRY(waitpid(pid, NULL, 0)) == pid &&
        (read(told[0], &pid, sizeof(pid)) != (ssize_t)sizeof(pid) || pid < 0)) {
        pid = -1;
        errno = EAGAIN;
    }
    (void)close(told[0]);
    (void)close(told[1]);
    return pid;
}

/*
 * Fork a worker that reads or writes a bundle, so that this process keeps answering requests. It
 * has the workspace, the copies and, in place of our stream, its pipe; no other descriptors. Pid 1
 * reaps it and answers for it; it ends with pid 1.
 */
static pid_t fork_worker(int pipe_fd)
{
    pid_t parent = getppid();
    pid_t pid = -1;

    for (int i = 0; pid < 0 && i < ROOM_TRIES; i++) { /* pid 1 makes room for it */
        (void)poll(NULL, 0, i == 0 ? 0 : 1);
        pid = fork_beside();
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != parent || dup2(pipe_fd, SNP_FILES_CONTROL_FD) < 0) {
            _exit(1);
        }
        (void)prctl(PR_SET_NAME, "worker", 0, 0, 0);
        (void)syscall(SYS_close_range, SNP_INIT_FILES_FD, ~0U, 0);
    }
    return pid;
}

static int pack(const struct files *f, struct snp_guest_request *rq)
{
    uint32_t number = (uint32_t)snp_body_take(&rq->body, 4);
    struct snp_pack pack = {
        .place = snp_copies_workspace(f->copies),
        .fd = SNP_FILES_CONTROL_FD,
    };

    pack.known = rq->body.at;
    pack.n_known = (size_t)(rq->body.end - rq->body.at);
    if (rq->body.bad) {
        return EINVAL;
    }
    pack.tree = number == SNP_PACK_LIVE ? NULL : snp_copies_find(f->copies, number);
    return number != SNP_PACK_LIVE && pack.tree == NULL ? ENOENT : snp_pack(&pack);
}

/* Done by a worker. Pid 1, its parent, gets its pid and answers at its end. */
static int on_bundle(struct files *f, struct snp_guest_request *rq)
{
    const bool is_writing = rq->type == SNP_INIT_UNPACK;
    int32_t pid;

    if (rq->fd < 0 || f->has_worker) {
        return rq->fd < 0 ? EINVAL : EBUSY;
    }
    pid = fork_worker(rq->fd);
    if (pid == 0) {
        _exit(is_writing ? snp_unpack(snp_copies_workspace(f->copies), SNP_FILES_CONTROL_FD)
                         : pack(f, rq));
    }
    if (pid < 0) {
        return errno;
    }
    snp_copies_read(f->copies, true);
    f->has_worker = true;
    f->is_writing = is_writing;
    return snp_buf_add(&f->out, &pid, sizeof(pid)) < 0 ? ENOMEM : 0;
}

static int on_worked(struct files *f, struct snp_guest_request *rq)
{
    (void)rq;
    snp_copies_read(f->copies, false);
    if (f->is_writing) {
        snp_copies_forget(f->copies);
    }
    f->has_worker = f->is_writing = false;
    return 0;
}

static const struct {
    uint8_t type;
    bool has_reply;
    int (*run)(struct files *, struct snp_guest_request *); /* 0 or errno; appends to out */
} handlers[] = {
    {SNP_INIT_KEEP, true, on_keep},     {SNP_INIT_RESTORE, true, on_restore},
    {SNP_INIT_DROP, false, on_drop},    {SNP_INIT_PACK, true, on_bundle},
    {SNP_INIT_UNPACK, true, on_bundle}, {SNP_FILES_WORKED, false, on_worked},
};

static void send_reply(struct files *f, uint32_t id, int eno)
{
    char *frame = snp_buf_bytes(&f->out);
    const uint32_t code = (uint32_t)eno;
    size_t n = eno == 0 ? f->out.len : SNP_INIT_HEADER_LEN + sizeof(code);
    const uint32_t len = (uint32_t)(n - SNP_INIT_HEADER_LEN);

    memcpy(frame, &len, sizeof(len));
    memcpy(frame + 4, &id, sizeof(id));
    frame[12] = SNP_INIT_REPLY;
    memcpy(frame + SNP_INIT_HEADER_LEN, &code, sizeof(code));
    if (snp_write_all(SNP_FILES_CONTROL_FD, frame, n) < 0) {
        _exit(0);
    }
}

static void dispatch(struct files *f, struct snp_guest_request *rq)
{
    static const char blank[SNP_INIT_HEADER_LEN + sizeof(uint32_t)];

    snp_buf_clear(&f->out);
    if (snp_buf_add(&f->out, blank, sizeof(blank)) < 0) {
        _exit(1);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(handlers); i++) {
        if (handlers[i].type == rq->type) {
            int r = handlers[i].run(f, rq);

            if (handlers[i].has_reply) {
                send_reply(f, rq->id, r);
            }
            return;
        }
    }
    _exit(1); /* pid 1 is of the same build */
}

/* Run every complete request. At most one with a descriptor is active. */
static void run_requests(struct files *f, int *fd)
{
    struct snp_guest_request rq;

    while (snp_request_take(&f->in, &rq)) {
        if (rq.type == SNP_INIT_PACK || rq.type == SNP_INIT_UNPACK) {
            rq.fd = SNP_TAKE_FD(*fd);
        }
        dispatch(f, &rq);
        snp_closep(&rq.fd);
        snp_buf_consume(&f->in, rq.frame_len);
    }
}

static SNP_NORETURN void serve(struct files *f)
{
    snp_autoclose int fd = -1;

    for (;;) {
        int fds[SNP_FDS_MAX];
        size_t n_fds = 0;
        char *space;
        ssize_t n;

        if (snp_buf_reserve(&f->in, READ_LEN, &space) < 0) {
            _exit(1);
        }
        n = snp_recv_fds(SNP_FILES_CONTROL_FD, space, READ_LEN, fds, &n_fds);
        if (n <= 0 || n_fds > 1 || (n_fds == 1 && fd >= 0)) {
            _exit(n == 0 ? 0 : 1);
        }
        fd = n_fds == 1 ? fds[0] : fd;
        snp_buf_commit(&f->in, (size_t)n);
        run_requests(f, &fd);
    }
}

static struct snp_copies *open_copies(const char *folder)
{
    char workspace[SNP_FOLDER_MAX + 16];
    bool has_base = fcntl(SNP_INIT_BASE_FD, F_SETFD, FD_CLOEXEC) == 0;
    struct snp_workspace place = {
        .layer_fd = SNP_INIT_UPPER_FD,
        .base_fd = has_base ? SNP_INIT_BASE_FD : -1,
        .store_fd = SNP_INIT_COPIES_FD,
        .is_local = folder != NULL,
    };
    struct statfs fs;

    (void)snprintf(workspace, sizeof(workspace), "%s/workspace", folder == NULL ? "" : folder);
    place.view_fd = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    place.is_layer =
        folder == NULL && fstatfs(place.view_fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
    /* Below the numbers that a worker closes: pid 1 leaves SNP_INIT_PRISTINE_FD free. */
    return place.view_fd < 0 || place.view_fd >= SNP_INIT_FILES_FD ? NULL : snp_copies_new(&place);
}

int main(int argc, char **argv)
{
    struct files f = {0};

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "files", 0, 0, 0);
    if (argc != 1 && argc != 2) {
        return 2;
    }
    f.copies = open_copies(argv[1]);
    if (f.copies == NULL) {
        return 1;
    }
    snp_buf_init(&f.in, SNP_INIT_BODY_MAX + (1 << 20));
    snp_buf_init(&f.out, OUT_MAX);
    serve(&f);
}
