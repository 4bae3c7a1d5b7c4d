/* SPDX-License-Identifier: Apache-2.0 */
/* state: files in and out, a snapshot, going back to it, and two sessions that go on from it. */
#include <snipara/sandbox.h>
#include <stdio.h>
#include <string.h>

static int failed;

/* Wait; say why it failed, if it did. Returns the call. */
static struct snipara_call *done(const char *what, struct snipara_call *call)
{
    const struct snipara_error *error;

    (void)snipara_wait(call, -1);
    error = snipara_call_error(call);
    if (error != NULL) {
        (void)fprintf(stderr, "state: %s: %s (%s)\n", what, error->message, error->name);
        failed = 1;
    }
    return call;
}

static void show(struct snipara *box, const char *session, const char *code)
{
    struct snipara_call *call =
        done(code, snipara_run(box, SNIPARA_RUN(.session = session, .code = code)));
    const char *value = snipara_text(call, "value", NULL);

    (void)printf("%-8s %-28s %s\n", session, code, value == NULL ? "" : value);
    snipara_free(call);
}

int main(void)
{
    static const char table[] = "city,people\nOslo,709037\nBergen,291940\n";
    const char *const limits[] = {"memory=256m", "timeout=20", NULL};
    struct snipara *box;
    const struct snipara_error *error = snipara_connect(NULL, &box);
    struct snipara_call *call;
    size_t len;

    if (error != NULL) {
        (void)fprintf(stderr, "state: %s\n", error->message);
        return 1;
    }
    snipara_free(done("open", snipara_open(box, "cities", SNIPARA_SESSION(.limits = limits))));
    snipara_free(done("put", snipara_put(box, "cities", "cities.csv", table, strlen(table), 0)));
    show(box, "cities", "rows = open('cities.csv').read().split()[1:]");
    snipara_free(done("snapshot", snipara_snapshot(box, "cities", "loaded")));
    show(box, "cities", "rows.clear()");
    show(box, "cities", "len(rows)");
    snipara_free(done("rollback", snipara_rollback(box, "cities", "cities@loaded")));
    show(box, "cities", "len(rows)");

    call = done("fork", snipara_fork(box, "cities", "copy", 2));
    for (size_t i = 0; i < snipara_count(call, "sessions"); i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "sessions.%zu.name", i);
        show(box, snipara_text(call, path, NULL), "rows[0]");
        snipara_free(done("destroy", snipara_destroy(box, snipara_text(call, path, NULL))));
    }
    snipara_free(call);

    show(box, "cities", "open('sum.txt', 'w').write(str(sum(int(r.split(',')[1]) for r in rows)))");
    call = done("get", snipara_get(box, "cities", "sum.txt", 0));
    (void)printf("sum.txt: %s\n", (const char *)snipara_data(call, &len));
    snipara_free(call);
    snipara_free(done("destroy", snipara_destroy(box, "cities")));
    snipara_close(box);
    return failed;
}
