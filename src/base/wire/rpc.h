/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_RPC_H
#define SNP_BASE_WIRE_RPC_H

/* Frame types and constants of the three protocols in docs/wire.md. */

enum {
    /* client <-> daemon and daemon <-> tier */
    SNP_RPC_REQUEST = 1,
    SNP_RPC_RESPONSE = 2,
    SNP_RPC_ERROR = 3,
    SNP_RPC_EVENT = 4,

    /* supervisor -> driver */
    SNP_GUEST_CELL = 16,
    SNP_GUEST_START = 17,
    SNP_GUEST_SEED = 18,
    SNP_GUEST_WARM = 19,
    SNP_GUEST_HOLD = 20,
    SNP_GUEST_SAVE = 21,
    SNP_GUEST_LOAD = 22,
    SNP_GUEST_ANSWER = 23,

    /* driver -> supervisor */
    SNP_GUEST_READY = 32,
    SNP_GUEST_DISPLAY = 33,
    SNP_GUEST_DENIAL = 34,
    SNP_GUEST_DONE = 35,
    SNP_GUEST_HELD = 36,
    SNP_GUEST_SAVED = 37,
    SNP_GUEST_LOADED = 38,
    SNP_GUEST_CALL = 39,
};

enum {
    SNP_RPC_VERSION = 1,
    SNP_GUEST_BODY_MAX = 12 << 20, /* one frame from a guest */
    SNP_CALL_BYTES_MAX = 4 << 20,  /* of a call from inside, and of its answer */
    SNP_FILE_CHUNK_MAX = 1 << 20,  /* raw bytes of one put or get */
    SNP_KNOWN_MAX = 1 << 20,       /* bytes of the keys sent with a save */
    SNP_CAP_ARGV = 1024,           /* strings of one command */
    SNP_CAP_PATH = 4095,           /* bytes of a path inside */
    SNP_CAP_HANDLE = 128,          /* bytes of an output handle */
    SNP_CAP_FORKS = 64,            /* sessions made by one call */
    SNP_CAP_REF = 129,             /* bytes of SESSION@NAME */
    SNP_CAP_HASH = 64,             /* hex digits of SHA-256 */
    SNP_CAP_ROWS = 1000,           /* cells of one page of a history */
};

#endif
