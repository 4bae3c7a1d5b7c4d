/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extension module `_snp`: lets driver.py be a zygote. Limited API, so one binary
 * serves every CPython from 3.8 on.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "guest/heap.h"
#include "guest/spec.h"
#include "guest/zygote.h"

enum {
    FILTER_FD = 4
};

static struct snp_zygote_hooks hooks = {
    .before_fork = PyOS_BeforeFork,
    .after_fork_parent = PyOS_AfterFork_Parent,
    .after_fork_child = PyOS_AfterFork_Child,
};

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
    snp_heap_fill();
    if (snp_zygote_serve(control_fd, FILTER_FD, &hooks, &err) < 0) {
        PyErr_SetString(PyExc_OSError, err.msg);
        return NULL;
    }
    return PyLong_FromLong(SNP_GUEST_FD);
}

static PyObject *py_seed(PyObject *self, PyObject *args)
{
    bool is_new = false;
    int stream_fd;

    (void)self;
    if (!PyArg_ParseTuple(args, "i", &stream_fd)) {
        return NULL;
    }
    if (snp_zygote_seed(stream_fd, &is_new) < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromLong(is_new ? SNP_GUEST_FD : -1);
}

static PyMethodDef methods[] = {
    {"serve", py_serve, METH_VARARGS,
     "serve(control_fd) -> guest_fd: returns only in an interpreter"               },
    {"seed",  py_seed,  METH_VARARGS,
     "seed(stream_fd) -> -1, and the guest_fd in each interpreter that comes of it"},
    {NULL,    NULL,     0,            NULL                                         },
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_snp",
    .m_doc = "Fork warm interpreters into sandboxes.",
    .m_size = -1,
    .m_methods = methods,
};

/* NOLINTBEGIN(readability-identifier-naming): the name CPython looks for */
PyMODINIT_FUNC PyInit__snp(void);

PyMODINIT_FUNC PyInit__snp(void)
{
    return PyModule_Create(&module);
}
/* NOLINTEND(readability-identifier-naming) */
