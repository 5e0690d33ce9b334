/* journal.h - the agent's log lines for the sandbox's log, one JSON object per line.
 *
 * Owns:     the lines that are not on record outside yet, at most JOURNAL_BYTES_MAX of them: beyond
 *           that the oldest are dropped and counted. Takes no memory while there are none.
 * Blocks:   never.
 * Threads:  the loop's. There is one journal per process, like log.h.
 *
 * Lines are numbered from 1. A reader (the channel) is told when there is something to send. It
 * takes lines one by one and drops them when they are on record, so a new daemon continues where
 * the old one stopped.
 */
#ifndef AGENT_JOURNAL_H
#define AGENT_JOURNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

enum {
    JOURNAL_BYTES_MAX = 64 * 1024,
    JOURNAL_TEXT_BYTES_MAX = 512, /* of one field: six times that when all of it is escaped */
};

/* {"level":…,"logger":…,"event_type":…,"message":…} and the fields, which it takes over; they may
 * be NULL. A line that is too long for the channel loses its fields. */
void journal_write(enum log_level level, const char *logger, const char *event, json_t *fields,
                   const char *fmt, ...) printf_like(5, 6);

/* Adds a field of text, cut to JOURNAL_TEXT_BYTES_MAX and repaired where it is not UTF-8. */
void journal_text(json_t *fields, const char *name, struct str text);

/* ---- for the channel ---- */

struct journal_line {
    uint32_t seq;
    uint32_t lost; /* dropped before this one, and not told yet */
    int64_t wall_ms;
    enum log_level level;
    struct str text; /* valid until the journal is next touched */
};

/* Sets the function that is called when a line was added; NULL: none. */
void journal_listen(void (*added)(void *ctx), void *ctx);

/* The first line behind seq; false when there is none. */
bool journal_next(uint32_t seq, struct journal_line *out);
void journal_told_lost(void); /* the reader has passed `lost` on */

/* All up to seq are on record. */
void journal_forget(uint32_t seq);

/* The lines there are, and those to come, are numbered from seq + 1 on. */
void journal_number(uint32_t seq);

#endif
