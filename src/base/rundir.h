/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_RUNDIR_H
#define SNP_BASE_RUNDIR_H

/*
 * Where daemon and client meet: the runtime folder (socket, lock), the state folder
 * (log, what a tier keeps), and the programs that belong together. All paths returned
 * are absolute and owned by the caller (free).
 */

#include "base/err.h"

/*
 * The runtime folder, made with mode 0700 if it is missing:
 * $SNIPARA_SANDBOX_RUNTIME_DIR, else $XDG_RUNTIME_DIR/snipara-sandbox (if that is a folder
 * of ours), else /tmp/snipara-sandbox-UID. SNP_E_DENIED when it is a link, belongs to
 * somebody else or is open to group or others.
 */
int snp_runtime_dir(char **ret_path, struct snp_err *err) SNP_NODISCARD;

/*
 * The state folder: $SNIPARA_SANDBOX_STATE_DIR, else $XDG_STATE_HOME/snipara-sandbox, else
 * ~/.local/state/snipara-sandbox. Made with mode 0700. One that cannot be used is an error that
 * names it, never a reason for the next; SNP_E_DENIED when it belongs to somebody else or others
 * may write to it.
 */
int snp_state_dir(char **ret_path, struct snp_err *err) SNP_NODISCARD;

/*
 * A folder that is yours alone, mode 0700, in one that nobody else may write to: made, or its mode
 * put right. SNP_E_DENIED: it is somebody else's, or no folder.
 */
int snp_private_dir(const char *path, struct snp_err *err) SNP_NODISCARD;

/* The daemon's socket in the runtime folder. SNP_E_LIMIT if no socket can have so long a path. */
int snp_socket_path(char **ret_path, struct snp_err *err) SNP_NODISCARD;

/* SNP_E_LIMIT, naming the most bytes, if path does not fit a unix socket's address. */
int snp_socket_path_check(const char *path, struct snp_err *err) SNP_NODISCARD;

/*
 * Open the daemon's log (STATE/daemon.log, 0600, for appending); emptied first when it is
 * over 1 MiB. The descriptor is the caller's.
 */
int snp_daemon_log_open(const char *state_dir, int *ret_fd, struct snp_err *err) SNP_NODISCARD;
/* The same while it is written: emptied if it is larger than 1 MiB. */
void snp_daemon_log_trim(const char *state_dir);

enum {
    SNP_RUN_KEY = 32, /* bytes */
};

/*
 * The key that records of runs are authenticated with: STATE/run.key, which only its owner may
 * read; made if it is missing. SNP_E_DENIED: it is somebody else's, or others may read it;
 * SNP_E_INVALID: it is no key.
 */
int snp_run_key(unsigned char ret_key[SNP_RUN_KEY], struct snp_err *err) SNP_NODISCARD;

/*
 * For a library: snp_own_program() takes this folder, kept by the caller, for that of the
 * running program.
 */
void snp_own_folder(const char *folder);

/*
 * One of our own programs: in the folder of the running one, else in ../libexec/snipara-sandbox/
 * or, for what runs from there, ../../bin/. SNP_E_NOT_FOUND names the places.
 */
int snp_own_program(const char *name, char **ret_path, struct snp_err *err) SNP_NODISCARD;

#endif
