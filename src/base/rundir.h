/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_RUNDIR_H
#define SNP_BASE_RUNDIR_H

/*
 * Where daemon and client meet: the runtime folder (socket, lock), the state folder (log, data of
 * tiers), and our programs. All paths returned are absolute and owned by the caller (free).
 */

#include "base/err.h"

/*
 * The runtime folder, made with mode 0700 if it is missing: $SNIPARA_SANDBOX_RUNTIME_DIR, else
 * $XDG_RUNTIME_DIR/snipara-sandbox (if that is a folder of ours), else /tmp/snipara-sandbox-UID.
 * SNP_E_DENIED when it is a link, belongs to another user or is open to group or others.
 */
int snp_runtime_dir(char **ret_path, struct snp_err *err) SNP_NODISCARD;

/*
 * The state folder: $SNIPARA_SANDBOX_STATE_DIR, else $XDG_STATE_HOME/snipara-sandbox, else
 * ~/.local/state/snipara-sandbox. Made with mode 0700. If the first one set cannot be used, the
 * error names it and no other is tried; SNP_E_DENIED when it belongs to another user or others may
 * write to it.
 */
int snp_state_dir(char **ret_path, struct snp_err *err) SNP_NODISCARD;

/*
 * $XDG_DATA_HOME/snipara-sandbox/NAME, else below ~/.local/share. NULL: neither is known. The
 * caller frees.
 */
char *snp_users_folder(const char *name);

/*
 * Create a folder of mode 0700 for this user, or correct its mode. Its parent must not be writable
 * by others. SNP_E_DENIED: it belongs to another user, or is no folder.
 */
int snp_private_dir(const char *path, struct snp_err *err) SNP_NODISCARD;

/* The daemon's socket in the runtime folder. SNP_E_LIMIT if the path is too long for a socket. */
int snp_socket_path(char **ret_path, struct snp_err *err) SNP_NODISCARD;

enum {
    SNP_DIR_ID_MAX = 41, /* bytes, without terminator */
};

/* A folder as DEVICE:INODE, the same in every mount namespace; "" = there is none. Returns out. */
const char *snp_dir_id(const char *path, char out[SNP_DIR_ID_MAX + 1]);

/* SNP_E_LIMIT, with the limit in bytes, if path does not fit a unix socket's address. */
int snp_socket_path_check(const char *path, struct snp_err *err) SNP_NODISCARD;

/*
 * Open the daemon's log (STATE/daemon.log, 0600, for appending); emptied first when it is
 * over 1 MiB. The descriptor is the caller's.
 */
int snp_daemon_log_open(const char *state_dir, int *ret_fd, struct snp_err *err) SNP_NODISCARD;
/* The same while it is being written: empty it if it is larger than 1 MiB. */
void snp_daemon_log_trim(const char *state_dir);

enum {
    SNP_RUN_KEY = 32, /* bytes */
};

/*
 * The key that authenticates records of runs: STATE/run.key, readable by its owner only; created if
 * missing. SNP_E_DENIED: it belongs to another user, or others may read it; SNP_E_INVALID: it is no
 * key.
 */
int snp_run_key(unsigned char ret_key[SNP_RUN_KEY], struct snp_err *err) SNP_NODISCARD;

/*
 * For a library: snp_own_program() uses this folder as that of the running program. The caller
 * keeps it.
 */
void snp_own_folder(const char *folder);

/*
 * One of our own programs: in the folder of the running one, else in ../libexec/snipara-sandbox/
 * or, for programs in libexec, ../../bin/. SNP_E_NOT_FOUND names the places.
 */
int snp_own_program(const char *name, char **ret_path, struct snp_err *err) SNP_NODISCARD;

#endif
