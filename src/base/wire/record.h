/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_RECORD_H
#define SNP_BASE_WIRE_RECORD_H

/*
 * The form of a JSON object that crosses a border of trust, and the C struct it is read into.
 *
 * A list of fields is a macro with each field once: F(S, kind, name, need, max, more, text, members
 * of struct snp_field, as .source).
 *   S     the struct, from the macro's caller
 *   kind  STR, WORD, INT, ... as below: the JSON type and the type in C
 *   need  MUST, OPT (may be absent), NIL (may be null), OPTNIL, SAID (OPT, but always written);
 *         with _3_1: not in 3.0
 *   max   as snp_field.max; 0 = no other limit than the frame's
 *   more  of a WORD its values, of OBJ and ARR the form of their content; else 0
 *   text  its meaning, for docs/wire.md
 * SNP_RECORD_DECLARE makes a struct, SNP_RECORD_DEFINE the table.
 */

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_T_STR = 1 << 0, /* no NUL inside */
    SNP_T_INT = 1 << 1, /* 0 or more */
    SNP_T_BOOL = 1 << 2,
    SNP_T_OBJ = 1 << 3,
    SNP_T_ARR = 1 << 4,
    SNP_T_NULL = 1 << 5,
    SNP_T_OPT = 1 << 6,  /* may be absent */
    SNP_T_NEG = 1 << 7,  /* with INT: may be negative */
    SNP_T_TEXT = 1 << 8, /* a string of any characters */
    SNP_T_REAL = 1 << 9,
    SNP_T_STRS = 1 << 10, /* with ARR: of strings */
    SNP_T_SAID = 1 << 11, /* with OPT: always written */
    SNP_T_ANY = SNP_T_TEXT | SNP_T_STR | SNP_T_INT | SNP_T_NEG | SNP_T_REAL | SNP_T_BOOL |
                SNP_T_OBJ | SNP_T_ARR,
};

/* The representation of a field in the struct. */
enum snp_held {
    SNP_HELD_NOT = 0, /* only in the JSON */
    SNP_HELD_STR,     /* const char *, borrowed; NULL = absent or null */
    SNP_HELD_JSON,    /* json_t *, borrowed; NULL = absent or null */
    SNP_HELD_UINT,    /* uint64_t; 0 = absent or null */
    SNP_HELD_INT,     /* int64_t; SNP_NO_NUMBER = absent or null */
    SNP_HELD_BOOL,    /* bool; false = absent */
    SNP_HELD_YES,     /* bool; true = absent */
    SNP_HELD_REAL,    /* double; 0 = absent or null */
};

#define SNP_NO_NUMBER INT64_MIN

/* The source of the value of a result's member (docs/result.md). */
enum snp_origin {
    SNP_SOURCE_NONE = 0,
    SNP_ATTESTED, /* from outside the code: supervisor, pid 1, kernel */
    SNP_CLAIMED,  /* from a process shared with the code, which can forge it */
    SNP_BY_END,   /* either, depending on the cell's end */
    SNP_SOURCES,
};

struct snp_record;

struct snp_field {
    const char *name;
    unsigned types; /* SNP_T_* */
    uint64_t max;   /* largest value, bytes of a string, elements; 0 = the frame's limit */
    const char *const *words;    /* the values of a string, two or more, NULL-terminated; or NULL */
    const struct snp_record *of; /* the form of an object, or of an array's elements; or NULL */
    enum snp_held held;
    size_t offset;
    const char *text;
    enum snp_origin source;
};

struct snp_record {
    const char *what; /* in messages: "exec", "result"; of a request its method */
    const struct snp_field *fields;
    size_t n_fields;
    bool allow_more; /* other members are allowed, and ignored */
    /* A member whose value is `what`: "method" of requests, "event" of events; or NULL. */
    const char *tag;
    size_t size; /* of the struct; 0 = none */
};

/* A table without a struct. */
#define SNP_RECORD(what_, fields_)                                               \
    {                                                                            \
        .what = (what_), .fields = (fields_), .n_fields = SNP_ARRAY_LEN(fields_) \
    }

/* clang-format off */
#define SNP_C_STR  const char *
#define SNP_C_WORD const char *
#define SNP_C_TEXT json_t *
#define SNP_C_OBJ  json_t *
#define SNP_C_ARR  json_t *
#define SNP_C_STRS json_t *
#define SNP_C_ANY  json_t *
#define SNP_C_INT  uint64_t
#define SNP_C_NUM  int64_t
#define SNP_C_NEG  int64_t
#define SNP_C_BOOL bool
#define SNP_C_YES  bool
#define SNP_C_REAL double

#define SNP_NEED_MUST   0
#define SNP_NEED_OPT    SNP_T_OPT
#define SNP_NEED_NIL    SNP_T_NULL
#define SNP_NEED_OPTNIL (SNP_T_OPT | SNP_T_NULL)
#define SNP_NEED_SAID   (SNP_T_OPT | SNP_T_SAID)

#define SNP_KIND_STR(need, more)  .types = SNP_T_STR | (need), .held = SNP_HELD_STR
#define SNP_KIND_WORD(need, more) .types = SNP_T_STR | (need), .held = SNP_HELD_STR, .words = (more)
#define SNP_KIND_TEXT(need, more) .types = SNP_T_TEXT | (need), .held = SNP_HELD_JSON
#define SNP_KIND_OBJ(need, more)  .types = SNP_T_OBJ | (need), .held = SNP_HELD_JSON, .of = (more)
#define SNP_KIND_ARR(need, more)  .types = SNP_T_ARR | (need), .held = SNP_HELD_JSON, .of = (more)
#define SNP_KIND_STRS(need, more) .types = SNP_T_ARR | SNP_T_STRS | (need), .held = SNP_HELD_JSON
#define SNP_KIND_INT(need, more)  .types = SNP_T_INT | (need), .held = SNP_HELD_UINT
#define SNP_KIND_NUM(need, more)  .types = SNP_T_INT | (need), .held = SNP_HELD_INT
#define SNP_KIND_NEG(need, more)  .types = SNP_T_INT | SNP_T_NEG | (need), .held = SNP_HELD_INT
#define SNP_KIND_BOOL(need, more) .types = SNP_T_BOOL | (need), .held = SNP_HELD_BOOL
#define SNP_KIND_YES(need, more)  .types = SNP_T_BOOL | (need), .held = SNP_HELD_YES
#define SNP_KIND_REAL(need, more) .types = SNP_T_INT | SNP_T_NEG | SNP_T_REAL | (need), .held = SNP_HELD_REAL
#define SNP_KIND_ANY(need, more)  .types = SNP_T_ANY | (need), .held = SNP_HELD_JSON
/* clang-format on */

#define SNP_FIELD_MEMBER(S, kind, name, need, max, more, ...) SNP_C_##kind name;
#define SNP_FIELD_ROW(S, kind, name, need, max, more, ...) \
    SNP_FIELD_NAMED(#name, S, kind, name, need, max, more, __VA_ARGS__),
/* A row of a table for a name that C does not allow. */
#define SNP_FIELD_NAMED(name_, S, kind, member, need, max_, more, ...)                      \
    {                                                                                       \
        .name = (name_), .max = (max_), .offset = offsetof(S, member), .text = __VA_ARGS__, \
        SNP_KIND_##kind(SNP_NEED_##need, more)                                              \
    }
/* Both take a list of records with rows R(tag, what, fields, more members of struct snp_record). */
#define SNP_RECORD_DECLARE(tag, what_, list, ...) \
    struct tag {                                  \
        list(SNP_FIELD_MEMBER, struct tag)        \
    };                                            \
    extern const struct snp_record tag##_form;
#define SNP_RECORD_DEFINE(tag, what_, list, ...)                                      \
    static const struct snp_field tag##_fields[] = {list(SNP_FIELD_ROW, struct tag)}; \
    const struct snp_record tag##_form = {.what = (what_),                            \
                                          .fields = tag##_fields,                     \
                                          .n_fields = SNP_ARRAY_LEN(tag##_fields),    \
                                          .size = sizeof(struct tag),                 \
                                          __VA_ARGS__};
#define SNP_NO_FIELDS(F, S)

/*
 * Check that object is an object with the record's members and no others. SNP_E_INVALID names the
 * record, the member and the error, and suggests a near name for an unknown one.
 */
int snp_record_check(json_t *object,
                     const struct snp_record *record,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * Fill the record's struct. Everything is borrowed from object; a member of a wrong type reads as
 * absent, so object may be unchecked. object: NULL = an empty one.
 */
void snp_record_read(const json_t *object, const struct snp_record *record, void *ret);

/* A record of an answer, by name: `SNP_READ(snp_fork_answer, made, reply.head);`. */
/* NOLINTBEGIN(bugprone-macro-parentheses): names */
#define SNP_READ(tag, name, object) \
    struct tag name;                \
    snp_record_read((object), &tag##_form, &name)
/* NOLINTEND(bugprone-macro-parentheses) */

/*
 * Make the object of a struct; json_t * members are borrowed. An optional member with the value for
 * absent is left out; a request gets "method", too. New reference; NULL: out of memory, or a text
 * is not UTF-8.
 */
json_t *snp_record_write(const struct snp_record *record, const void *from);

#define SNP_WRITE(tag, ...) snp_record_write(&tag##_form, &(const struct tag){__VA_ARGS__})

/* NULL = no such field. */
const struct snp_field *snp_record_field(const struct snp_record *record, const char *name);

/* The index of a word among words; -1 = none of them, or NULL. */
int snp_word_find(const char *const *words, const char *word);

#endif
