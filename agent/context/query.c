/* SPDX-License-Identifier: Apache-2.0 */
#include "context/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "context/rank.h"
#include "context/skeleton.h"
#include "model/provider.h"

enum {
    WHOLE_MAX = 12,    /* hits shown in full, if they fit */
    SKELETON_MAX = 40, /* up to this rank as skeletons, the others as names */
    NAMED_MAX = 80,
    SKELETON_BYTES_MAX = 1 << 20,
    WHY_MAX = 1000, /* bytes */
};

void snp_section_done(struct snp_section *section)
{
    free(section->path);
    free(section->title);
    free(section->why);
    free(section->content);
}

void snp_answer_done(struct snp_answer *answer)
{
    for (size_t i = 0; i < answer->n; i++) {
        snp_section_done(&answer->items[i]);
    }
    free(answer->items);
    *answer = (struct snp_answer){0};
}

char *snp_section_heading(const struct snp_section *section)
{
    return section->form == SNP_SECTION_NAME
               ? snp_format("%s:%u-%u  %s  # %s", section->path, section->lines[0],
                            section->lines[1], section->title, section->why)
               : snp_format("%s:%u-%u  # %s", section->path, section->lines[0], section->lines[1],
                            section->why);
}

/* A file with quoted text. */
struct quoted_file {
    int64_t id;
    char *path; /* owned */
    char *text; /* owned */
    size_t n;
    struct snp_chunks chunks;
};

struct pack {
    struct snp_index *index;
    const struct snp_query *query;
    struct snp_hits hits;
    struct quoted_file *files; /* owned */
    size_t n_files;
    struct {
        int64_t file;
        struct snp_parse_range range;
    } whole[WHOLE_MAX];
    size_t n_whole;
    uint64_t room; /* tokens */
};

static void pack_free(struct pack *pack)
{
    for (size_t i = 0; i < pack->n_files; i++) {
        free(pack->files[i].path);
        free(pack->files[i].text);
        snp_chunks_done(&pack->files[i].chunks);
    }
    free(pack->files);
    free(pack);
}
SNP_DEFINE_CLEANUP(struct pack *, pack_free)

static int file_of(struct pack *pack, int64_t id, struct quoted_file **ret, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    struct quoted_file *file;

    for (size_t i = 0; i < pack->n_files; i++) {
        if (pack->files[i].id == id) {
            *ret = &pack->files[i];
            return 0;
        }
    }
    *ret = file = &pack->files[pack->n_files++];
    file->id = id;
    SNP_TRY(
        snp_db_row(&pack->index->db, &rows, err, "SELECT path FROM file WHERE id = ?", "i", id));
    file->path = strdup(snp_col_text(&rows, 0));
    SNP_TRY_MEMORY(file->path, err);
    SNP_TRY(snp_index_text(pack->index, id, &file->text, &file->n, err));
    return snp_index_chunks(pack->index, id, &file->chunks, err);
}

static char *buf_copy(struct snp_buf *buf)
{
    const char *text = snp_buf_cstr(buf);

    return text == NULL ? NULL : strdup(text);
}

/* The reason shown: the strongest first, then general ones. %s: the name in the query. */
static const struct {
    unsigned why;
    const char *text;
    bool is_more;
} reasons[] = {
    {SNP_WHY_EXACT, "exact match: \"%s\"", false},
    {SNP_WHY_PATH, "path match: \"%s\"", false},
    {SNP_WHY_TEST, "tests \"%s\"", false},
    {SNP_WHY_CALLER, "uses \"%s\"", false},
    {SNP_WHY_WORDS, "keywords", false},
    {SNP_WHY_MEANING, "similar meaning", false},
    {SNP_WHY_CURRENT, ", in the current file", true},
    {SNP_WHY_IMPORTED, ", imported by the current file", true},
    {SNP_WHY_RECENT, ", changed recently", true},
};

static char *why_text(const struct pack *pack, const struct snp_hit *hit)
{
    struct snp_buf text = SNP_BUF(WHY_MAX);
    bool is_said = false;
    char *copy;
    int r = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(reasons) && r == 0; i++) {
        const char *at = reasons[i].text;
        size_t n = strcspn(at, "%");

        if ((hit->why & reasons[i].why) != 0 && (reasons[i].is_more || !is_said)) {
            r = snp_buf_add(&text, at, n);
            if (r == 0 && at[n] == '%') {
                r = snp_buf_addf(&text, "%s%s", pack->hits.named, at + n + strlen("%s"));
            }
            is_said = true;
        }
    }
    copy = r == 0 ? buf_copy(&text) : NULL;
    snp_buf_done(&text);
    return copy;
}

/* Set a section's content in a form, and its cost. */
static int content_set(struct snp_section *section,
                       const struct quoted_file *file,
                       size_t i,
                       enum snp_section_form form,
                       struct snp_err *err)
{
    struct snp_buf skeleton = SNP_BUF(SKELETON_BYTES_MAX);
    const struct snp_chunk *chunk = &file->chunks.items[i];
    snp_autofree char *heading = NULL;

    free(section->content);
    section->form = form;
    if (form == SNP_SECTION_SKELETON) {
        int r = snp_skeleton(&file->chunks, i, file->text, true, &skeleton);

        section->content = r < 0 ? NULL : buf_copy(&skeleton);
        snp_buf_done(&skeleton);
    } else {
        section->content = form == SNP_SECTION_NAME ? strdup("")
                                                    : strndup(file->text + chunk->all.start,
                                                              chunk->all.end - chunk->all.start);
    }
    heading = snp_section_heading(section);
    SNP_TRY_MEMORY(section->content != NULL && heading != NULL, err);
    section->tokens = snp_model_estimate(heading, strlen(heading)) + 1 +
                      snp_model_estimate(section->content, strlen(section->content));
    return 0;
}

static bool is_covered(const struct pack *pack, int64_t file, const struct snp_chunk *chunk)
{
    for (size_t i = 0; i < pack->n_whole; i++) {
        if (pack->whole[i].file == file && pack->whole[i].range.start <= chunk->all.start &&
            pack->whole[i].range.end >= chunk->all.end) {
            return true;
        }
    }
    return false;
}

/* Whether a part of it is already shown, so that it is not shown in full. */
static bool is_begun(const struct pack *pack, int64_t file, const struct snp_chunk *chunk)
{
    for (size_t i = 0; i < pack->n_whole; i++) {
        if (pack->whole[i].file == file && pack->whole[i].range.start >= chunk->all.start &&
            pack->whole[i].range.end <= chunk->all.end) {
            return true;
        }
    }
    return false;
}

/* Choose the largest form that is allowed and fits: 1; none fits: 0. */
static int form_choose(struct pack *pack,
                       struct snp_section *section,
                       const struct quoted_file *file,
                       size_t i,
                       size_t rank,
                       struct snp_err *err)
{
    const struct snp_chunk *chunk = &file->chunks.items[i];
    bool has_parts = chunk->kind == SNP_CHUNK_FILE && file->chunks.n > 1;
    int form = rank >= SKELETON_MAX ? SNP_SECTION_NAME
               : rank >= WHOLE_MAX || pack->n_whole == WHOLE_MAX || has_parts ||
                       is_begun(pack, file->id, chunk)
                   ? SNP_SECTION_SKELETON
                   : SNP_SECTION_WHOLE;

    for (; form <= SNP_SECTION_NAME; form++) {
        uint64_t most = form == SNP_SECTION_NAME ? pack->room
                        : rank == 0              ? pack->room
                                                 : pack->room / 2; /* leave room for others */

        SNP_TRY(content_set(section, file, i, (enum snp_section_form)form, err));
        if (section->tokens <= most) {
            if (form == SNP_SECTION_WHOLE) {
                pack->whole[pack->n_whole].file = file->id;
                pack->whole[pack->n_whole++].range = chunk->all;
            }
            return 1;
        }
    }
    return 0;
}

static int section_add(struct pack *pack,
                       size_t rank,
                       struct snp_answer *answer,
                       struct snp_err *err)
{
    const struct snp_hit *hit = &pack->hits.items[rank];
    struct snp_section *section = &answer->items[answer->n];
    struct snp_buf title = SNP_BUF(SKELETON_BYTES_MAX);
    const struct snp_chunk *chunk;
    struct quoted_file *file;
    int64_t i = 0;
    int r;

    SNP_TRY(file_of(pack, hit->file, &file, err));
    SNP_TRY(snp_db_number(&pack->index->db, 0, &i, err, "SELECT ordinal FROM chunk WHERE id = ?",
                          "i", hit->chunk));
    if ((size_t)i >= file->chunks.n) {
        return snp_fail(err, SNP_E_INTERNAL,
                        "the index is damaged; rebuild it with `context index --rebuild`");
    }
    chunk = &file->chunks.items[i];
    if (is_covered(pack, hit->file, chunk)) {
        return 0;
    }
    answer->n++; /* so that it is freed on failure */
    *section = (struct snp_section){
        .kind = chunk->kind,
        .lines = {chunk->lines[0], chunk->lines[1]},
        .score = hit->score / pack->hits.items[0].score,
        .path = strdup(file->path),
        .why = why_text(pack, hit),
    };
    section->score = section->score > 1 ? 1 : section->score;
    if (snp_chunk_qualified(&file->chunks, (size_t)i, file->text, &title) == 0) {
        section->title = title.len == 0 ? strdup(file->path) : buf_copy(&title);
    }
    snp_buf_done(&title);
    SNP_TRY_MEMORY(section->path != NULL && section->why != NULL && section->title != NULL, err);
    pack->room = pack->query->max_tokens - answer->tokens;
    r = form_choose(pack, section, file, (size_t)i, rank, err);
    if (r != 0) {
        answer->tokens += r > 0 ? section->tokens : 0;
        return r < 0 ? r : 0;
    }
    answer->left_out++;
    snp_section_done(section);
    answer->n--;
    return 0;
}

int snp_query(struct snp_index *index,
              const struct snp_query *query,
              struct snp_answer *ret,
              struct snp_err *err)
{
    snp_cleanup(pack_freep) struct pack *pack = calloc(1, sizeof(*pack));
    int r;

    *ret = (struct snp_answer){0};
    SNP_TRY_MEMORY(pack, err);
    pack->index = index;
    pack->query = query;
    SNP_TRY(snp_rank(index, query, &pack->hits, err));
    pack->files = calloc(pack->hits.n + 1, sizeof(*pack->files));
    ret->items = calloc(pack->hits.n + 1, sizeof(*ret->items));
    SNP_TRY_MEMORY(pack->files != NULL && ret->items != NULL, err);
    r = 0;
    for (size_t i = 0; i < pack->hits.n && i < NAMED_MAX && r == 0; i++) {
        r = section_add(pack, i, ret, err);
    }
    ret->left_out += pack->hits.n > NAMED_MAX ? pack->hits.n - NAMED_MAX : 0;
    if (r < 0) {
        snp_answer_done(ret);
    }
    return r;
}
