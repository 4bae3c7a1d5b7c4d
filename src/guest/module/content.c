/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk writes a token for each object: its type, its length, its own content, and then the tokens
 * of its parts. So equal tokens mean equal graphs, including repeated references. The walk keeps an
 * explicit stack, so nesting costs no recursion.
 *
 * The table has each object that could be met twice, and the last walk that met it. An object with
 * a single reference is reachable by that only, unless it can have weak references. Objects are
 * borrowed: the caller holds the variable, and no code of the session runs.
 */
#include "guest/module/content.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    ROOM = 16 << 10,    /* bytes of tokens hashed together */
    TEXT = 4096,        /* characters of a text copied together */
    KINDS_MAX = 1024,   /* classes allowed */
    SEGMENT = 64 << 10, /* texts above this size are distinguished by identity */
    TABLE_MIN = 1 << 12,
    WALKS_MIN = 1 << 8,
    HASH_BYTES = 16,
};

/* Properties of objects of a type. */
enum trait {
    MET = 1,    /* pickling detects repeated references */
    APART = 2,  /* two equal objects are different to the session */
    STRONG = 4, /* have no weak references */
};

/* The first byte of a token; types are numbered from FIRST_TYPE. */
enum token {
    AGAIN,
    SMALL_INT,
    LARGE_INT,
    OBJECT,
    GIVEN_BACK,
    FIRST_TYPE,
};

static const uint32_t REFUSED = UINT32_MAX;

struct seen_object {
    const void *thing; /* NULL = free */
    uint32_t walk;
    uint32_t place; /* in that walk */
};

struct known_class {
    PyObject *type;
    bool is_given_back;
    uint32_t walk; /* the last walk that met it */
    uint8_t hash[HASH_BYTES];
};

/* State of this process, which saves once and ends. */
static struct {
    struct seen_object *entries;
    size_t size; /* a power of two; at most half is used */
    size_t used;
    bool *is_whole; /* of each walk: it was completed */
    uint32_t n_walks;
    uint32_t walks_size;
    struct known_class kinds[KINDS_MAX]; /* classes borrowed from the caller that allowed them */
    unsigned n_kinds;
} all;

struct object_walk {
    uint32_t number;
    uint32_t places;
    uint32_t first; /* objects met in earlier walks are shared */
    bool is_linked;
    uint32_t last_link;
    PyObject *links; /* owned, like the next two */
    PyObject *given_back;
    PyObject *classes;
    PyObject *unknown; /* borrowed: a class */
    PyObject **stack;  /* owned */
    size_t stack_n;
    size_t stack_size;
    XXH3_state_t *hash; /* owned */
    size_t n;
    uint8_t room[ROOM];
};

/* All of these return 0, or -1 with or without a Python exception: content unknown. */

/* Tokens -------------------------------------------------------------------------------------- */

static void put(struct object_walk *w, const void *bytes, size_t n)
{
    if (n > ROOM - w->n) {
        (void)XXH3_128bits_update(w->hash, w->room, w->n);
        w->n = 0;
    }
    if (n > ROOM) {
        (void)XXH3_128bits_update(w->hash, bytes, n);
    } else if (n > 0) {
        memcpy(w->room + w->n, bytes, n);
        w->n += n;
    }
}

static void put_token(struct object_walk *w, unsigned token, uint64_t number)
{
    const uint8_t first = (uint8_t)token;

    put(w, &first, sizeof(first));
    put(w, &number, sizeof(number));
}

static int push(struct object_walk *w, PyObject *thing)
{
    if (w->stack_n == w->stack_size) {
        size_t size = w->stack_size == 0 ? ROOM : 2 * w->stack_size;
        PyObject **grown = reallocarray(w->stack, size, sizeof(PyObject *));
        if (grown == NULL) {
            return -1;
        }
        w->stack = grown;
        w->stack_size = size;
    }
    w->stack[w->stack_n++] = thing;
    return 0;
}

/* Types ---------------------------------------------------------------------------------------- */

static int put_text(struct object_walk *w, PyObject *text, unsigned token)
{
    Py_UCS4 copy[TEXT];
    Py_ssize_t len = PyUnicode_GetLength(text);
    int r = len < 0 ? -1 : 0;

    put_token(w, token, (uint64_t)len);
    for (Py_ssize_t at = 0; r == 0 && at < len; at += TEXT) {
        Py_ssize_t n = len - at < TEXT ? len - at : TEXT;
        PyObject *part = len <= TEXT ? text : PyUnicode_Substring(text, at, at + n);

        r = part == NULL || PyUnicode_AsUCS4(part, copy, TEXT, 0) == NULL ? -1 : 0;
        put(w, copy, r < 0 ? 0 : (size_t)n * sizeof(*copy));
        if (part != text) {
            Py_XDECREF(part);
        }
    }
    return r;
}

static int put_int(struct object_walk *w, PyObject *number, unsigned token)
{
    int is_large = 0;
    long long value = PyLong_AsLongLongAndOverflow(number, &is_large);
    PyObject *digits;
    int r;

    (void)token;
    if (is_large == 0) {
        put_token(w, SMALL_INT, (uint64_t)value);
        return 0;
    }
    digits = PyNumber_ToBase(number, 16);
    r = digits == NULL ? -1 : put_text(w, digits, LARGE_INT);
    Py_XDECREF(digits);
    return r;
}

static int put_float(struct object_walk *w, PyObject *number, unsigned token)
{
    double value = PyFloat_AsDouble(number);
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_token(w, token, bits);
    return 0;
}

static int put_complex(struct object_walk *w, PyObject *number, unsigned token)
{
    const double values[] = {PyComplex_RealAsDouble(number), PyComplex_ImagAsDouble(number)};

    put_token(w, token, 0);
    put(w, values, sizeof(values));
    return 0;
}

static int put_single(struct object_walk *w, PyObject *thing, unsigned token)
{
    put_token(w, token, thing == Py_True ? 1 : 0);
    return 0;
}

static int put_bytes(struct object_walk *w, PyObject *bytes, unsigned token)
{
    bool is_array = Py_TYPE(bytes) == &PyByteArray_Type;
    Py_ssize_t n = is_array ? PyByteArray_Size(bytes) : PyBytes_Size(bytes);

    put_token(w, token, (uint64_t)n);
    put(w, is_array ? PyByteArray_AsString(bytes) : PyBytes_AsString(bytes), (size_t)n);
    return 0;
}

static int put_list(struct object_walk *w, PyObject *list, unsigned token)
{
    bool is_tuple = Py_TYPE(list) == &PyTuple_Type;
    Py_ssize_t n = is_tuple ? PyTuple_Size(list) : PyList_Size(list);
    int r = 0;

    put_token(w, token, (uint64_t)n);
    for (Py_ssize_t i = 0; r == 0 && i < n; i++) {
        r = push(w, is_tuple ? PyTuple_GetItem(list, i) : PyList_GetItem(list, i));
    }
    return r;
}

static int put_dict(struct object_walk *w, PyObject *dict, unsigned token)
{
    PyObject *key = NULL;
    PyObject *value = NULL;
    Py_ssize_t at = 0;
    int r = 0;

    put_token(w, token, (uint64_t)PyDict_Size(dict));
    while (r == 0 && PyDict_Next(dict, &at, &key, &value) != 0) {
        r = push(w, key) < 0 || push(w, value) < 0 ? -1 : 0;
    }
    return r;
}

/* In the order of pickling, too. */
static int put_set(struct object_walk *w, PyObject *set, unsigned token)
{
    PyObject *items = PyObject_GetIter(set);
    PyObject *item;
    int r = items == NULL ? -1 : 0;

    put_token(w, token, (uint64_t)PySet_Size(set));
    while (r == 0 && (item = PyIter_Next(items)) != NULL) {
        r = push(w, item);
        Py_DECREF(item); /* the set holds it */
    }
    Py_XDECREF(items);
    return r < 0 || PyErr_Occurred() != NULL ? -1 : 0;
}

static const struct shape {
    PyTypeObject *type;
    int (*put)(struct object_walk *w, PyObject *thing, unsigned token);
    unsigned traits;
    /* length from which they are distinguished by identity; 0 = never. state.py: SIZED */
    Py_ssize_t large;
} shapes[] = {
    {&PyUnicode_Type, put_text, MET | STRONG, SEGMENT},
    {&PyLong_Type, put_int, 0, 0},
    {&PyFloat_Type, put_float, 0, 0},
    {&PyDict_Type, put_dict, MET | APART | STRONG, 0},
    {&PyList_Type, put_list, MET | APART | STRONG, 0},
    {&PyTuple_Type, put_list, MET | STRONG, SEGMENT / 8},
    {&PyBool_Type, put_single, 0, 0},
    {&PyBytes_Type, put_bytes, MET | STRONG, SEGMENT},
    {&PySet_Type, put_set, MET | APART, 0},
    {&PyFrozenSet_Type, put_set, MET, SEGMENT / 32},
    {&PyByteArray_Type, put_bytes, MET | APART | STRONG, 0},
    {&PyComplex_Type, put_complex, 0, 0},
};

enum {
    N_SHAPES = sizeof(shapes) / sizeof(shapes[0])
};

static bool is_large(const struct shape *shape, PyObject *thing)
{
    return shape->large > 0 && PyObject_Size(thing) >= shape->large;
}

/* The table ------------------------------------------------------------------------------------ */

static struct seen_object *entry_of(const void *thing)
{
    size_t at = (size_t)(((uint64_t)(uintptr_t)thing >> 4) * 0x9e3779b97f4a7c15ULL >> 20);

    for (;; at++) {
        struct seen_object *entry = &all.entries[at & (all.size - 1)];
        if (entry->thing == NULL || entry->thing == thing) {
            return entry;
        }
    }
}

static int table_grow(void)
{
    struct seen_object *old = all.entries;
    size_t old_size = all.size;
    size_t size = old_size == 0 ? TABLE_MIN : 2 * old_size;
    struct seen_object *entries = calloc(size, sizeof(*entries));

    if (entries == NULL) {
        return -1;
    }
    all.entries = entries;
    all.size = size;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i].thing != NULL) {
            *entry_of(old[i].thing) = old[i];
        }
    }
    free(old);
    return 0;
}

static int entry_add(const void *thing, struct seen_object **ret_entry)
{
    if (2 * all.used >= all.size && table_grow() < 0) {
        return -1;
    }
    *ret_entry = entry_of(thing);
    return 0;
}

static int links_add(PyObject *links, uint32_t number)
{
    PyObject *value = PyLong_FromUnsignedLong(number);
    int r = value == NULL ? -1 : PyList_Append(links, value);

    Py_XDECREF(value);
    return r;
}

/* 1 = met before; it needs no further tokens. */
static int meet(struct object_walk *w, PyObject *thing, unsigned traits, const struct shape *shape)
{
    const uint32_t place = w->places++;
    struct seen_object *entry = NULL;

    if ((traits & STRONG) != 0 && Py_REFCNT(thing) == 1) {
        return 0;
    }
    if (place == UINT32_MAX || entry_add(thing, &entry) < 0) {
        return -1;
    }
    if (entry->thing != NULL && entry->walk == REFUSED) {
        return -1;
    }
    if (entry->thing != NULL && entry->walk == w->number) {
        put_token(w, AGAIN, entry->place);
        return 1;
    }
    if (entry->thing != NULL && entry->walk < w->first &&
        ((traits & APART) != 0 || is_large(shape, thing))) {
        w->is_linked = true;
        if (entry->walk != w->last_link && links_add(w->links, entry->walk) < 0) {
            return -1;
        }
        w->last_link = entry->walk;
        if (all.is_whole[entry->walk]) {
            return 1; /* its parts are linked there */
        }
    }
    all.used += entry->thing == NULL ? 1 : 0;
    *entry = (struct seen_object){.thing = thing, .walk = w->number, .place = place};
    return 0;
}

/* A walk --------------------------------------------------------------------------------------- */

static struct known_class *kind_of(const PyObject *type)
{
    for (unsigned i = 0; i < all.n_kinds; i++) {
        if (all.kinds[i].type == type) {
            return &all.kinds[i];
        }
    }
    return NULL;
}

static int put_object(struct object_walk *w, PyObject *thing)
{
    struct known_class *kind = kind_of((PyObject *)Py_TYPE(thing));
    PyObject *name;
    PyObject *attributes;
    int r;

    if (kind == NULL) {
        w->unknown = (PyObject *)Py_TYPE(thing);
        return -1;
    }
    r = meet(w, thing, MET | APART, NULL);
    if (r != 0) {
        return r < 0 ? -1 : 0;
    }
    if (kind->is_given_back) {
        put_token(w, GIVEN_BACK, 0);
        return PyList_Append(w->given_back, thing);
    }
    kind->walk = w->number;
    put_token(w, OBJECT, 0);
    put(w, kind->hash, sizeof(kind->hash));
    name = PyUnicode_FromString("__dict__");
    attributes = name == NULL ? NULL : PyObject_GenericGetAttr(thing, name);
    r = attributes == NULL ? -1 : push(w, attributes);
    Py_XDECREF(attributes); /* the object holds it */
    Py_XDECREF(name);
    return r;
}

static int put_thing(struct object_walk *w, PyObject *thing)
{
    const void *type = Py_TYPE(thing);

    if (thing == Py_None) {
        put_token(w, FIRST_TYPE + N_SHAPES, 0);
        return 0;
    }
    for (unsigned i = 0; i < N_SHAPES; i++) {
        const struct shape *shape = &shapes[i];

        if (type == shape->type) {
            int r = (shape->traits & MET) == 0 ? 0 : meet(w, thing, shape->traits, shape);
            return r != 0 ? (r < 0 ? -1 : 0) : shape->put(w, thing, FIRST_TYPE + i);
        }
    }
    return put_object(w, thing);
}

static int walk_begin(struct object_walk *w, uint32_t first)
{
    *w = (struct object_walk){.number = all.n_walks, .first = first, .last_link = REFUSED};
    if (all.n_walks == all.walks_size) {
        uint32_t size = all.walks_size == 0 ? WALKS_MIN : 2 * all.walks_size;
        bool *grown = reallocarray(all.is_whole, size, sizeof(*grown));
        if (grown == NULL) {
            return -1;
        }
        all.is_whole = grown;
        all.walks_size = size;
    }
    all.is_whole[all.n_walks++] = false;
    w->hash = XXH3_createState();
    w->links = PyList_New(0);
    w->given_back = PyList_New(0);
    w->classes = PyList_New(0);
    if (w->hash == NULL || w->links == NULL || w->given_back == NULL || w->classes == NULL) {
        return -1;
    }
    return XXH3_128bits_reset(w->hash) == XXH_OK ? 0 : -1;
}

static int walk_all(struct object_walk *w, PyObject *thing)
{
    int r = push(w, thing);

    while (r == 0 && w->stack_n > 0) {
        r = put_thing(w, w->stack[--w->stack_n]);
    }
    (void)XXH3_128bits_update(w->hash, w->room, w->n);
    for (unsigned i = 0; r == 0 && i < all.n_kinds; i++) {
        if (all.kinds[i].walk == w->number) {
            r = PyList_Append(w->classes, all.kinds[i].type);
        }
    }
    all.is_whole[w->number] = r == 0;
    return r;
}

static PyObject *hex_of(XXH128_hash_t hash)
{
    char text[33];

    (void)snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)hash.high64,
                   (unsigned long long)hash.low64);
    return PyUnicode_FromString(text);
}

static PyObject *answer_of(struct object_walk *w, bool is_known)
{
    PyObject *hash = Py_None;
    PyObject *answer;

    if (is_known) {
        hash = w->is_linked ? PyUnicode_FromString("") : hex_of(XXH3_128bits_digest(w->hash));
        answer = hash == NULL
                     ? NULL
                     : Py_BuildValue("NOOOO", hash, w->links, w->given_back, w->classes, Py_None);
    } else {
        PyErr_Clear();
        answer = Py_BuildValue("OOOOO", hash, w->links, w->given_back, w->classes,
                               w->unknown == NULL ? Py_None : w->unknown);
    }
    return answer;
}

PyObject *snp_content(PyObject *self, PyObject *args)
{
    struct object_walk *w;
    PyObject *thing;
    PyObject *answer = NULL;
    unsigned first;

    (void)self;
    if (!PyArg_ParseTuple(args, "OI", &thing, &first)) {
        return NULL;
    }
    w = malloc(sizeof(*w));
    if (w == NULL) {
        return PyErr_NoMemory();
    }
    if (walk_begin(w, first) < 0) {
        (void)PyErr_NoMemory();
    } else {
        answer = answer_of(w, walk_all(w, thing) == 0);
    }
    Py_XDECREF(w->links);
    Py_XDECREF(w->given_back);
    Py_XDECREF(w->classes);
    (void)XXH3_freeState(w->hash);
    free(w->stack);
    free(w);
    return answer;
}

/* Interface: calls before and after walks ------------------------------------------------ */

PyObject *snp_content_refuse(PyObject *self, PyObject *ids)
{
    Py_ssize_t n = PyList_Size(ids);

    (void)self;
    for (Py_ssize_t i = 0; i < n; i++) {
        const void *thing = PyLong_AsVoidPtr(PyList_GetItem(ids, i));
        struct seen_object *entry = NULL;

        if (thing != NULL && entry_add(thing, &entry) < 0) {
            return PyErr_NoMemory();
        }
        if (thing != NULL) {
            all.used += entry->thing == NULL ? 1 : 0;
            *entry = (struct seen_object){.thing = thing, .walk = REFUSED};
        }
    }
    return PyErr_Occurred() != NULL ? NULL : Py_BuildValue("");
}

PyObject *snp_content_allow(PyObject *self, PyObject *args)
{
    PyObject *type;
    const char *bytes;
    Py_ssize_t n;
    struct known_class *kind;
    XXH128_hash_t hash;

    (void)self;
    if (!PyArg_ParseTuple(args, "Oy#", &type, &bytes, &n)) {
        return NULL;
    }
    if (all.n_kinds == KINDS_MAX || kind_of(type) != NULL) {
        PyErr_SetString(PyExc_ValueError, "too many classes, or one again");
        return NULL;
    }
    kind = &all.kinds[all.n_kinds];
    hash = XXH3_128bits(bytes, (size_t)n);
    *kind = (struct known_class){.type = type, .is_given_back = n == 0, .walk = REFUSED};
    memcpy(kind->hash, &hash, sizeof(kind->hash));
    all.n_kinds++;
    return Py_BuildValue("");
}

PyObject *snp_content_held(PyObject *self, PyObject *ids)
{
    PyObject *numbers = PyList_New(0);
    Py_ssize_t n = numbers == NULL ? 0 : PyList_Size(ids);
    uint32_t last = REFUSED;
    int r = numbers == NULL ? -1 : 0;

    (void)self;
    for (Py_ssize_t i = 0; r == 0 && i < n && all.size > 0; i++) {
        const struct seen_object *entry = entry_of(PyLong_AsVoidPtr(PyList_GetItem(ids, i)));

        if (entry->thing != NULL && entry->walk != REFUSED && entry->walk != last) {
            last = entry->walk;
            r = links_add(numbers, last);
        }
    }
    if (r < 0 || PyErr_Occurred() != NULL) {
        Py_XDECREF(numbers);
        return NULL;
    }
    return numbers;
}
