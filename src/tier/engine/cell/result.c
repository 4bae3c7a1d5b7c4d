/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attested members come from counters and wait statuses. Claimed members are copied from the
 * driver's report one by one, with types checked and texts cut, never as a whole.
 */
#include "tier/engine/cell/result.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/registry/registry.h"
#include "base/str.h"
#include "base/text/hint.h"
#include "base/wire/file.h"
#include "base/wire/result.h"
#include "guest/pid1/wire.h"
#include "tier/engine/cell/guarantee.h"
#include "tier/engine/cell/running.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/supervisor.h"

/* Together these bound the longest result, with every character escaped, to SNP_FRAME_HEAD_MAX. */
enum {
    TEXT_MAX = 100000,
    SHORT_MAX = 1000,
    MODULE_MAX = 100,
    FILES_MAX = 1000,
    FILES_BYTES_MAX = 128 << 10
};

enum {
    ENTRIES_ROOM = 4000000, /* bytes of JSON for the entries of a folder */
    ENTRY_BYTES = 120,      /* per entry, without its name */
    ESCAPED_MAX = 6,        /* per byte of a name */
};

/* A string member of the driver's report, cut at max characters; null for other types. */
static json_t *text_of(const json_t *object, const char *key, size_t max)
{
    const json_t *member = json_object_get(object, key);
    const char *value = json_string_value(member); /* may hold NULs */
    size_t n = json_string_length(member);
    size_t chars = 0;

    if (value == NULL) {
        return json_null();
    }
    for (size_t i = 0; i < n; i++) {
        if (((unsigned char)value[i] & 0xc0U) != 0x80 && chars++ == max) {
            n = i;
        }
    }
    return json_stringn(value, n);
}

/* The same for a required member. */
static json_t *claim_of(const json_t *object, const char *key, size_t max)
{
    return json_is_string(json_object_get(object, key)) ? text_of(object, key, max)
                                                        : json_string("");
}

/* Is this a valid module name? The code may claim anything. */
static bool is_module(const char *name)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_";
    size_t n = name == NULL ? 0 : strnlen(name, MODULE_MAX + 1);

    return n > 0 && n <= MODULE_MAX && strspn(name, bytes) == n && (name[0] < '0' || name[0] > '9');
}

/*
 * Advice: the template that has the module, or the command that makes one. Null: no import failed.
 */
static json_t *module_of(const struct snp_tier_cell *c, const json_t *e)
{
    const char *name = snp_json_str(e, "module", NULL);
    json_t *advice =
        is_module(name) ? snp_registry_advise(c->sandbox->supervisor->state_dir, name) : NULL;

    return advice == NULL ? json_null() : advice;
}

/* A known and possible cause; else null. */
static json_t *cause_of(const struct snp_tier_cell *c, const json_t *e)
{
    const char *cause = snp_json_str(e, "cause", "");
    const bool is_wrong = c->sandbox->spec.has_network && strcmp(cause, "no network") == 0;

    return is_wrong || snp_hint(cause, SNP_HINT_MODEL) == NULL ? json_null()
                                                               : text_of(e, "cause", SHORT_MAX);
}

static json_t *error_of(const struct snp_tier_cell *c)
{
    const json_t *e = json_object_get(c->done, "error");
    int64_t line = snp_json_int(e, "line", 0);
    json_t *module;

    if (!json_is_object(e)) {
        return json_null();
    }
    module = module_of(c, e);
    return json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "type", claim_of(e, "type", SHORT_MAX), "message",
        claim_of(e, "message", TEXT_MAX), "traceback", text_of(e, "traceback", TEXT_MAX), "line",
        line > 0 ? json_integer(line) : json_null(), "hint", text_of(e, "hint", SHORT_MAX), "cause",
        cause_of(c, e), "path", text_of(e, "path", SHORT_MAX), "module", module);
}

/*
 * Programs report a missing network in their output only. The output may quote such a text, so
 * standard output is searched only if the cell failed.
 */
static const char *missed_rule(const struct snp_tier_cell *c, bool is_ok)
{
    static const char packages[] = "no packages";
    static const char network[] = "no network";
    static const struct {
        const char *text;
        const char *rule;
    } signs[] = {
        {"externally-managed-environment", packages},
        {"No module named pip", packages},
        {"pip: not found", packages},
        {"pip: command not found", packages},
        {"Could not install packages due to an", packages},
        {"No matching distribution found for", packages},
        {"Temporary failure in name resolution", network},
        {"Could not resolve host", network},
        {"unable to resolve host address", network},
        {"Network is unreachable", network},
        {"getaddrinfo EAI_AGAIN", network},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(signs); i++) {
        for (int stream = is_ok ? 1 : 0; stream < 2; stream++) {
            const struct snp_output *out = &c->output[stream];
            size_t n = strlen(signs[i].text);

            if ((out->head.len >= n &&
                 memmem(snp_buf_bytes(&out->head), out->head.len, signs[i].text, n) != NULL) ||
                (out->tail.len >= n &&
                 memmem(snp_buf_bytes(&out->tail), out->tail.len, signs[i].text, n) != NULL)) {
                return signs[i].rule;
            }
        }
    }
    return c->kind != SNP_EXEC_PYTHON && c->has_exit && WIFEXITED(c->exit_status) &&
                   (c->quiet_exits & (1U << (WEXITSTATUS(c->exit_status) & 31))) != 0
               ? network
               : NULL;
}

/* Once per cell: denials reported by the interpreter are already in the list. */
static void add_network_denial(struct snp_tier_cell *c, bool is_ok)
{
    const char *rule = missed_rule(c, is_ok);
    size_t i;
    const json_t *denial;

    json_array_foreach(c->denials.list, i, denial)
    {
        if (snp_streq(snp_json_str(denial, "control", ""), "network")) {
            return;
        }
    }
    if (rule != NULL && !c->sandbox->spec.has_network) {
        snp_denials_add(&c->denials, &(struct snp_denial){.source = "guest",
                                                          .control = "network",
                                                          .operation = "connect",
                                                          .object = "",
                                                          .rule = rule});
    }
}

static bool had_oom_kill(const struct snp_tier_cell *c)
{
    return c->usage.oom_kills > c->sandbox->last_usage.oom_kills;
}

static bool was_signalled(const struct snp_tier_cell *c)
{
    return c->has_exit && WIFSIGNALED(c->exit_status);
}

static const char *status_of(const struct snp_tier_cell *c)
{
    static const char *const by_end[] = {
        [SNP_CELL_END_WALL] = "timeout", [SNP_CELL_END_USER] = "interrupted",
        [SNP_CELL_END_MEMORY] = "oom",   [SNP_CELL_END_PROTOCOL] = "killed",
        [SNP_CELL_END_DISK] = "limit",
    };

    if (c->ended_by != SNP_CELL_END_NONE) {
        return by_end[c->ended_by];
    }
    if (c->done != NULL) {
        return snp_json_str(c->done, "status", "error");
    }
    if (had_oom_kill(c) && (was_signalled(c) || c->is_session_over)) {
        return "oom";
    }
    if (c->kind != SNP_EXEC_PYTHON && c->has_exit && WIFEXITED(c->exit_status)) {
        return WEXITSTATUS(c->exit_status) == 0 ? "ok" : "error";
    }
    return c->is_started ? "ok" : c->start_errno != 0 ? "error" : "killed";
}

static json_t *limit_json(enum snp_limit limit, uint64_t value)
{
    const struct snp_limit_info *info = snp_limit_info(limit);
    char text[64];

    return SNP_WRITE(snp_result_limit, .key = info->key, .value = value,
                     .text = snp_limit_format(limit, value, text, sizeof(text)),
                     .flag = info->flag);
}

static json_t *limit_of(const struct snp_tier_cell *c, const char *status)
{
    const uint64_t *limits = c->sandbox->spec.limits.value;

    if (snp_streq(status, "timeout")) {
        return limit_json(SNP_LIMIT_WALL, c->wall_ms);
    }
    if (snp_streq(status, "oom")) {
        return limit_json(SNP_LIMIT_MEMORY, limits[SNP_LIMIT_MEMORY]);
    }
    if (snp_streq(status, "limit")) {
        return limit_json(c->disk_limit, limits[c->disk_limit]);
    }
    if (snp_output_is_cut(&c->output[0]) || snp_output_is_cut(&c->output[1])) {
        return limit_json(SNP_LIMIT_OUTPUT, limits[SNP_LIMIT_OUTPUT]);
    }
    return json_null();
}

static void deny_limit(struct snp_tier_cell *c,
                       enum snp_limit limit,
                       const char *operation,
                       const char *object,
                       uint64_t count)
{
    const struct snp_limit_info *info = snp_limit_info(limit);
    char value[64];
    char rule[96];

    (void)snp_limit_format(limit, c->sandbox->spec.limits.value[limit], value, sizeof(value));
    (void)snprintf(rule, sizeof(rule), "%s %s", info->key, value);
    snp_denials_add(&c->denials, &(struct snp_denial){.source = "limit",
                                                      .control = "resources",
                                                      .operation = operation,
                                                      .object = object,
                                                      .rule = rule,
                                                      .count = count});
}

/*
 * May the cell have met a limit that was already full? Failed writes leave no trace, so the cell's
 * own report, or a command's failure, decides whether to report the limit again.
 */
static bool met_again(const struct snp_tier_cell *c)
{
    size_t i;
    const json_t *denial;

    if (c->written_bytes != c->sandbox->last_written_bytes ||
        (c->kind != SNP_EXEC_PYTHON && c->exit_status != 0)) {
        return true;
    }
    json_array_foreach(c->denials.list, i, denial)
    {
        if (snp_streq(snp_json_str(denial, "rule", ""), "disk space")) {
            return true;
        }
    }
    return false;
}

/* Limits met without ending the cell, from the kernel's counters. */
static void add_limit_denials(struct snp_tier_cell *c)
{
    uint64_t room;
    const struct {
        uint8_t flag;
        enum snp_limit limit;
        const char *operation;
        const char *object;
    } full[] = {
        {SNP_CHANGES_WORKSPACE_FULL, snp_sandbox_room(c->sandbox, &room), "write", "/workspace"},
        {SNP_CHANGES_INODES_FULL, SNP_LIMIT_INODES, "create", "/workspace"},
        {SNP_CHANGES_TMP_FULL, SNP_LIMIT_TMP, "write", "/tmp"},
        {SNP_CHANGES_SHM_FULL, SNP_LIMIT_TMP, "write", "/dev/shm"},
    };

    if (c->usage.pids_denied > c->sandbox->last_usage.pids_denied) {
        deny_limit(c, SNP_LIMIT_PROCESSES, "fork", "",
                   c->usage.pids_denied - c->sandbox->last_usage.pids_denied);
    }
    if (c->is_crowded) {
        deny_limit(c, SNP_LIMIT_PROCESSES, "fork", "", 1); /* seen at the limit, not counted */
    }
    if (was_signalled(c) && WTERMSIG(c->exit_status) == SIGXFSZ) {
        deny_limit(c, SNP_LIMIT_FILE, "write", "", 1);
    }
    if (had_oom_kill(c)) {
        deny_limit(c, SNP_LIMIT_MEMORY, "allocate", "", 1);
    }
    uint8_t known = met_again(c) ? 0 : c->sandbox->last_flags;
    if (c->ended_by == SNP_CELL_END_DISK) {
        deny_limit(c, c->disk_limit, "write",
                   c->disk_limit == SNP_LIMIT_TMP ? "/tmp" : "/workspace", 1);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(full); i++) {
        if ((c->changes_flags & ~known & full[i].flag) != 0) {
            deny_limit(c, full[i].limit, full[i].operation, full[i].object, 1);
        }
    }
}

static json_t *exit_code_of(const struct snp_tier_cell *c)
{
    const json_t *code = json_object_get(c->done, "exit_code");

    if (c->has_exit && WIFEXITED(c->exit_status)) {
        return json_integer(WEXITSTATUS(c->exit_status));
    }
    return json_is_integer(code) ? json_integer(json_integer_value(code)) : json_null();
}

/* After its report, only we kill an interpreter, to roll back: report no signal. */
static json_t *signal_of(const struct snp_tier_cell *c)
{
    const char *name = was_signalled(c) && (c->kind != SNP_EXEC_PYTHON || c->done == NULL)
                           ? sigabbrev_np(WTERMSIG(c->exit_status))
                           : NULL;

    return name == NULL ? json_null() : json_sprintf("SIG%s", name);
}

/* As a JSON number; counts of pid 1 may be forged by code that broke it. */
static json_int_t bounded(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (json_int_t)value;
}

static json_t *usage_of(const struct snp_tier_cell *c)
{
    const struct snp_sandbox *s = c->sandbox;
    uint64_t cpu_us = c->init_cpu_us > s->last_cpu_us ? c->init_cpu_us - s->last_cpu_us : 0;
    uint64_t peak = c->usage.has_memory ? c->usage.memory_peak_bytes : c->watched_peak;

    if (c->usage.has_cpu) {
        cpu_us = c->usage.cpu_us - s->last_usage.cpu_us;
    }
    return SNP_WRITE(snp_result_usage, .wall_us = c->end_us - c->start_us,
                     .cpu_us = bounded(cpu_us), .memory_peak_bytes = bounded(peak),
                     .stdout_bytes = c->output[0].bytes, .stderr_bytes = c->output[1].bytes,
                     .written_bytes = bounded(c->written_bytes), .setup_us = s->setup_us);
}

static json_t *output_of(const struct snp_tier_cell *c)
{
    bool cut = snp_output_is_cut(&c->output[0]) || snp_output_is_cut(&c->output[1]);

    return json_pack(
        "{s:b,s:I,s:I,s:o}", "truncated", cut, "stdout_chars", (json_int_t)c->output[0].chars,
        "stderr_chars", (json_int_t)c->output[1].chars, "handle",
        !snp_spool_is_empty(c->output[0].spool) || !snp_spool_is_empty(c->output[1].spool)
            ? json_sprintf("%s%s/%llu", c->sandbox->supervisor->ops->output_prefix, c->owner,
                           (unsigned long long)c->number)
            : json_null());
}

static json_t *sources(const struct snp_tier_cell *c)
{
    static const struct snp_record *const forms[] = {&snp_result_form, &snp_result_added_form};
    json_t *lists[SNP_SOURCES] = {[SNP_ATTESTED] = json_array(), [SNP_CLAIMED] = json_array()};

    for (size_t i = 0; i < SNP_ARRAY_LEN(forms); i++) {
        for (size_t j = 0; j < forms[i]->n_fields; j++) {
            const struct snp_field *field = &forms[i]->fields[j];
            /* Status and code of a command come from the kernel, of Python from the driver. */
            bool is_sure = snp_streq(field->name, "status") ? c->done == NULL : c->has_exit;
            enum snp_origin by_end = is_sure ? SNP_ATTESTED : SNP_CLAIMED;

            (void)json_array_append_new(lists[field->source == SNP_BY_END ? by_end : field->source],
                                        json_string(field->name));
        }
    }
    return json_pack("{s:o,s:o}", "attested", lists[SNP_ATTESTED], "claimed", lists[SNP_CLAIMED]);
}

/* A killed cell has no report: state the cause instead. */
static json_t *killed_error(const struct snp_tier_cell *c, const char *status)
{
    char text[456];

    if (snp_streq(status, "ok") ||
        (c->kind != SNP_EXEC_PYTHON && c->has_exit && c->start_errno == 0)) {
        return json_null();
    }
    if (c->is_abandoned) {
        (void)snprintf(text, sizeof(text), "the session was rolled back while the cell ran");
    } else if (snp_streq(status, "timeout")) {
        (void)snprintf(text, sizeof(text),
                       "the time limit passed, and the code did not stop when interrupted");
    } else if (snp_streq(status, "oom")) {
        (void)snprintf(text, sizeof(text), "the memory limit was passed");
    } else if (snp_streq(status, "limit")) {
        (void)snprintf(text, sizeof(text), "the session's files passed %s",
                       snp_limit_info(c->disk_limit)->key);
    } else if (snp_streq(status, "interrupted")) {
        (void)snprintf(text, sizeof(text), "interrupted, and the code did not stop by itself");
    } else if (c->start_errno != 0) {
        (void)snprintf(text, sizeof(text), "the command was not started: %s",
                       strerrordesc_np(c->start_errno));
    } else if (c->has_exit && WIFEXITED(c->exit_status)) {
        (void)snprintf(text, sizeof(text), "the interpreter exited with status %d",
                       WEXITSTATUS(c->exit_status));
    } else if (was_signalled(c) && c->ended_by != SNP_CELL_END_PROTOCOL) {
        (void)snprintf(text, sizeof(text), "the interpreter was ended by SIG%s",
                       sigabbrev_np(WTERMSIG(c->exit_status)));
    } else {
        (void)snprintf(text, sizeof(text), "%s",
                       c->why[0] == '\0' ? "the interpreter is gone" : c->why);
    }
    return json_pack("{s:s,s:s,s:n,s:n,s:n,s:n,s:n}", "type", "Killed", "message", text,
                     "traceback", "line", "hint", "cause", "path");
}

bool snp_result_is_lost(const struct snp_tier_cell *c)
{
    const struct snp_sandbox *s = c->sandbox;

    if (c->is_rolled_back) {
        return false;
    }
    /*
     * An interpreter that ended after the cell, without a sweep, is reported by the next request.
     */
    return c->is_session_over || (!s->has_interpreter && (c->was_swept || !s->spec.is_lasting));
}

static const char *state_of(const struct snp_tier_cell *c)
{
    if (c->is_rolled_back) {
        return "rolled_back";
    }
    return snp_result_is_lost(c) ? "lost" : "kept";
}

json_t *snp_result_json(struct snp_tier_cell *c)
{
    const struct snp_sandbox *s = c->sandbox;
    const char *status = status_of(c);
    json_t *result = json_object();

    add_limit_denials(c);
    add_network_denial(c, snp_streq(status, "ok"));
    (void)json_object_set_new(result, "session", json_string(s->spec.id));
    (void)json_object_set_new(result, "cell", json_integer((json_int_t)c->number));
    (void)json_object_set_new(result, "status", json_string(status));
    (void)json_object_set_new(result, "state", json_string(state_of(c)));
    (void)json_object_set_new(result, "epoch", json_integer(bounded(c->epoch)));
    (void)json_object_set_new(result, "transaction", snp_guarantee_json(&c->guarantee));
    (void)json_object_set_new(result, "restarted", json_boolean(c->was_restarted));
    (void)json_object_set_new(result, "exit_code", exit_code_of(c));
    (void)json_object_set_new(result, "signal", signal_of(c));
    (void)json_object_set_new(result, "value", text_of(c->done, "value", TEXT_MAX));
    (void)json_object_set_new(result, "result", text_of(c->done, "result", TEXT_MAX));
    (void)json_object_set_new(result, "error",
                              c->done != NULL ? error_of(c) : killed_error(c, status));
    (void)json_object_set(result, "denials", c->denials.list);
    if (c->denials.list == NULL) {
        (void)json_object_set_new(result, "denials", json_array());
    }
    (void)json_object_set_new(result, "denials_dropped",
                              json_integer((json_int_t)c->denials.dropped));
    (void)json_object_set_new(result, "limit", limit_of(c, status));
    (void)json_object_set_new(result, "usage", usage_of(c));
    (void)json_object_set_new(result, "output", output_of(c));
    (void)json_object_set_new(result, "files",
                              c->files != NULL ? json_incref(c->files) : snp_result_no_files(true));
    (void)json_object_set_new(result, "sources", sources(c));
    return result;
}

json_t *snp_result_no_files(bool truncated)
{
    return json_pack("{s:[],s:[],s:[],s:b}", "created", "modified", "deleted", "truncated",
                     truncated);
}

/* Does the project have a file of this name? Follows no links. */
static bool project_has(int project_fd, const char *path)
{
    const struct open_how how = {
        .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    snp_autoclose int fd = -1;
    struct stat st;

    if (project_fd < 0) {
        return false;
    }
    fd = (int)syscall(SYS_openat2, project_fd, path, &how, sizeof(how));
    return fd >= 0 && fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode);
}

/* A path that is not UTF-8 has no hash: another could have the same text. */
static void hash_add(json_t **hashes, const char *path, uint64_t hash)
{
    if (hash == 0) {
        return;
    }
    *hashes = *hashes == NULL ? json_object() : *hashes;
    (void)json_object_set_new(*hashes, path, json_sprintf("%016llx", (unsigned long long)hash));
}

json_t *snp_result_files(const char *at, size_t n, int project_fd, struct snp_changes_head *ret)
{
    static const char *const kinds[] = {"created", "modified", "deleted"};
    const char *end = at + n;
    json_t *files = json_pack("{s:[],s:[],s:[]}", kinds[0], kinds[1], kinds[2]);
    json_t *hashes = NULL;
    uint64_t hash;
    bool truncated;
    unsigned count = 0;
    size_t bytes = 0;

    if (n < 17) {
        json_decref(files);
        return NULL;
    }
    ret->flags = (uint8_t)at[0];
    truncated = (ret->flags & SNP_CHANGES_TRUNCATED) != 0;
    memcpy(&ret->cpu_us, at + 1, 8);
    memcpy(&ret->written_bytes, at + 9, 8);
    for (at += 17; end - at >= 18;) {
        uint8_t kind = (uint8_t)at[0];
        const char *path = at + 17;
        size_t len = strnlen(path, (size_t)(end - path));
        if (kind > SNP_CHANGE_APPEARED || path + len == end) {
            break;
        }
        bytes += len;
        if (count++ < FILES_MAX && bytes <= FILES_BYTES_MAX) {
            if (kind == SNP_CHANGE_APPEARED) {
                kind = project_has(project_fd, path) ? SNP_CHANGE_MODIFIED : SNP_CHANGE_CREATED;
            }
            (void)json_array_append_new(json_object_get(files, kinds[kind]),
                                        snp_json_bytes(path, len));
            memcpy(&hash, at + 9, 8);
            hash_add(&hashes, path, hash);
        } else {
            truncated = true;
        }
        at = path + len + 1;
    }
    (void)json_object_set_new(files, "truncated", json_boolean(truncated));
    if (hashes != NULL) {
        (void)json_object_set_new(files, "hashes", hashes);
    }
    return files;
}

json_t *snp_result_entries(const char *at, size_t n)
{
    static const char *const types[] = {"file", "dir", "link", "other"};
    const char *end = at + n;
    size_t room = ENTRIES_ROOM;
    json_t *entries = json_array();
    json_t *answer;
    json_t *name;
    bool truncated = n > 0 && at[0] != 0;

    for (at += 1; end - at >= 18;) {
        uint8_t type = (uint8_t)at[0];
        uint64_t size;
        uint64_t mtime_ns;
        size_t len = strnlen(at + 17, (size_t)(end - at - 17));
        memcpy(&size, at + 1, 8);
        memcpy(&mtime_ns, at + 9, 8);
        if (type > SNP_ENTRY_OTHER || size > INT64_MAX || at + 17 + len == end) {
            break;
        }
        if (room < ENTRY_BYTES + ESCAPED_MAX * len) {
            truncated = true;
            break;
        }
        room -= ENTRY_BYTES + ESCAPED_MAX * len;
        name = snp_json_bytes(at + 17, len);
        (void)json_array_append_new(entries,
                                    SNP_WRITE(snp_ls_entry, .name = name, .type = types[type],
                                              .size = size, .mtime = (double)mtime_ns / 1e9));
        json_decref(name);
        at += 17 + len + 1;
    }
    answer = SNP_WRITE(snp_ls_answer, .entries = entries, .truncated = truncated);
    json_decref(entries);
    return answer;
}
