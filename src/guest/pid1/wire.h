/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_WIRE_H
#define SNP_GUEST_PID1_WIRE_H

/* Numbers of the init protocol (docs/wire.md), shared by pid 1 and the supervisor. */

#include <stdint.h>

#include "base/macro.h"

enum {
    SNP_INIT_COMMAND = 48,
    SNP_INIT_SIGNAL = 49,
    SNP_INIT_SWEEP = 50,
    SNP_INIT_WAKE = 51,
    SNP_INIT_PUT = 52,
    SNP_INIT_GET = 53,
    SNP_INIT_LS = 54,
    SNP_INIT_CHANGES = 55,
    SNP_INIT_WATCH = 56,
    SNP_INIT_HOLD = 57,
    SNP_INIT_DROP = 58,
    SNP_INIT_KEEP = 59,
    SNP_INIT_RESTORE = 60,
    SNP_INIT_PACK = 61,
    SNP_INIT_UNPACK = 62,
    SNP_INIT_SECRET = 63,
    SNP_INIT_REPLY = 64,
    SNP_INIT_EXIT = 65,
    SNP_INIT_MEMORY = 66,
    SNP_INIT_SPARED = 67,
    SNP_INIT_SPAWN = 68,
    SNP_INIT_STREAM = 69,
    SNP_INIT_RUN = 70,
};

/* Used only between pid 1 and snp-files, besides requests passed through. */
enum {
    SNP_FILES_WORKED = 80, /* the worker was reaped; no answer */
};

enum {
    SNP_INIT_INTERPRETER = 0, /* targets */
    SNP_INIT_COMMAND_TARGET = 1,
    SNP_INIT_JOB_TARGET = 2,     /* i32: its pid */
    SNP_INIT_PROCESS_TARGET = 3, /* i32: its pid */
    SNP_INIT_LEFT_TARGET = 4,    /* i32: of a process that ended: what it left in its group */
};

enum {
    SNP_INIT_HEADER_LEN = 16,
    SNP_INIT_BODY_MAX = (16 << 20) + 4096,
    SNP_INIT_ENTRIES_MAX = 20000, /* in LS and CHANGES */
    SNP_INIT_WATCH_MS = 20,
    SNP_INIT_PROCESSES_MAX = 16, /* detached, of a session */
};

/* Flags of a CHANGES reply. */
enum {
    SNP_CHANGES_TRUNCATED = 1,
    SNP_CHANGES_WORKSPACE_FULL = 2,
    SNP_CHANGES_INODES_FULL = 4,
    SNP_CHANGES_TMP_FULL = 8,
    SNP_CHANGES_SHM_FULL = 16,
};

/* Flags of a KEEP reply. */
enum {
    SNP_KEEP_OVER = 1,    /* not made: the workspace, or all copies together, would be too large */
    SNP_KEEP_OPEN = 2,    /* a file is open for writing */
    SNP_KEEP_LOST = 4,    /* sockets, FIFOs, devices or unreadable files are left out */
    SNP_KEEP_SHORT = 16,  /* with OVER: memory is short for the bytes to copy */
    SNP_KEEP_STOPPED = 8, /* processes or threads of the code were stopped for it */
};

enum {
    SNP_CHANGE_CREATED = 0,
    SNP_CHANGE_MODIFIED,
    SNP_CHANGE_DELETED,
    /* in the layer over a project: modified if the project has it, else created */
    SNP_CHANGE_APPEARED
};
enum {
    SNP_ENTRY_FILE = 0,
    SNP_ENTRY_DIR,
    SNP_ENTRY_LINK,
    SNP_ENTRY_OTHER
};

/* Requests of fixed size, and heads of requests for files. */
struct snp_init_signal {
    uint8_t target;
    uint32_t number;
    int32_t pid; /* for jobs and processes only */
} SNP_PACKED;
struct snp_init_wake {
    uint32_t number;
    uint8_t is_job;
} SNP_PACKED;
struct snp_init_keep {
    uint32_t number;
    uint64_t most_bytes;
    uint32_t most_files;
    uint64_t most_new; /* limit of bytes to copy for it */
} SNP_PACKED;
struct snp_init_watch {
    uint64_t memory;
    uint32_t processes;
} SNP_PACKED;
struct snp_init_put {
    uint64_t offset;
    uint8_t truncate;
    uint32_t mode;
} SNP_PACKED;
struct snp_init_get {
    uint64_t offset;
    uint32_t length;
} SNP_PACKED;
struct snp_init_got {
    uint64_t size;
    uint32_t mode;
    uint64_t hole; /* zero bytes from the offset on, which are not sent */
} SNP_PACKED;

#endif
