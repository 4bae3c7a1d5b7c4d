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

#define SNP_CONTENT_METHODS                                                                   \
    {"content_refuse", snp_content_refuse, METH_O,                                            \
     "content_refuse([id, ...]): what holds one of these has no hash"},                       \
        {"content_allow", snp_content_allow, METH_VARARGS,                                    \
         "content_allow(class, bytes): its objects are their attributes, and these bytes; "   \
         "without"                                                                            \
         " bytes they are given back"},                                                       \
        {"content", snp_content, METH_VARARGS,                                                \
         "content(thing, first) -> (hash, or \"\" if it shares objects with calls before "    \
         "number"                                                                             \
         " first, or None if it is not known; numbers of these calls; what is given back; "   \
         "classes"                                                                            \
         " that were met; the class that is not known)"},                                     \
    {                                                                                         \
        "content_held", snp_content_held, METH_O,                                             \
            "content_held([id, ...]) -> numbers of the calls of content() that have met them" \
    }

PyObject *snp_content_refuse(PyObject *self, PyObject *ids);
PyObject *snp_content_allow(PyObject *self, PyObject *args);
PyObject *snp_content(PyObject *self, PyObject *args);
PyObject *snp_content_held(PyObject *self, PyObject *ids);

#endif
