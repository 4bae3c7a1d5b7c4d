/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the workspace and bundles, for pid 1 (guest/pid1/helper.c), in a process of its own.
 *
 * What the code has made is hostile: trees, names, contents. Whoever takes it apart holds neither the
 * supervisor's stream nor the mark of pid 1's signals. It is as confined as the code, and as
 * closed to it as pid 1: its program cannot be read, so it cannot be traced, and signals of the
 * code spare it. One request at a time, in the order of pid 1; it ends with its stream, and pid 1
 * ends when it asks one that is gone.
 *
 * usage: snp-files [FOLDER]   (descriptors as in guest/spec.h)
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/magic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/buf.h"
#include "base/fd.h"
#include "guest/body.h"
#include "guest/files/copies.h"
#include "guest/files/pack.h"
#include "guest/pid1/wire.h"
#include "guest/spec.h"

enum {
    READ_LEN = 64 << 10,
    OUT_MAX = 4096 /* of an answer */
};

struct files {
    struct snp_copies *copies;
    bool has_worker; /* until pid 1 has reaped it */
    bool is_writing; /* and it writes the workspace */
    struct snp_buf in;
    struct snp_buf out; /* a whole frame */
};

struct request {
    uint8_t type;
    int fd; /* passed with it, or -1 */
    struct snp_body body;
};

/* What cannot be begun while the workspace is being written. */
static int check_idle(const struct files *f)
{
    return f->is_writing ? EBUSY : 0;
}

static int on_keep(struct files *f, struct request *rq)
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

static int on_restore(struct files *f, struct request *rq)
{
    uint32_t number = (uint32_t)snp_body_take(&rq->body, 4);
    int r = rq->body.bad ? EINVAL : check_idle(f);

    return r == 0 ? snp_copies_restore(f->copies, number) : r;
}

static int on_drop(struct files *f, struct request *rq)
{
    uint32_t number = (uint32_t)snp_body_take(&rq->body, 4);

    if (!rq->body.bad) {
        (void)snp_copies_drop(f->copies, number); /* there may be none */
    }
    return 0;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void close_others(const struct snp_workspace *place, int pipe_fd)
{
    int kept[] = {place->view_fd, place->layer_fd, place->base_fd, place->store_fd, pipe_fd};
    unsigned next = 3;

    qsort(kept, SNP_ARRAY_LEN(kept), sizeof(kept[0]), by_number);
    for (size_t i = 0; i < SNP_ARRAY_LEN(kept); i++) {
        unsigned fd = (unsigned)kept[i];
        if (kept[i] < (int)next) {
            continue; /* there is none, or it was kept already */
        }
        if (fd > next) {
            (void)syscall(SYS_close_range, next, fd - 1, 0);
        }
        next = fd + 1;
    }
    (void)syscall(SYS_close_range, next, ~0U, 0);
}

/*
 * A copy of this process that reads or writes a bundle, so that requests go on being answered. It
 * holds the workspace, the copies and its pipe, nothing else of ours. The kernel makes it a child of
 * pid 1, which reaps it as any other and answers for it; and it ends with pid 1.
 */
static pid_t fork_worker(const struct snp_workspace *place, int pipe_fd)
{
    pid_t parent = getppid();
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != parent) {
            _exit(1);
        }
        (void)prctl(PR_SET_NAME, "worker", 0, 0, 0);
        close_others(place, pipe_fd);
    }
    return pid;
}

/* Run job in a worker. Pid 1, whose child that is, gets its number and answers when it has ended. */
static int start_worker(struct files *f,
                        struct request *rq,
                        int (*job)(const struct files *, struct request *))
{
    int32_t pid;

    if (rq->fd < 0 || f->has_worker) {
        return rq->fd < 0 ? EINVAL : EBUSY;
    }
    pid = fork_worker(snp_copies_workspace(f->copies), rq->fd);
    if (pid == 0) {
        _exit(job(f, rq));
    }
    if (pid < 0) {
        return errno;
    }
    snp_copies_read(f->copies, true);
    f->has_worker = true;
    f->is_writing = rq->type == SNP_INIT_UNPACK;
    return snp_buf_add(&f->out, &pid, sizeof(pid)) < 0 ? ENOMEM : 0;
}

static int on_worked(struct files *f, struct request *rq)
{
    (void)rq;
    snp_copies_read(f->copies, false);
    if (f->is_writing) {
        snp_copies_forget(f->copies);
    }
    f->has_worker = f->is_writing = false;
    return 0;
}

static int pack_job(const struct files *f, struct request *rq)
{
    uint32_t number = (uint32_t)snp_body_take(&rq->body, 4);
    struct snp_pack pack = {
        .place = snp_copies_workspace(f->copies),
        .fd = rq->fd,
    };

    pack.is_describing = snp_body_take(&rq->body, 1) != 0;
    pack.known = rq->body.at;
    pack.n_known = (size_t)(rq->body.end - rq->body.at);
    if (rq->body.bad) {
        return EINVAL;
    }
    pack.tree = number == SNP_PACK_LIVE ? NULL : snp_copies_find(f->copies, number);
    return number != SNP_PACK_LIVE && pack.tree == NULL ? ENOENT : snp_pack(&pack);
}

static int on_pack(struct files *f, struct request *rq)
{
    return start_worker(f, rq, pack_job);
}

static int unpack_job(const struct files *f, struct request *rq)
{
    return snp_unpack(snp_copies_workspace(f->copies), rq->fd);
}

static int on_unpack(struct files *f, struct request *rq)
{
    return start_worker(f, rq, unpack_job);
}

static const struct {
    uint8_t type;
    bool has_reply;
    int (*run)(struct files *, struct request *); /* 0 or errno; appends to out */
} handlers[] = {
    {SNP_INIT_KEEP,    true,  on_keep   },
    {SNP_INIT_RESTORE, true,  on_restore},
    {SNP_INIT_DROP,    false, on_drop   },
    {SNP_INIT_PACK,    true,  on_pack   },
    {SNP_INIT_UNPACK,  true,  on_unpack },
    {SNP_FILES_WORKED, false, on_worked },
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

static void dispatch(struct files *f, struct request *rq, uint32_t id)
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
                send_reply(f, id, r);
            }
            return;
        }
    }
    _exit(1); /* pid 1 is of the same build */
}

/* Run every whole request of what was read. At most one that has a descriptor is under way. */
static void run_requests(struct files *f, int *fd)
{
    while (f->in.len >= SNP_INIT_HEADER_LEN) {
        struct request rq = {.fd = -1};
        const char *bytes = snp_buf_bytes(&f->in);
        uint32_t len;
        uint32_t id;

        memcpy(&len, bytes, sizeof(len));
        memcpy(&id, bytes + 4, sizeof(id));
        rq.type = (uint8_t)bytes[12];
        if (len > SNP_INIT_BODY_MAX) {
            _exit(1);
        }
        if (f->in.len < SNP_INIT_HEADER_LEN + (size_t)len) {
            return;
        }
        if (rq.type == SNP_INIT_PACK || rq.type == SNP_INIT_UNPACK) {
            rq.fd = SNP_TAKE_FD(*fd);
        }
        rq.body = (struct snp_body){.at = bytes + SNP_INIT_HEADER_LEN,
                                    .end = bytes + SNP_INIT_HEADER_LEN + len};
        dispatch(f, &rq, id);
        snp_closep(&rq.fd);
        snp_buf_consume(&f->in, SNP_INIT_HEADER_LEN + (size_t)len);
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
    place.is_layer = folder == NULL && fstatfs(place.view_fd, &fs) == 0 &&
                     fs.f_type == OVERLAYFS_SUPER_MAGIC;
    return place.view_fd < 0 ? NULL : snp_copies_new(&place);
}

int main(int argc, char **argv)
{
    struct files f = {0};

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "files", 0, 0, 0);
    if (argc != 1 && argc != 2) {
        return 2;
    }
    f.copies = open_copies(argv[1]); /* before their numbers are anybody's */
    for (int fd = SNP_FILES_CONTROL_FD; fd <= SNP_INIT_COPIES_FD; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    if (f.copies == NULL) {
        return 1;
    }
    snp_buf_init(&f.in, SNP_INIT_BODY_MAX + (1 << 20));
    snp_buf_init(&f.out, OUT_MAX);
    serve(&f);
}
