/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of a variable as a hash: it is the same as long as pickling would write the same
 * bytes. No code of the session runs: only built-in types are inspected, and attributes of allowed
 * classes.
 */
#ifndef SNP_GUEST_MODULE_CONTENT_H
#define SNP_GUEST_MODULE_CONTENT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define SNP_CONTENT_METHODS                                                                       \
    {"content_refuse", snp_content_refuse, METH_O,                                                \
     "content_refuse([id, ...]): things that contain one of these have no hash"},                 \
        {"content_allow", snp_content_allow, METH_VARARGS,                                        \
         "content_allow(class, bytes): hash its objects by their attributes and these bytes; "    \
         "without bytes, return the objects"},                                                    \
        {"content", snp_content, METH_VARARGS,                                                    \
         "content(thing, first) -> (hash; \"\" if it shares objects with calls before number "    \
         "first; None if unknown), numbers of these calls, returned objects, classes found, the " \
         "unknown class"},                                                                        \
    {                                                                                             \
        "content_held", snp_content_held, METH_O,                                                 \
            "content_held([id, ...]) -> numbers of the calls of content() that found them"        \
    }

PyObject *snp_content_refuse(PyObject *self, PyObject *ids);
PyObject *snp_content_allow(PyObject *self, PyObject *args);
PyObject *snp_content(PyObject *self, PyObject *args);
PyObject *snp_content_held(PyObject *self, PyObject *ids);

#endif
