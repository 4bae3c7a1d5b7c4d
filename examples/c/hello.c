/* SPDX-License-Identifier: Apache-2.0 */
/* hello [CODE]: run a cell, show what it prints as it comes, then its value. */
#include <snipara/sandbox.h>
#include <stdio.h>

static void print(void *ctx, enum snipara_stream stream, const char *bytes, size_t len)
{
    (void)ctx;
    (void)fwrite(bytes, 1, len, stream == SNIPARA_STDERR ? stderr : stdout);
}

int main(int argc, char **argv)
{
    const char *code = argc > 1 ? argv[1] : "print('hello from the sandbox')\n6 * 7";
    struct snipara *box;
    const struct snipara_error *error = snipara_connect(NULL, &box);
    struct snipara_call *call;
    int status = 1;

    if (error != NULL) {
        (void)fprintf(stderr, "hello: %s\n", error->message);
        return 1;
    }
    call = snipara_run(box, SNIPARA_RUN(.code = code, .output = print));
    (void)snipara_wait(call, -1);
    error = snipara_call_error(call);
    if (error != NULL) {
        (void)fprintf(stderr, "hello: %s\n", error->message);
    } else if (snipara_text(call, "error.traceback", NULL) != NULL) {
        (void)fprintf(stderr, "%s\n", snipara_text(call, "error.traceback", NULL));
    } else {
        if (snipara_text(call, "value", NULL) != NULL) {
            (void)printf("value: %s\n", snipara_text(call, "value", NULL));
        }
        (void)printf("%.1f ms, %lld MiB\n", snipara_real(call, "usage.wall_us", 0) / 1000,
                     (long long)snipara_int(call, "usage.memory_peak_bytes", 0) >> 20);
        status = 0;
    }
    snipara_free(call);
    snipara_close(box);
    return status;
}
