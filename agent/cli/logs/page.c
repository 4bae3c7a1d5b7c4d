/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of runs and sessions.
 *
 * Invariant: all data in the page is JSON in which "<" is written as \u003c. So an HTML parser
 * finds in it neither the end of a script element nor the start of any other.
 */
#include "cli/logs/page.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/logs/page_embedded.h"
#include "trajectory/reader.h"

enum {
    STAMP_MAX = 32,
    PROMPT_SHOWN = 400, /* bytes of a prompt in the list of runs */
    ID_SHOWN = 64,
    SUM_LEN = 32,
};

/* Parts ------------------------------------------------------------------------------------- */

/* "sha256-..." of a part of the page, in the form for a policy; the caller frees. */
static char *source_of(const char *bytes, size_t n)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    snp_autofree char *text = NULL;

    if (EVP_Digest(bytes, n, sum, &len, EVP_sha256(), NULL) != 1 || len != SUM_LEN) {
        return NULL;
    }
    text = snp_base64(sum, len);
    return text == NULL ? NULL : snp_format("sha256-%s", text);
}

int snp_page_policy(char out[SNP_PAGE_POLICY_MAX])
{
    snp_autofree char *script = source_of(snp_page_js, snp_page_js_len);
    snp_autofree char *style = source_of(snp_page_css, snp_page_css_len);
    int n = script == NULL || style == NULL
                ? -1
                : snprintf(out, SNP_PAGE_POLICY_MAX,
                           "default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; "
                           "base-uri 'none'; form-action 'none'; "
                           "require-trusted-types-for 'script'; trusted-types 'none'",
                           script, style);

    return n < 0 || n >= SNP_PAGE_POLICY_MAX ? -1 : 0;
}

/* JSON that is safe in a script element. */
static int json_add(struct snp_buf *out, const json_t *value)
{
    snp_autofree char *text = snp_json_text(value);
    const char *at = text;
    int r = text == NULL ? SNP_E_NOMEM : 0;

    while (r == 0) {
        size_t n = strcspn(at, "<");

        r = snp_buf_add(out, at, n);
        at += n;
        if (r < 0 || *at == '\0') {
            break;
        }
        r = snp_buf_adds(out, "\\u003c");
        at++;
    }
    return r;
}

static int part_add(struct snp_buf *out, const char *begin, const char *bytes, size_t n)
{
    int r = snp_buf_adds(out, begin);

    return r < 0 ? r : snp_buf_add(out, bytes, n);
}

static int head_add(struct snp_buf *out)
{
    char policy[SNP_PAGE_POLICY_MAX];
    int r = snp_page_policy(policy) < 0 ? SNP_E_NOMEM : 0;

    r = r < 0 ? r
              : snp_buf_addf(out,
                             "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta "
                             "charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
                             "content=\"%s\">\n",
                             policy);
    r = r < 0 ? r
              : part_add(out,
                         "<meta name=\"viewport\" content=\"width=device-width, "
                         "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
                         "dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
                         "<title>Runs - snipara-sandbox</title>\n<style>",
                         snp_page_css, snp_page_css_len);
    return r < 0 ? r
                 : part_add(out, "</style>\n</head>\n<body>\n", snp_page_html, snp_page_html_len);
}

/* Runs -------------------------------------------------------------------------------------- */

/* A run or a session to be put into the page. */
struct page_run {
    char *path;             /* owned; NULL = it is a session */
    json_t *brief;          /* owned; its entry in the list, with its id */
    struct snp_buf records; /* "[{...},...]"; empty: not in the page */
};

struct runs {
    struct page_run *runs; /* owned */
    size_t n;
    size_t shown; /* the one shown first */
    size_t more;  /* files that are not listed */
};

static void runs_done(struct runs *runs)
{
    for (size_t i = 0; i < runs->n; i++) {
        free(runs->runs[i].path);
        snp_buf_done(&runs->runs[i].records);
        json_decref(runs->runs[i].brief);
    }
    free(runs->runs);
}

static void warn(const struct snp_page *page, const char *text)
{
    if (page->warn != NULL && text != NULL) {
        page->warn(page->ctx, text);
    }
}

static int record_add(void *ctx, json_t *record, struct snp_err *err)
{
    struct page_run *run = ctx;
    int r = snp_buf_adds(&run->records, run->records.len <= 1 ? "\n" : ",\n");

    r = r < 0 ? r : json_add(&run->records, record);
    return r < 0 ? snp_fail(err, r, "out of room") : 0;
}

static const char *id_of(const struct page_run *run)
{
    return snp_json_str(run->brief, "id", "");
}

/* Read a run's records, at most max bytes. SNP_E_LIMIT: there are more, and none are stored. */
static int records_take(const struct snp_page *page,
                        struct page_run *run,
                        size_t max,
                        struct snp_err *err)
{
    struct snp_trajectory_check check;
    int r;

    snp_buf_init(&run->records, max);
    if (snp_buf_adds(&run->records, "[") < 0) {
        r = snp_fail(err, SNP_E_LIMIT, "out of room");
    } else if (run->path != NULL) {
        r = snp_trajectory_read(run->path, record_add, run, &check, err);
    } else {
        r = page->sessions->read(page->ctx, id_of(run), record_add, run, err);
    }
    if (r == 0 && snp_buf_adds(&run->records, "\n]") < 0) {
        r = snp_fail(err, SNP_E_LIMIT, "out of room");
    }
    if (r < 0) {
        snp_buf_done(&run->records);
    }
    return r;
}

static json_t *text_of(const json_t *object, const char *member, size_t max)
{
    const json_t *text = json_object_get(object, member);
    size_t n = json_string_length(text);

    return snp_json_bytes(json_is_string(text) ? json_string_value(text) : "", n < max ? n : max);
}

static json_t *brief_of(const struct snp_trajectory_info *info)
{
    const struct snp_trajectory_check *check = &info->check;
    const json_t *stamped =
        json_object_get(info->head, "timestamp") == NULL ? info->end : info->head;

    return json_pack("{s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:s}", "id",
                     info->id, "state", snp_trajectory_state_name(info->state), "timestamp",
                     text_of(stamped, "timestamp", STAMP_MAX), "prompt",
                     text_of(info->head, "prompt", PROMPT_SHOWN), "calls", (json_int_t)info->calls,
                     "tokens", (json_int_t)info->tokens, "duration_ms",
                     (json_int_t)info->duration_ms, "chained", check->is_chained, "corrupt",
                     (json_int_t)check->n_corrupt, "broken", (json_int_t)check->n_broken,
                     "first_bad", (json_int_t)check->first_bad, "torn", (json_int_t)check->torn,
                     "why", check->why);
}

static void faults_tell(const struct snp_page *page, const struct snp_trajectory_info *info)
{
    snp_autofree char *text = snp_trajectory_passed_over(info->path, &info->check);

    warn(page, text);
}

/* Add a run to the list. Unreadable files are reported and skipped, except the requested one. */
static int run_add(const struct snp_page *page,
                   const char *path,
                   struct runs *runs,
                   struct snp_err *err)
{
    snp_cleanup(snp_trajectory_info_done) struct snp_trajectory_info info = {0};
    struct page_run *run = &runs->runs[runs->n];
    bool is_asked = page->path != NULL && strcmp(path, page->path) == 0;
    int r = snp_trajectory_info_read(path, &info, err);

    if (r < 0) {
        warn(page, is_asked ? NULL : err->msg);
        return is_asked ? r : 0;
    }
    *run = (struct page_run){.path = strdup(path), .brief = brief_of(&info)};
    if (is_asked) {
        runs->shown = runs->n;
    }
    if (is_asked || !page->is_served) {
        faults_tell(page, &info);
    }
    runs->n++;
    return run->path == NULL || run->brief == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                                                   : 0;
}

/* The sessions of the list, below the runs. */
static int sessions_add(const struct snp_page *page,
                        const json_t *list,
                        struct runs *runs,
                        struct snp_err *err)
{
    size_t i;
    json_t *brief;

    json_array_foreach((json_t *)(uintptr_t)list, i, brief)
    {
        bool is_asked = snp_streq(snp_json_str(brief, "id", ""), page->session);

        if (!is_asked && (page->dir == NULL || i >= page->tail)) {
            runs->more += page->dir == NULL ? 0 : 1;
            continue;
        }
        if (is_asked) {
            runs->shown = runs->n;
        }
        runs->runs[runs->n++].brief = json_incref(brief);
    }
    return page->session != NULL && runs->n == 0
               ? snp_fail(err, SNP_E_NOT_FOUND, "no session %.64s", page->session)
               : 0;
}

static bool has_path(const json_t *paths, const char *path)
{
    size_t i;
    json_t *each;

    json_array_foreach((json_t *)(uintptr_t)paths, i, each)
    {
        if (strcmp(json_string_value(each), path) == 0) {
            return true;
        }
    }
    return false;
}

/* Paths of the runs to list, the newest first; the shown one is among them. *ret: new reference. */
static int paths_find(const struct snp_page *page,
                      json_t **ret,
                      size_t *ret_more,
                      struct snp_err *err)
{
    snp_autojson json_t *paths = NULL;
    size_t n;

    if (page->dir == NULL) {
        *ret = page->path == NULL
                   ? json_array()
                   : json_pack("[o]", snp_json_bytes(page->path, strlen(page->path)));
        return *ret == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    }
    if (snp_trajectory_list(page->dir, SIZE_MAX, &paths, err) < 0) {
        return err->code;
    }
    n = json_array_size(paths);
    *ret_more = n > page->tail ? n - page->tail : 0;
    while (json_array_size(paths) > page->tail) {
        (void)json_array_remove(paths, json_array_size(paths) - 1);
    }
    if (page->path != NULL && !has_path(paths, page->path)) {
        (void)json_array_append_new(paths, json_string(page->path));
        *ret_more -= *ret_more > 0 ? 1 : 0;
    }
    *ret = json_incref(paths);
    return 0;
}

static int left_out(const struct snp_page *page, struct page_run *run)
{
    snp_autofree char *text = snp_format("This run did not fit into the page. Write a separate "
                                         "page: snipara-sandbox visualize %.*s --out FILE",
                                         ID_SHOWN, id_of(run));

    warn(page, text);
    return text == NULL ? -1 : json_object_set_new(run->brief, "left_out", json_string(text));
}

/* Records of the run that is shown. */
static int shown_take(const struct snp_page *page, struct runs *runs, struct snp_err *err)
{
    struct page_run *run = &runs->runs[runs->shown];
    int r = records_take(page, run, SNP_PAGE_MAX / 2, err);

    return r == SNP_E_LIMIT && run->path != NULL
               ? snp_fail(err, r,
                          "%s is larger than %d MiB, the limit of a page; write it as text: `logs "
                          "export ID --format md`",
                          run->path, (SNP_PAGE_MAX / 2) >> 20)
               : r;
}

/* Records of the other runs, while there is room. */
static int others_take(const struct snp_page *page, struct runs *runs, struct snp_err *err)
{
    size_t room = SNP_PAGE_FOLDER_MAX;

    for (size_t i = 0; i < runs->n; i++) {
        struct page_run *run = &runs->runs[i];
        struct snp_err why;

        if (i == runs->shown) {
            continue;
        }
        if (records_take(page, run, room, &why) == 0) {
            room -= run->records.len;
        } else if (left_out(page, run) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    return 0;
}

static int runs_read(const struct snp_page *page, struct runs *runs, struct snp_err *err)
{
    snp_autojson json_t *paths = NULL;
    snp_autojson json_t *sessions =
        page->sessions == NULL ? NULL : page->sessions->list(page->ctx, page->session);
    size_t i;
    json_t *path;
    int r = paths_find(page, &paths, &runs->more, err);

    if (r < 0) {
        return r;
    }
    runs->runs =
        calloc(json_array_size(paths) + json_array_size(sessions) + 1, sizeof(*runs->runs));
    if (runs->runs == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    json_array_foreach(paths, i, path)
    {
        r = run_add(page, json_string_value(path), runs, err);
        if (r < 0) {
            return r;
        }
    }
    r = sessions_add(page, sessions, runs, err);
    if (r < 0 || runs->n == 0) {
        return r;
    }
    r = shown_take(page, runs, err);
    return r < 0 || page->is_served ? r : others_take(page, runs, err);
}

/* The page ---------------------------------------------------------------------------------- */

static json_t *index_of(const struct snp_page *page, const struct runs *runs)
{
    char stamp[STAMP_MAX] = "";
    time_t now = time(NULL);
    struct tm tm;
    json_t *list = json_array();

    if (gmtime_r(&now, &tm) != NULL) {
        (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    for (size_t i = 0; i < runs->n; i++) {
        (void)json_array_append(list, runs->runs[i].brief);
    }
    return json_pack(
        "{s:s, s:s, s:b, s:I, s:I, s:o?, s:o}", "program", SNP_VERSION, "made", stamp, "served",
        page->is_served, "shown", (json_int_t)runs->shown, "more", (json_int_t)runs->more, "dir",
        page->dir == NULL ? NULL : snp_json_bytes(page->dir, strlen(page->dir)), "runs", list);
}

static int data_add(struct snp_buf *out, const struct snp_page *page, const struct runs *runs)
{
    snp_autojson json_t *index = index_of(page, runs);
    int r = index == NULL ? SNP_E_NOMEM : 0;

    r = r < 0 ? r : snp_buf_adds(out, "<script type=\"application/json\" id=\"index\">");
    r = r < 0 ? r : json_add(out, index);
    r = r < 0 ? r : snp_buf_adds(out, "</script>\n");
    for (size_t i = 0; r == 0 && i < runs->n; i++) {
        const struct snp_buf *records = &runs->runs[i].records;

        if (records->len == 0) {
            continue;
        }
        r = snp_buf_addf(out, "<script type=\"application/json\" id=\"run-%zu\">", i);
        r = r < 0 ? r : snp_buf_add(out, snp_buf_bytes(records), records->len);
        r = r < 0 ? r : snp_buf_adds(out, "</script>\n");
    }
    return r;
}

int snp_page_make(const struct snp_page *page,
                  struct snp_buf *out,
                  struct snp_page_made *ret,
                  struct snp_err *err)
{
    snp_cleanup(runs_done) struct runs runs = {0};
    struct snp_page_made made = {0};
    int r = runs_read(page, &runs, err);

    if (r < 0) {
        return r;
    }
    made.n_listed = runs.n;
    for (size_t i = 0; i < runs.n; i++) {
        size_t *n = runs.runs[i].path != NULL ? &made.n_runs : &made.n_sessions;

        *n += runs.runs[i].records.len > 0 ? 1 : 0;
    }
    r = head_add(out);
    r = r < 0 ? r : data_add(out, page, &runs);
    r = r < 0 ? r : part_add(out, "<script>", snp_page_js, snp_page_js_len);
    r = r < 0 ? r : snp_buf_adds(out, "</script>\n</body>\n</html>\n");
    if (r < 0) {
        return snp_fail(err, r, "the page needs more than %d MiB", SNP_PAGE_MAX >> 20);
    }
    *ret = made;
    return 0;
}
