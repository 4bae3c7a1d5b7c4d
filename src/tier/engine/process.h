/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_PROCESS_H
#define SNP_TIER_ENGINE_PROCESS_H

/*
 * Detached processes of a sandbox: programs that run beside its cells. Of each output stream the
 * last bytes are kept, as many as the session's output limit and at most 256 KiB, and read by
 * position. Standard input is a pipe, which alone stores what was written. Ended processes stay in
 * the list until newer ones need their entry. All end with the sandbox, or with a sweep.
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "guest/pid1/wire.h"

struct snp_buf;
struct snp_detached;
struct snp_process_read_request;
struct snp_process_signal_request;
struct snp_process_write_request;
struct snp_sandbox;

/* Pid 1 has started the process (eno 0), or not. */
typedef void (*snp_detached_cb)(void *data, int eno);

struct snp_detached_spec {
    uint64_t number;               /* of the cell that starts it */
    const struct snp_buf *command; /* the raw bytes of a COMMAND; borrowed */
    bool has_open_stdin;           /* for process.write, instead of the command's */
    const json_t *argv;            /* borrowed */
    snp_detached_cb cb;            /* runs once, but not after snp_detached_forget */
    void *data;
};

/* Start a process. SNP_E_LIMIT: too many are running. */
int snp_detached_start(struct snp_sandbox *s,
                       const struct snp_detached_spec *spec,
                       struct snp_err *err) SNP_NODISCARD;

/* The caller of a pending start is gone. */
void snp_detached_forget(struct snp_sandbox *s, const void *data);

/* Does one run? Then limits that the kernel does not enforce are watched between cells, too. */
bool snp_detached_is_running(const struct snp_sandbox *s);

/* Kill all that run. */
void snp_detached_kill(struct snp_sandbox *s);

/* Pid 1 reports the end of a process: a wait status. */
void snp_detached_exited(struct snp_sandbox *s, pid_t pid, int status);

/* Report ends to the daemon that have not been reported, after the end of a cell. */
void snp_detached_tell(struct snp_sandbox *s);

/* "3: npm run dev" for each that runs. New reference, or NULL. */
json_t *snp_detached_names(const struct snp_sandbox *s);

/* The sandbox has ended: answer waiting reads and free all. */
void snp_detached_sandbox_ended(struct snp_sandbox *s);

/* Methods; the answer may come later. id: of the daemon's request. */
int snp_method_process_list(struct snp_sandbox *s, uint32_t id, struct snp_err *err) SNP_NODISCARD;
int snp_method_process_read(struct snp_sandbox *s,
                            uint32_t id,
                            const struct snp_process_read_request *in,
                            struct snp_err *err) SNP_NODISCARD;
struct snp_process_input {
    uint32_t id;
    const char *bytes; /* borrowed */
    size_t n;
};
int snp_method_process_write(struct snp_sandbox *s,
                             const struct snp_process_write_request *in,
                             const struct snp_process_input *input,
                             struct snp_err *err) SNP_NODISCARD;
int snp_method_process_signal(struct snp_sandbox *s,
                              uint32_t id,
                              const struct snp_process_signal_request *in,
                              struct snp_err *err) SNP_NODISCARD;

#endif
