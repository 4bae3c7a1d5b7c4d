/* SPDX-License-Identifier: Apache-2.0 */
/* `context search`, `read`, `map`, `skeleton` and `sections`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/str.h"
#include "cli/context/context.h"
#include "cli/context/open.h"
#include "context/query.h"
#include "context/search.h"
#include "context/skeleton.h"
#include "model/provider.h"

enum {
    TEXT_MAX = 64 << 20,
    READ_LINES = 200,
    RESULTS = 20,
    RESULTS_MAX = 1000,
    SECTIONS = 50,
    SECTIONS_MAX = 500,
    OFFSET_MAX = 1000000000,
};

/* search ------------------------------------------------------------------------------- */

struct search_output {
    json_t *results; /* NULL = printed */
};

static void found_add(void *arg, const char *path, uint32_t number, const char *line, size_t n)
{
    struct search_output *found = arg;
    snp_autofree char *name = NULL;
    snp_autofree char *text = NULL;

    if (found->results != NULL) {
        (void)json_array_append_new(
            found->results,
            snp_need(json_pack("{s:o, s:I, s:o}", "file_path", snp_need(snp_cli_path_json(path)),
                               "line_number", (json_int_t)number, "content",
                               snp_need(snp_json_bytes(line, n)))));
        return;
    }
    name = snp_term_line(path, strlen(path));
    text = snp_term_line(line, n);
    (void)printf("%s:%u: %s\n", name, number, text);
}

int snp_context_search(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_index_close) struct snp_index index = SNP_INDEX_NONE;
    const char *pattern = snp_opts_arg(opts, 0);
    struct snp_search_result result = {0};
    snp_autojson json_t *answer = NULL;
    struct search_output found = {.results = cli->is_json ? snp_need(json_array()) : NULL};
    struct snp_search what = {.pattern = pattern, .fn = found_add, .arg = &found};
    struct snp_err err;
    int r =
        snp_context_number(opts, "max-results", (struct snp_context_range){RESULTS, 1, RESULTS_MAX},
                           &what.max_results, &err);

    SNP_THEN(r, snp_context_fresh(cli, opts, &index, &err));
    SNP_THEN(r, snp_search(&index, &what, &result, &err));
    if (found.results != NULL) {
        answer = snp_need(json_pack("{s:o, s:I, s:b, s:o}", "pattern",
                                    snp_need(snp_json_bytes(pattern, strlen(pattern))),
                                    "total_matches", (json_int_t)result.matches, "truncated",
                                    result.is_cut, "results", found.results));
    } else if (r == 0 && result.matches == 0 && !result.is_cut) {
        (void)puts("Nothing found.");
    } else if (r == 0 && result.is_cut) {
        snp_term_printf(stderr,
                        "stopped after %llu lines; there may be more (limits: %d ms, "
                        "--max-results %llu)\n",
                        (unsigned long long)result.matches, SNP_SEARCH_MS,
                        (unsigned long long)what.max_results);
    }
    return snp_context_end(cli, r, &err, answer);
}

/* read --------------------------------------------------------------------------------- */

/* FILE, FILE:A or FILE:A-B; the path is the caller's. */
static char *place_parse(const char *text, uint64_t lines[2])
{
    char *path = snp_need_copy(text);
    char *colon = strrchr(path, ':');
    char *dash;

    lines[0] = 1;
    lines[1] = UINT64_MAX;
    if (colon == NULL) {
        return path;
    }
    *colon = '\0';
    dash = strchr(colon + 1, '-');
    if (dash != NULL) {
        *dash = '\0';
    }
    if (snp_parse_u64(colon + 1, &lines[0]) < 0 || lines[0] == 0 ||
        (dash != NULL && (snp_parse_u64(dash + 1, &lines[1]) < 0 || lines[1] < lines[0]))) {
        free(path);
        return NULL;
    }
    return path;
}

static int line_add(struct snp_buf *out, uint64_t number, const char *text, size_t n)
{
    SNP_TRY(snp_buf_addf(out, "%5llu| ", (unsigned long long)number));
    SNP_TRY(snp_buf_add(out, text, n));
    return snp_buf_adds(out, "\n");
}

/* Lines first to last with their numbers; *ret_total counts all. */
static int lines_number(
    const char *text, size_t n, uint64_t lines[2], struct snp_buf *out, uint64_t *ret_total)
{
    uint64_t number = 0;

    if (lines[1] - lines[0] >= READ_LINES) {
        lines[1] = lines[0] + READ_LINES - 1;
    }
    for (size_t i = 0; i < n;) {
        const char *end = memchr(text + i, '\n', n - i);
        size_t len = end == NULL ? n - i : (size_t)(end - (text + i));
        int r = ++number < lines[0] || number > lines[1] ? 0 : line_add(out, number, text + i, len);

        SNP_TRY(r);
        i += len + 1;
    }
    *ret_total = number;
    lines[1] = lines[1] > number ? number : lines[1];
    return 0;
}

static int fail_memory(int r, struct snp_err *err)
{
    return r >= 0 ? 0 : snp_fail(err, (enum snp_code)r, "out of memory");
}

int snp_context_read(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_index_close) struct snp_index index = SNP_INDEX_NONE;
    snp_autobuf struct snp_buf out = SNP_BUF(TEXT_MAX);
    uint64_t lines[2];
    snp_autofree char *given = place_parse(snp_opts_arg(opts, 0), lines);
    snp_autojson json_t *answer = NULL;
    snp_autofree char *path = NULL;
    snp_autofree char *text = NULL;
    struct snp_err err;
    uint64_t total = 0;
    int64_t file = 0;
    size_t n = 0;
    int r;

    if (given == NULL) {
        return snp_cli_usage(cli, "FILE:A-B names lines from 1, the first before the last");
    }
    r = snp_context_fresh(cli, opts, &index, &err);
    if (r == 0) {
        path = snp_context_path(&index, given);
    }
    SNP_THEN(r, snp_index_file(&index, path, &file, &err));
    SNP_THEN(r, snp_index_text(&index, file, &text, &n, &err));
    SNP_THEN(r, fail_memory(lines_number(text, n, lines, &out, &total), &err));
    if (r == 0 && lines[0] > total) {
        r = snp_fail(&err, SNP_E_INVALID, "%.300s has %llu lines", path, (unsigned long long)total);
    }
    if (r == 0 && cli->is_json) {
        answer = snp_need(json_pack(
            "{s:o, s:I, s:I, s:I, s:o}", "file", snp_need(snp_cli_path_json(path)), "start_line",
            (json_int_t)lines[0], "end_line", (json_int_t)lines[1], "total_lines",
            (json_int_t)total, "content", snp_need(snp_json_bytes(snp_buf_bytes(&out), out.len))));
    } else if (r == 0) {
        r = snp_context_print(snp_buf_bytes(&out), out.len, &err);
    }
    return snp_context_end(cli, r, &err, answer);
}

/* skeleton, map ------------------------------------------------------------------------ */

static int file_skeleton(struct snp_index *index,
                         int64_t file,
                         bool is_documented,
                         struct snp_buf *out,
                         struct snp_err *err)
{
    snp_cleanup(snp_chunks_done) struct snp_chunks chunks = {0};
    snp_autofree char *text = NULL;
    size_t n;

    SNP_TRY(snp_index_text(index, file, &text, &n, err));
    SNP_TRY(snp_index_chunks(index, file, &chunks, err));
    return fail_memory(chunks.n == 0 ? 0 : snp_skeleton(&chunks, 0, text, is_documented, out), err);
}

static int text_end(
    struct snp_cli *cli, int r, struct snp_err *err, const char *name, const struct snp_buf *out)
{
    snp_autojson json_t *answer = NULL;

    if (r == 0 && cli->is_json) {
        answer = snp_need(json_pack(
            "{s:o, s:I}", name, snp_need(snp_json_bytes(snp_buf_bytes(out), out->len)),
            "total_tokens",
            (json_int_t)snp_model_estimate(out->len == 0 ? "" : snp_buf_bytes(out), out->len)));
    } else if (r == 0 && out->len > 0) {
        r = snp_context_print(snp_buf_bytes(out), out->len, err);
    }
    return snp_context_end(cli, r, err, answer);
}

int snp_context_skeleton(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_index_close) struct snp_index index = SNP_INDEX_NONE;
    snp_autobuf struct snp_buf out = SNP_BUF(TEXT_MAX);
    snp_autofree char *path = NULL;
    struct snp_err err;
    int64_t file = 0;
    int r = snp_context_fresh(cli, opts, &index, &err);

    if (r == 0) {
        path = snp_context_path(&index, snp_opts_arg(opts, 0));
    }
    SNP_THEN(r, snp_index_file(&index, path, &file, &err));
    SNP_THEN(r, file_skeleton(&index, file, true, &out, &err));
    return text_end(cli, r, &err, "skeleton", &out);
}

struct mapping {
    struct snp_index *index;
    struct snp_buf *out;
    uint64_t room;    /* remaining tokens */
    uint64_t reserve; /* of these, for the names of later files */
};

/* Append the signatures of a file if they fit, else its name if that fits. 1 = neither. */
static int map_file(struct mapping *m, int64_t file, const char *path, struct snp_err *err)
{
    snp_autobuf struct snp_buf whole = SNP_BUF(TEXT_MAX);
    snp_autobuf struct snp_buf skeleton = SNP_BUF(TEXT_MAX);
    snp_autofree char *line = snp_need_format("%s\n", path);
    uint64_t name_tokens = snp_model_estimate(line, strlen(line));
    uint64_t tokens;
    int r = file_skeleton(m->index, file, false, &skeleton, err);

    SNP_TRY(r);
    r = snp_buf_adds(&whole, line);
    for (const char *at = snp_buf_cstr(&skeleton); r == 0 && at != NULL && *at != '\0';) {
        size_t len = strcspn(at, "\n");

        r = snp_buf_addf(&whole, "    %.*s\n", (int)len, at);
        at += len + (at[len] == '\n');
    }
    SNP_TRY(fail_memory(r, err));
    tokens = snp_model_estimate(snp_buf_bytes(&whole), whole.len);
    if (tokens + m->reserve <= m->room) {
        m->room -= tokens;
        return fail_memory(snp_buf_add(m->out, snp_buf_bytes(&whole), whole.len), err);
    }
    if (name_tokens <= m->room) {
        m->room -= name_tokens;
        return fail_memory(snp_buf_adds(m->out, line), err);
    }
    return 1;
}

static int map_make(struct snp_index *index,
                    uint64_t max_tokens,
                    struct snp_buf *out,
                    uint64_t *ret_left,
                    struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    struct mapping m = {.index = index, .out = out, .room = max_tokens};
    int64_t names = 0;
    int r;

    /* reserve tokens for the names of all files */
    SNP_TRY(snp_db_number(&index->db, 0, &names, err,
                          "SELECT sum(length(path) / 4 + 1) FROM file WHERE state < 3", ""));
    r = snp_db_ask(&index->db, &rows, err,
                   "SELECT id, path, length(path) / 4 + 1 FROM file WHERE state < 3"
                   " ORDER BY path",
                   "");
    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        names -= (int64_t)snp_col_u64(&rows, 2);
        m.reserve = names < 0 ? 0 : (uint64_t)names;
        r = map_file(&m, (int64_t)snp_col_u64(&rows, 0), snp_col_text(&rows, 1), err);
        *ret_left += r > 0;
        r = r > 0 ? 0 : r;
    }
    return r;
}

int snp_context_map(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_index_close) struct snp_index index = SNP_INDEX_NONE;
    snp_autobuf struct snp_buf out = SNP_BUF(TEXT_MAX);
    struct snp_err err;
    uint64_t max_tokens;
    uint64_t left = 0;
    int r = snp_context_number(
        opts, "max-tokens",
        (struct snp_context_range){SNP_QUERY_TOKENS, SNP_QUERY_TOKENS_MIN, SNP_QUERY_TOKENS_MAX},
        &max_tokens, &err);

    SNP_THEN(r, snp_context_fresh(cli, opts, &index, &err));
    SNP_THEN(r, map_make(&index, max_tokens, &out, &left, &err));
    if (r == 0 && left > 0) {
        snp_cli_warn(cli, "%llu files did not fit (--max-tokens raises the limit)",
                     (unsigned long long)left);
    }
    return text_end(cli, r, &err, "map", &out);
}

/* sections ----------------------------------------------------------------------------- */

static void section_show(json_t *list, const struct snp_rows *rows)
{
    const char *path = snp_col_text(rows, 1);
    const char *title = snp_col_text(rows, 2);
    const char *kind =
        snp_chunk_kind_name((enum snp_chunk_kind)(snp_col_u64(rows, 5) % SNP_CHUNK_KINDS));
    unsigned long long lines[2] = {snp_col_u64(rows, 3), snp_col_u64(rows, 4)};

    if (list != NULL) {
        (void)json_array_append_new(
            list, snp_need(json_pack(
                      "{s:I, s:o, s:o, s:I, s:I, s:s}", "id", (json_int_t)snp_col_u64(rows, 0),
                      "title", snp_need(snp_json_bytes(title, strlen(title))), "file",
                      snp_need(snp_cli_path_json(path)), "start_line", (json_int_t)lines[0],
                      "end_line", (json_int_t)lines[1], "kind", kind)));
        return;
    }
    snp_autofree char *name = snp_term_line(path, strlen(path));
    snp_autofree char *text = snp_term_line(title, strlen(title));
    (void)printf("%s:%llu-%llu  %s %s\n", name, lines[0], lines[1], kind, text);
}

int snp_context_sections(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_index_close) struct snp_index index = SNP_INDEX_NONE;
    const char *filter = snp_opts_n_args(opts) > 0 ? snp_opts_arg(opts, 0) : "";
    json_t *list = cli->is_json ? snp_need(json_array()) : NULL;
    snp_autojson json_t *answer = NULL;
    struct snp_err err;
    int64_t total = 0;
    uint64_t returned = 0;
    uint64_t limit = 0;
    uint64_t offset = 0;
    int r = snp_context_number(opts, "limit", (struct snp_context_range){SECTIONS, 1, SECTIONS_MAX},
                               &limit, &err);

    SNP_THEN(r, snp_context_number(opts, "offset", (struct snp_context_range){0, 0, OFFSET_MAX},
                                   &offset, &err));
    SNP_THEN(r, snp_context_fresh(cli, opts, &index, &err));
    SNP_THEN(r, snp_db_number(&index.db, 0, &total, &err,
                              "SELECT count(*) FROM chunk c JOIN file f ON f.id = c.file"
                              " WHERE c.kind > 0 AND instr(lower(f.path || ' ' || c.qualified),"
                              " lower(?)) > 0",
                              "t", filter));
    if (r == 0) {
        snp_autorows struct snp_rows rows = {0};

        r = snp_db_ask(&index.db, &rows, &err,
                       "SELECT c.id, f.path, c.qualified, c.first, c.last, c.kind FROM file f"
                       " JOIN chunk c ON c.file = f.id WHERE c.kind > 0 AND"
                       " instr(lower(f.path || ' ' || c.qualified), lower(?)) > 0"
                       " ORDER BY f.path, c.ordinal LIMIT ? OFFSET ?",
                       "tii", filter, limit, offset);
        while (r == 0 && (r = snp_db_step(&rows, &err)) > 0) {
            section_show(list, &rows);
            returned++;
            r = 0;
        }
    }
    if (list != NULL) {
        answer = snp_need(json_pack("{s:I, s:I, s:I, s:I, s:b, s:o}", "total_sections",
                                    (json_int_t)total, "returned", (json_int_t)returned, "offset",
                                    (json_int_t)offset, "limit", (json_int_t)limit, "has_more",
                                    offset + returned < (uint64_t)total, "sections", list));
    } else if (r == 0 && offset + returned < (uint64_t)total) {
        (void)fprintf(stderr, "%llu of %lld sections (--offset %llu shows the next)\n",
                      (unsigned long long)returned, (long long)total,
                      (unsigned long long)(offset + returned));
    }
    return snp_context_end(cli, r, &err, answer);
}
