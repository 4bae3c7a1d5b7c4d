/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CAPS_H
#define SNP_DAEMON_CAPS_H

/* All limits on sizes and times that the daemon enforces, except those of messages. */

#include "base/wire/rpc.h"

enum {
    SNP_CAP_CLIENTS = 512,            /* connected at once */
    SNP_CAP_SESSIONS = 8192,          /* open at once, closing ones included; a power of two */
    SNP_CAP_REQUESTS = 32,            /* open requests of one client */
    SNP_CAP_WAITING = 128,            /* cells waiting for one session */
    SNP_CAP_TIER_CALLS = 4096,        /* open requests to one tier */
    SNP_CAP_QUEUE_BYTES = 64 << 20,   /* bytes queued for one peer */
    SNP_CAP_WAITING_BYTES = 64 << 20, /* code and input waiting for sessions, per client */
    SNP_CAP_BUFFER_BYTES = 64 << 10,  /* a larger buffer is freed once empty */
    SNP_CAP_READ_BYTES = 64 << 10,    /* read from one peer before others get a turn */
    SNP_CAP_FRAME_MS = 10 * 1000,     /* to complete a frame once begun */
    SNP_CAP_FLUSH_MS = 1000,          /* to read a last answer before the end */
    /* Default of --tier-timeout: a tier's answer; for a cell: beyond its wall clock. */
    SNP_CAP_TIER_MS = 60 * 1000,
    SNP_CAP_TIER_OPEN_MS = 120 * 1000, /* a tier's answer to open */
    SNP_CAP_TIER_LOAD_MS = 300 * 1000, /* a tier's answer to save and load */
    /* A tier's exit, with the template image that it may write. */
    SNP_CAP_TIER_EXIT_MS = 15 * 1000,
    SNP_CAP_ARGV_BYTES = 128 << 10,   /* all arguments together */
    SNP_CAP_ENV = 256,                /* variables of one session */
    SNP_CAP_ENV_BYTES = 128 << 10,    /* all variables together, names included */
    SNP_CAP_IDLE_S = 300,             /* default of --idle */
    SNP_CAP_SESSION_IDLE_S = 1800,    /* default of --session-idle */
    SNP_CAP_SHOWN_BYTES = 32 << 20,   /* of one cell's output and displays, for the journal */
    SNP_CAP_WAIT_TOLD_MS = 400,       /* a longer wait is reported to the client */
    SNP_CAP_INTENT_MS = 5,            /* a cell that ends sooner gets one journal entry */
    SNP_CAP_SEEN_MS = 500,            /* between records of a running cell's output */
    SNP_CAP_CHECKPOINT_MS = 1000,     /* default of --checkpoint-after */
    SNP_CAP_RETRY_MIN_MS = 1000,      /* first delay before a failed save is retried */
    SNP_CAP_RETRY_MAX_MS = 32 * 1000, /* longest delay before a failed save is retried */
    SNP_CAP_DIRTY_MS = 30 * 1000,     /* the longest that a checkpoint is delayed */
    SNP_CAP_SAVING = 2,               /* automatic checkpoints at once */
    SNP_CAP_MEASURING = 64,           /* sessions being measured at once */
    SNP_CAP_LIVE = 64,                /* default of --live-max */
    SNP_CAP_COPIES = 8,               /* default of --snapshots-in-memory */
    SNP_CAP_COPIES_SHARE = 2,         /* 1/2 of a session's memory is for snapshots */
    SNP_CAP_COPIES_UNSAVED = 32,      /* of one session, until they are on disk */
    SNP_CAP_SNAPSHOTS = 1000,         /* of one session */
    SNP_CAP_IMPORTS = 8,              /* files being imported */
    SNP_CAP_UNPACKED = 64,            /* memory for one byte of a checkpoint, at most, about */
    SNP_CAP_PROVING = 4,              /* checkpoints on trial at once when the daemon ends */
    SNP_CAP_END_SAVE_MS = 20000,      /* for checkpoints when the daemon ends */
    SNP_CAP_END_CELL_MS = 5000,       /* for a cell during which the session cannot be saved */
    SNP_CAP_END_ROOM_MS = 15000,      /* of these: waiting for room on a full disk */
    SNP_CAP_END_RETRY_MS = 1000,      /* between saves at the end */
    SNP_CAP_END_TRIES = 3,            /* attempts to save a session at the end */
    SNP_CAP_END_LOOK_MS = 20,         /* between checks for unsaved sessions */
};

/* Default and minimum of --journal-budget: the log and reserve alone take 5 MiB. */
#define SNP_CAP_JOURNAL_BYTES     ((uint64_t)8 << 30)
#define SNP_CAP_JOURNAL_BYTES_MIN ((uint64_t)16 << 20)
/* Share of the budget for the full outputs that each tier keeps while it runs, and its maximum. */
#define SNP_CAP_OUTPUTS_SHARE 8
#define SNP_CAP_OUTPUTS_BYTES ((uint64_t)512 << 20)
/* An imported file. */
#define SNP_CAP_ARCHIVE_BYTES ((uint64_t)32 << 30)

#endif
