/* destinations.h - where a sandbox has been, and where it was refused: one entry for each target,
 * verdict and rule.
 *
 * Names are the sandbox's word, so letters that no host name has are replaced. The oldest entry
 * goes when there are too many.
 *
 * Owns:     the entries. All of it is counted: a sandbox keeps the list over its pauses, and a
 *           connection keeps its entry while it copies.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef EGRESS_DESTINATIONS_H
#define EGRESS_DESTINATIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "serve/egress/address.h"

enum {
    DESTINATIONS_MAX = 256,
    DESTINATION_NAMES_MAX = 256, /* addresses whose names are known */
    DESTINATION_HOST_BYTES = 256,
    DESTINATION_RULE_BYTES = 128,
};

enum destination_verdict { DESTINATION_REACHED, DESTINATION_REFUSED, DESTINATION_FAILED };

struct destinations;

struct destination {
    uint64_t count, bytes_out, bytes_in;
    int64_t first_ms, last_ms; /* wall clock */
};

struct destination_seen {
    enum destination_verdict verdict;
    const struct endpoint *to; /* NULL: a name alone */
    bool no_address;           /* the address stands for the name; the port counts */
    struct str host;           /* "": that of its address, as the sandbox was told by DNS */
    const char *rule;          /* why; "": nothing to say */
};

struct destinations *destinations_new(void);
struct destinations *destinations_hold(struct destinations *all);
void destinations_release(struct destinations *all); /* NULL is fine */

/* Counts one more. The entry is valid until the next call, or as long as it is held. */
struct destination *destinations_note(struct destinations *all, const struct destination_seen *seen,
                                      int64_t now_ms);
struct destination *destination_hold(struct destination *one);
void destination_release(struct destination *one); /* NULL is fine */

/* The sandbox was told that the name has this address. */
void destinations_name(struct destinations *all, const struct address *address, const char *name);

/* {"connections": [...], "dropped"}: the newest first; dropped: entries that are gone. */
json_t *destinations_json(const struct destinations *all);

#endif
