/* travel.h - the messages on the socket that KEEPER_EXPORT and KEEPER_IMPORT answer with.
 *
 * The socket is a SOCK_SEQPACKET one. A message is a kind (uint32_t) and a body of at most
 * TRAVEL_BODY_BYTES_MAX. The keeper believes neither side of it: the bytes of a file are sealed
 * with a key that the daemon does not have (docs/internals/travel.md).
 *
 *   export:  daemon sends META; the keeper sends BYTES... and END
 *   import:  daemon sends BYTES... and EOF; the keeper sends META and END, or END at any time
 *
 * A socket that closes without an END: the keeper or its task died.
 */
#ifndef WIRE_TRAVEL_H
#define WIRE_TRAVEL_H

#include <stdint.h>

#include "lib/base/err.h"
#include "wire/keeper.h"

enum {
    TRAVEL_META_BYTES_MAX = 60 * 1024, /* what the daemon must know of a snapshot, as JSON */
    TRAVEL_BODY_BYTES_MAX = 64 * 1024 + 256,
    TRAVEL_STALL_MS = 60 * 1000, /* the keeper gives up a peer that neither sends nor takes */
    TRAVEL_TASKS_MAX = 2,        /* exports and imports at one time */
};

enum travel_kind {
    TRAVEL_META = 1,
    TRAVEL_BYTES = 2, /* of the file */
    TRAVEL_EOF = 3,   /* all bytes have been sent */
    TRAVEL_END = 4,   /* the outcome: a struct travel_end */
};

struct travel_end {
    int32_t status; /* 0 or -errno */
    uint32_t reserved;
    char name[KEEPER_SAVED_BYTES]; /* of an import: of the save */
    uint64_t memory_bytes;         /* of an import: of its images, on disk */
    uint64_t disk_bytes;           /* likewise: of its files */
    struct err err;                /* the sentence, when status is negative */
};

#endif
