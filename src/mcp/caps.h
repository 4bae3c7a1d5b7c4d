/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_CAPS_H
#define SNP_MCP_CAPS_H

/* Limits of sizes and times in this layer, for others and itself. */

enum {
    SNP_MCP_CALLS_MAX = 64,           /* begun requests of one client; more wait */
    SNP_MCP_WAITING_MAX = 1024,       /* waiting requests of all clients */
    SNP_MCP_WAITING_BYTES = 64 << 20, /* of their messages */
    SNP_MCP_BATCH_MAX = 32,           /* messages of one batch */
    SNP_MCP_RUNNING_MAX = 24,         /* tasks in sessions, of a client and of a connection */
    SNP_MCP_CONNECTIONS = 8,          /* to the daemon, which takes 32 requests of each */
    SNP_MCP_ASKS_MAX = 16,            /* pending requests of ours to one client */

    SNP_MCP_PROGRESS_MS = 1000, /* between two notifications of progress */
    SNP_MCP_END_MS = 700,       /* for calls in flight when standard input ends */
    SNP_MCP_FLUSH_MS = 200,     /* to flush output when we exit */

    SNP_MCP_TEXT_MAX = 10000,        /* characters of a result's text */
    SNP_MCP_CODE_MAX = 15 << 20,     /* bytes of code, command and contents of one call */
    SNP_MCP_TIMEOUT_S = 600,         /* the longest timeout of one call */
    SNP_MCP_IMAGE_MAX = 5 << 20,     /* bytes of an image shown to a model */
    SNP_MCP_RESOURCE_MAX = 4 << 20,  /* bytes of one resource read */
    SNP_MCP_KEPT_MAX = 32 << 20,     /* bytes of outputs and displays kept for later reading */
    SNP_MCP_FORKS_MAX = 16,          /* sessions that one call makes */
    SNP_MCP_JOBS_MAX = 32,           /* jobs in the background, ended ones included */
    SNP_MCP_JOBS_RUNNING_MAX = 16,   /* running ones, so that calls have room too */
    SNP_MCP_AGENTS_MAX = 4,          /* concurrent runs of agents */
    SNP_MCP_AGENT_BEGIN_MS = 15000,  /* for a run's record to begin */
    SNP_MCP_AGENT_TOKENS = 10000000, /* the largest budget that a client may set */
    SNP_MCP_WAIT_S = 60,             /* the longest wait for an agent or a job */
    SNP_MCP_WAIT_LOOK_MS = 50,       /* poll interval of such a wait */
    SNP_MCP_SESSION_ID_MAX = 512,    /* bytes of a session_id, and of a key */
    SNP_MCP_NAMES_MAX = 1024,        /* session_ids, and sessions with keys, remembered */
    SNP_MCP_KEYS_MAX = 64,           /* keys of one session */
    SNP_MCP_ENTRIES_MAX = 500,       /* entries of a listed folder */

    SNP_MCP_HTTPD_HEAD_MAX = 32 << 10,   /* bytes of a request's line and headers, about */
    SNP_MCP_HTTP_CONNECTIONS_MAX = 512,  /* of all clients */
    SNP_MCP_HTTP_CONNECTIONS_GOOD = 384, /* above it, an idle one is closed for a new one */
    SNP_MCP_HTTP_STREAMS_MAX = 512,      /* requests in flight, and resumable streams */
    SNP_MCP_HTTP_BODIES_MAX = 128 << 20, /* bytes of all messages being received */
    SNP_MCP_HTTP_SESSIONS_MAX = 256,     /* Mcp-Session-Ids remembered */
    SNP_MCP_HTTP_FIRST_MS = 15 * 1000,   /* for a connection's first request to begin */
    /* between two requests, and for a client to read pending output */
    SNP_MCP_HTTP_IDLE_MS = 75 * 1000,
    SNP_MCP_HTTP_READ_MS = 30 * 1000,   /* to receive a request, plus a second for each */
    SNP_MCP_HTTP_READ_BYTES = 64 << 10, /* of these */
    SNP_MCP_HTTP_LOOK_MS = 50,          /* poll interval for client presence, while calls run */
    SNP_MCP_HTTP_OPEN_MS = 1000,        /* a call that takes longer is answered with a stream */
    SNP_MCP_HTTP_ALIVE_MS = 15 * 1000,  /* between two signs of life on a stream */
    SNP_MCP_HTTP_PENDING_MAX = 256
                               << 10,   /* bytes pending for a client before progress is dropped */
    SNP_MCP_HTTP_ANSWER_MAX = 32 << 20, /* bytes of one answer */
    SNP_MCP_HTTP_KEEP_MS = 300 * 1000,  /* for a stream without its client */
    SNP_MCP_HTTP_KEEP_SENT_MS = 10 * 1000, /* for a stream sent completely */
    SNP_MCP_HTTP_KEEP_BYTES = 64 << 20,    /* bytes of both */
};

#endif
