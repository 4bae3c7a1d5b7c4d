/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SERVER_H
#define SNP_DAEMON_SERVER_H

/* The daemon as a whole. Only types: front/ starts it. */

#include <stdbool.h>
#include <uv.h>

#include "base/fd.h"
#include "base/json.h"
#include "daemon/caps.h"
#include "daemon/conn.h"
#include "daemon/session.h"
#include "daemon/tiers.h"

struct snp_server;
struct snp_exec;
struct snp_store;
struct snp_import;
struct snp_spill_waiter;
struct snp_tier;

/* A connected client. */
struct snp_peer {
    struct snp_conn conn;
    struct snp_server *server;                  /* borrowed */
    struct snp_request *open[SNP_CAP_REQUESTS]; /* borrowed; NULL = free slot */
    size_t waiting_bytes;                       /* code and input of its waiting cells */
    pid_t pid;                                  /* when it connected; for the log */
    uint64_t room_turn;                         /* room_turns when a session last woke for it */
};

struct snp_request {
    struct snp_server *server; /* borrowed */
    struct snp_peer *peer;     /* borrowed; NULL once the client has disconnected */
    uint32_t id;
    struct snp_exec *exec;                /* borrowed; the cell it waits for, or NULL */
    char session[SNP_SESSION_ID_LEN + 1]; /* id of its session; "" = none */
    bool is_again;                        /* dispatched a second time, after its tier died */
};

/* Executors that are not gone, in chains by the hash of their ids. */
struct snp_executors {
    struct snp_executor *by_id[SNP_CAP_SESSIONS];
};

/* Events of lower parts; front/hooks.c connects the handlers. All are called on the loop. */
struct snp_hooks {
    /* A session continues (life.c): an unnamed one has run its cell; one that is needed wakes. */
    void (*end)(struct snp_session *session);
    void (*wake)(struct snp_session *session);
    void (*wake_step)(struct snp_session *session);
    /* It has its first sandbox, in which no cell has run. */
    void (*begun)(struct snp_session *session);
    /* Its executor ended unexpectedly; its state is gone, for any reason. */
    void (*lost)(struct snp_session *session, const char *reason);
    void (*executor_gone)(struct snp_session *session);
    /* A checkpoint of the session was made, or failed. */
    void (*saved)(struct snp_session *session, bool is_made);
    /* The `unsaved` member for an answer about the session with this id: new, or NULL. */
    json_t *(*unsaved)(const struct snp_server *server, const char *id);
    /* Dispatch a request again that a dead tier did not read. */
    void (*again)(struct snp_request *request, json_t *head, const char *raw, size_t raw_len);
    /* Its memory is about to be freed. */
    void (*forget)(struct snp_session *session);
    /* There may be room for one more executor. */
    void (*room)(struct snp_server *server);
    /* Read the journal's sessions again. */
    void (*recover)(struct snp_server *server);
    /*
     * A tier: a sandbox ended unexpectedly; it takes no more calls; its process and memory are
     * gone.
     */
    void (*sandbox_gone)(const struct snp_tier *tier,
                         struct snp_server *server,
                         const char *id,
                         const char *reason);
    /* A tier: a detached process ended. how: its exit code, or the name of a signal. */
    void (*process_ended)(const struct snp_tier *tier,
                          struct snp_server *server,
                          const char *id,
                          uint64_t process,
                          const char *how);
    void (*tier_lost)(const struct snp_tier *tier, struct snp_server *server, const char *reason);
    void (*tier_gone)(struct snp_server *server);
};

struct snp_server_options {
    const char *socket_path; /* borrowed */
    bool is_socket_given;    /* another program made it, and it stays */
    const char *state_dir;   /* borrowed */
    const char *home;        /* the user's home folder, links resolved; NULL = none; borrowed */
    uint64_t idle_ms;
    uint64_t session_idle_ms; /* named sessions hibernate when idle this long */
    uint64_t checkpoint_after_ms;
    uint64_t tier_ms;         /* a tier that does not answer in this time is killed */
    uint64_t snapshots_max;   /* of one session, in memory */
    uint64_t snapshots_bytes; /* that these may hold exclusively; 0 = half the session's memory */
    uint64_t live_max;        /* named sessions with an executor */
    uint64_t live_bytes;      /* of memory for these */
    uint64_t budget_bytes;    /* of the state folder; 0 = no limit */
    const char *store_key;    /* path of the key that the journal is sealed with; or NULL */
};

struct snp_server {
    uv_loop_t loop;
    const struct snp_hooks *hooks; /* of static duration */
    struct snp_server_options options;
    int listen_fd; /* owned; -1 once closed */
    uv_poll_t listener;
    uv_fs_event_t folder;       /* of the socket: detects its removal */
    struct snp_file_id socket;  /* identity of the socket when made */
    struct snp_file_id program; /* identity of the program we run */
    uv_timer_t ticker;          /* idleness; runs a few times per idle time */
    uv_timer_t end_timer;
    uv_timer_t checkpoints; /* the next one due */
    uv_timer_t waits;       /* of waiting cells, to tell their clients */
    uv_timer_t intents;     /* of running cells without an intent */
    uv_signal_t sigterm;
    uv_signal_t sigint;
    struct snp_peer *peers[SNP_CAP_CLIENTS]; /* owned; NULL = free slot */
    unsigned n_peers;
    struct snp_sessions sessions;
    struct snp_executors executors;
    struct snp_store *store;   /* the journal; NULL once it is closed */
    uint64_t outputs_bytes;    /* for full outputs that each tier keeps */
    bool is_recovered;         /* its sessions are in the table */
    uint64_t sessions_lost_us; /* when records were lost with a damaged journal; 0 = never */
    bool is_recovering;
    struct snp_spill_waiter *spill_waiters; /* borrowed */
    struct snp_import *imports;             /* begun by clients; owned */
    unsigned n_saving;                      /* checkpoints being made */
    unsigned n_measuring; /* sessions whose memory is being requested from their tier */
    json_t *end_lost;     /* owned: the report for the request to end; or NULL */
    json_t *end_unsaved;  /* owned: of these, the sessions that were not saved */
    unsigned n_proving;   /* checkpoints being tried (prove.h) */
    unsigned n_wanting;   /* sessions that wait for room to wake */
    uint64_t room_turns;  /* the last number given to these (room.h) */
    struct snp_tiers tiers;
    unsigned n_tiers;             /* still held by the loop, the above included */
    struct snp_request *shutdown; /* owned; the request to end, or NULL */
    uint64_t started_us;
    uint64_t busy_us; /* when there last was a client or a session */
    void (*settled)(struct snp_server *server, bool is_saved); /* settle.c's; or NULL */
    unsigned n_settling;                                       /* sessions still being saved */
    uint64_t settle_us; /* monotonic: earliest time for an automatic end */
    bool is_ending;
    bool end_awaits_room; /* waits for sessions that a full disk keeps from being saved */
    bool has_ended_tiers; /* sessions are saved, or the time limit is over */
    unsigned n_end_saves; /* sessions still being saved for the end */
    uint64_t end_us;      /* monotonic: when it began */
};

#endif
