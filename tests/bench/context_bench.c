/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context-bench DIR MODE: questions on standard input, one on a line. For each it prints a line:
 * the microseconds that the ranking took, then the first ten places that it found, as TAB
 * PATH:LINE. The index must exist. MODE is keyword, semantic, hybrid, or plain: hybrid without the
 * encoder. `vectors` prints the numbers of each line instead.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "context/meaning.h"
#include "context/query.h"
#include "context/rank.h"

enum {
    PLACES = 10,
};

static int place_print(struct snp_index *index, const struct snp_hit *hit, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};

    SNP_TRY(snp_db_row(&index->db, &rows, err,
                       "SELECT f.path, c.first FROM chunk c JOIN file f ON f.id = c.file"
                       " WHERE c.id = ?",
                       "i", hit->chunk));
    (void)printf("\t%s:%" PRIu64, snp_col_text(&rows, 0), snp_col_u64(&rows, 1));
    return 0;
}

static int ask(struct snp_index *index, const struct snp_query *query, struct snp_err *err)
{
    static struct snp_hits hits;
    uint64_t began = snp_now_us();

    SNP_TRY(snp_rank(index, query, &hits, err));
    (void)printf("%" PRIu64, snp_now_us() - began);
    for (size_t i = 0; i < hits.n && i < PLACES; i++) {
        SNP_TRY(place_print(index, &hits.items[i], err));
    }
    (void)putchar('\n');
    return 0;
}

static int vectors(void)
{
    snp_cleanup(snp_encoder_closep) struct snp_encoder *encoder = NULL;
    float numbers[1][SNP_VECTOR_LEN];
    char line[SNP_QUERY_TEXT_MAX];
    struct snp_err err;

    if (snp_encoder_open(&encoder, &err) < 0) {
        (void)fprintf(stderr, "context-bench: %s\n", err.msg);
        return 1;
    }
    while (fgets(line, sizeof(line), stdin) != NULL) {
        const char *text = line;

        line[strcspn(line, "\n")] = '\0';
        snp_encode(encoder, &text, 1, numbers);
        for (size_t i = 0; i < SNP_VECTOR_LEN; i++) {
            (void)printf("%.7f%c", (double)numbers[0][i], i + 1 < SNP_VECTOR_LEN ? ' ' : '\n');
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    snp_cleanup(snp_index_close) struct snp_index index = SNP_INDEX_NONE;
    struct snp_query query = {.max_tokens = SNP_QUERY_TOKENS};
    char line[SNP_QUERY_TEXT_MAX];
    snp_cleanup(snp_encoding_done) struct snp_encoding encoding = {0};
    struct snp_meaning_report report;
    struct snp_err err;
    int r;

    if (argc != 3) {
        (void)fprintf(stderr, "usage: context-bench DIR MODE <QUESTIONS\n");
        return 2;
    }
    if (snp_streq(argv[2], "vectors")) {
        return vectors();
    }
    r = snp_index_open(argv[1], false, &index, &err);
    query.mode = snp_streq(argv[2], "keyword")    ? SNP_QUERY_KEYWORD
                 : snp_streq(argv[2], "semantic") ? SNP_QUERY_SEMANTIC
                                                  : SNP_QUERY_HYBRID;
    if (r == 0 && query.mode != SNP_QUERY_KEYWORD && !snp_streq(argv[2], "plain")) {
        r = snp_encoding_open(SNP_ENCODING_LOCAL, NULL, &encoding, &err);
        SNP_THEN(r, snp_meaning_update(&index, &encoding, 0, NULL, &report, &err));
        query.encoding = &encoding;
    }
    SNP_THEN(r, snp_db_exec(&index.db, "BEGIN", &err));
    while (r == 0 && fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        query.text = line;
        r = ask(&index, &query, &err);
    }
    if (r < 0) {
        (void)fprintf(stderr, "context-bench: %s\n", err.msg);
    }
    return r < 0;
}
