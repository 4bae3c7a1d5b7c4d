/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extension module `_snp`: makes driver.py a zygote, and computes hashes for it. Limited API,
 * so one binary supports CPython 3.8 and later.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/err.h"
#include "base/fd.h"
#include "guest/module/content.h"
#include "guest/module/freeze.h"
#include "guest/module/heap.h"
#include "guest/module/hot.h"
#include "guest/module/image.h"
#include "guest/module/join.h"
#include "guest/module/zygote.h"
#include "guest/spec.h"

enum {
    FILTER_FD = 4,
    READ_SIZE = 64 << 10
};

static struct snp_zygote_hooks hooks = {
    .before_fork = PyOS_BeforeFork,
    .after_fork_parent = PyOS_AfterFork_Parent,
    .after_fork_child = PyOS_AfterFork_Child,
};

/*
 * The interpreter's allocator for small objects. CPython 3.4 and later have it, outside the limited
 * API.
 */
struct arenas {
    void *ctx;
    void *(*take)(void *ctx, size_t n);
    void (*give)(void *ctx, void *arena, size_t n);
};

/* NOLINTBEGIN(readability-identifier-naming): CPython's */
void PyObject_GetArenaAllocator(struct arenas *ret);
void PyObject_SetArenaAllocator(struct arenas *arenas);
/* NOLINTEND(readability-identifier-naming) */

static struct arenas own_arenas; /* the interpreter's */

static void *arena_take(void *ctx, size_t n)
{
    void *arena = snp_heap_arena(n);

    return arena != NULL ? arena : own_arenas.take(ctx, n);
}

static void arena_give(void *ctx, void *arena, size_t n)
{
    if (!snp_heap_arena_free(arena, n)) {
        own_arenas.give(ctx, arena, n);
    }
}

static PyObject *py_gather(PyObject *self, PyObject *args)
{
    struct arenas arenas;

    (void)self;
    (void)args;
    if (own_arenas.take == NULL) {
        PyObject_GetArenaAllocator(&own_arenas);
        arenas = (struct arenas){own_arenas.ctx, arena_take, arena_give};
        snp_template_image_settings_now(&hooks.began);
        snp_heap_begin();
        PyObject_SetArenaAllocator(&arenas);
    }
    return Py_BuildValue(""); /* None */
}

static PyObject *py_gathered(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    snp_heap_end();
    return Py_BuildValue(""); /* None */
}

static PyObject *py_no_hangups(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    snp_zygote_outlive_hangups();
    return Py_BuildValue(""); /* None */
}

/* Never freed: images can be written at any time. */
static PyObject *py_note_files(PyObject *self, PyObject *files)
{
    Py_ssize_t len = 0;
    char *text = NULL;

    (void)self;
    if (PyBytes_AsStringAndSize(files, &text, &len) < 0) {
        return NULL;
    }
    Py_INCREF(files);
    hooks.files = text;
    hooks.files_len = (size_t)len;
    return Py_BuildValue(""); /* None */
}

static PyObject *py_serve(PyObject *self, PyObject *args)
{
    static char version[SNP_VERSION_MAX + 1];
    struct snp_err err;
    int control_fd;

    (void)self;
    if (!PyArg_ParseTuple(args, "i", &control_fd)) {
        return NULL;
    }
    /* "3.11.2 (main, ...)" */
    (void)snprintf(version, sizeof(version), "%.*s", (int)strcspn(Py_GetVersion(), " "),
                   Py_GetVersion());
    hooks.version = version;
    snp_join_libraries();
    snp_heap_end();
    if (snp_zygote_serve(control_fd, FILTER_FD, &hooks, &err) < 0) {
        PyErr_SetString(PyExc_OSError, err.msg);
        return NULL;
    }
    return PyLong_FromLong(SNP_GUEST_FD);
}

static PyObject *py_leave_copy(PyObject *self, PyObject *args)
{
    struct snp_zygote_copy copy = {.n_closing = 0};
    PyObject *list;
    int new_fd = -1;

    (void)self;
    if (!PyArg_ParseTuple(args, "iiO", &copy.socket_fd, &copy.stream_fd, &list)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_Size(list) && i < SNP_ZYGOTE_CLOSING_MAX; i++) {
        copy.closing[copy.n_closing++] = (int)PyLong_AsLong(PyList_GetItem(list, i));
    }
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    snp_hot_look();
    if (snp_zygote_leave_copy(&copy, &new_fd) < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromLong(new_fd);
}

static PyObject *py_freeze(PyObject *self, PyObject *args)
{
    struct snp_image_given given = {.stream_fd = -1};
    uint32_t n_items = 0;
    struct snp_image_rest rest = {.n_items = &n_items};
    char why[SNP_IMAGE_WHY_MAX] = "";
    int fd;
    int r;

    (void)self;
    if (!PyArg_ParseTuple(args, "i|s", &fd, &rest.known)) {
        return NULL;
    }
    r = snp_image_freeze(fd, rest.known == NULL ? NULL : &rest, &given, why);
    return Py_BuildValue("isiII", r, r < 0 ? why : "", given.stream_fd, given.id, n_items);
}

static PyObject *py_thaw(PyObject *self, PyObject *args)
{
    struct snp_image_given given;
    char why[SNP_IMAGE_WHY_MAX] = "";
    int fd;
    int is_rest;

    (void)self;
    if (!PyArg_ParseTuple(args, "iiIp", &fd, &given.stream_fd, &given.id, &is_rest)) {
        return NULL;
    }
    snp_image_thaw(fd, is_rest != 0, &given, why);
    return PyUnicode_FromString(why);
}

static PyObject *py_warm(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    snp_hot_touch();
    return Py_BuildValue(""); /* None */
}

/* One recvmsg, repeated after signals; -1 with errno, or with a Python exception and errno 0. */
static ssize_t receive_message(int fd, struct msghdr *msg)
{
    for (;;) {
        ssize_t n;

        Py_BEGIN_ALLOW_THREADS;
        n = recvmsg(fd, msg, MSG_CMSG_CLOEXEC);
        Py_END_ALLOW_THREADS;
        if (n >= 0 || errno != EINTR) {
            return n;
        }
        if (PyErr_CheckSignals() < 0) {
            errno = 0;
            return -1;
        }
    }
}

/* The first descriptor of a message, or -1; others are closed. */
static int passed_fd(struct msghdr *msg)
{
    int kept = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= c->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
            if (kept < 0) {
                kept = fd;
            } else {
                (void)close(fd);
            }
        }
    }
    return kept;
}

static PyObject *py_receive(PyObject *self, PyObject *args)
{
    char bytes[READ_SIZE];
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(SNP_FDS_MAX * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes};
    struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room};
    int fd;
    int size;
    ssize_t n;
    PyObject *answer;

    (void)self;
    if (!PyArg_ParseTuple(args, "ii", &fd, &size)) {
        return NULL;
    }
    msg.msg_controllen = sizeof(control.room);
    part.iov_len = size > 0 && size < READ_SIZE ? (size_t)size : READ_SIZE;
    n = receive_message(fd, &msg);
    if (n < 0) {
        return errno == 0 ? NULL : PyErr_SetFromErrno(PyExc_OSError);
    }
    fd = passed_fd(&msg);
    answer = Py_BuildValue("y#i", bytes, (Py_ssize_t)n, fd);
    if (answer == NULL && fd >= 0) {
        (void)close(fd);
    }
    return answer;
}

/*
 * The buffer protocol, in CPython 3.8 and later; part of the limited API since 3.11, in the same
 * form, so our headers do not declare it.
 */
struct buffer {
    void *bytes;
    PyObject *owner;
    Py_ssize_t len;
    Py_ssize_t item_len;
    int is_readonly;
    int n_dimensions;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
};

/* NOLINTBEGIN(readability-identifier-naming): CPython's */
int PyObject_GetBuffer(PyObject *exporter, struct buffer *view, int flags);
void PyBuffer_Release(struct buffer *view);
/* NOLINTEND(readability-identifier-naming) */

enum {
    BUFFER_SIMPLE = 0
};

/* XXH3-128 over pieces: the key of a bundle's item (docs/wire.md). Not cryptographic. */
static PyObject *py_digest(PyObject *self, PyObject *parts)
{
    Py_ssize_t n = PyList_Size(parts); /* for other types: -1, with an exception */
    XXH3_state_t *state = n < 0 ? NULL : XXH3_createState(); /* aligned, unlike a frame */
    XXH128_hash_t hash;
    char text[33];
    Py_ssize_t i;

    (void)self;
    if (state == NULL) {
        return n < 0 ? NULL : PyErr_NoMemory();
    }
    (void)XXH3_128bits_reset(state);
    for (i = 0; i < n; i++) {
        PyObject *part = PyList_GetItem(parts, i);
        struct buffer view;

        if (part == NULL || PyObject_GetBuffer(part, &view, BUFFER_SIMPLE) < 0) {
            break;
        }
        (void)XXH3_128bits_update(state, view.bytes, (size_t)view.len);
        PyBuffer_Release(&view);
    }
    hash = XXH3_128bits_digest(state);
    (void)XXH3_freeState(state);
    (void)snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)hash.high64,
                   (unsigned long long)hash.low64);
    return i < n ? NULL : PyUnicode_FromString(text);
}

/* "".join(texts), but each text is freed before the next one is taken. */
static PyObject *py_joined(PyObject *self, PyObject *texts)
{
    PyObject *iterator = PyObject_GetIter(texts);
    PyObject *made = iterator == NULL ? NULL : PyUnicode_FromString("");
    PyObject *text;

    (void)self;
    while (made != NULL && (text = PyIter_Next(iterator)) != NULL) {
        PyUnicode_AppendAndDel(&made, text); /* in place; NULL if it fails */
    }
    Py_XDECREF(iterator);
    if (PyErr_Occurred() != NULL) {
        Py_CLEAR(made);
    }
    return made;
}

static PyMethodDef methods[] = {
    {"note_files", py_note_files, METH_O,
     "note_files(b'PATH\\0'...): files of loaded modules, on which images depend"},
    {"serve", py_serve, METH_VARARGS,
     "serve(control_fd) -> guest_fd: returns only in an interpreter"},
    {"gather", py_gather, METH_NOARGS,
     "gather(): put later allocations into large pages, until serve()"},
    {"gathered", py_gathered, METH_NOARGS, "gathered(): end gather() where serve() is not called"},
    {"no_hangups", py_no_hangups, METH_NOARGS, "no_hangups(): ignore hangups sent by the kernel"},
    {"leave_copy", py_leave_copy, METH_VARARGS,
     "leave_copy(socket_fd, stream_fd, closed in it) -> -1; the new stream in each interpreter "
     "woken from the copy"},
    {"freeze", py_freeze, METH_VARARGS,
     "freeze(fd) -> (0, \"\", ...), or (-1, why, ...); in the thawed interpreter (1, \"\", "
     "stream_fd, id)"},
    {"thaw", py_thaw, METH_VARARGS, "thaw(fd, stream_fd, id) -> the reason for a failure"},
    {"warm", py_warm, METH_NOARGS,
     "warm(): copy the pages that a cell will write; after leave_copy()"},
    {"receive", py_receive, METH_VARARGS, "receive(fd, n) -> (bytes, passed descriptor or -1)"},
    {"digest", py_digest, METH_O,
     "digest([buffer, ...]) -> the key of their bytes, one after the other"},
    {"joined", py_joined, METH_O, "joined(texts) -> one text, without a second copy"},
    SNP_CONTENT_METHODS,
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "_snp",     .m_doc = "Fork warm interpreters into sandboxes.",
    .m_size = -1,          .m_methods = methods,
};

/* NOLINTBEGIN(readability-identifier-naming): the name CPython looks for */
PyMODINIT_FUNC PyInit__snp(void);

PyMODINIT_FUNC PyInit__snp(void)
{
    return PyModule_Create(&module);
}
/* NOLINTEND(readability-identifier-naming) */
