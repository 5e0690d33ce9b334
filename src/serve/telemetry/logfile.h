/* logfile.h - the log lines of one sandbox on disk: two files, the newer growing, the older whole.
 *
 * Owns:     <dir>/<id>.log and <dir>/<id>.old. When the first has reached LOGFILE_BYTES_MAX / 2 it
 *           becomes the second, and the second is forgotten.
 * Blocks:   for the disk.
 * Threads:  any, one at a time for a sandbox.
 *
 * A file begins with "atoll-log 1 <team> <generation>"; every line after it is a record:
 * "<milliseconds> <seq> <level> <JSON>". Times never go backwards within a sandbox. A record that a
 * crash cut short is removed before the next is written, and is not read before that.
 */
#ifndef TELEMETRY_LOGFILE_H
#define TELEMETRY_LOGFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/id.h"
#include "lib/base/log.h"

#define LOGFILE_HEAD_WORDS "atoll-log 1 "

enum {
    LOGFILE_BYTES_MAX = 8 * 1024 * 1024, /* of one sandbox */
    LOGFILE_RECORD_BYTES_MAX = 5 * 1024, /* with its numbers and its newline */
    LOGFILE_SEARCH_BYTES_MAX = 256,
};

struct logfile { /* which one */
    int dir_fd;  /* borrowed */
    char id[ID_SANDBOX_LEN + 1];
    char team[ID_UUID_LEN + 1];
};

/* Adds whole records, made by logfile_record(). */
must_check int logfile_append(const struct logfile *file, struct str records, struct err *err);

/* Appends a record to *out. The line must be JSON without a line break. */
must_check int logfile_record(struct buf *out, int64_t wall_ms, uint32_t seq, enum log_level level,
                              struct str line);

/* The numbers of the last record; 0 and 0 when there is none. */
void logfile_last(const struct logfile *file, uint32_t *seq, int64_t *wall_ms);

/* ---- reading ---- */

/* Behind the last record of an earlier read. All zero: at the start. */
struct logfile_position {
    uint64_t generation;
    uint64_t offset;
};

struct logfile_query {
    int64_t from_ms, to_ms; /* both included */
    enum log_level least;
    char search[LOGFILE_SEARCH_BYTES_MAX + 1]; /* in the message; "": any */
    size_t limit;
    bool backward; /* newest first */
    struct logfile_position after;
};

struct logfile_entry {
    int64_t wall_ms;
    enum log_level level;
    struct str line; /* JSON */
};

struct logfile_page {
    struct logfile_entry *entries; /* in the order asked for */
    size_t n;
    struct logfile_position end; /* forward: behind the last entry looked at */
    struct buf text;             /* holds the lines */
};

/* -ENOENT when there is none of that team. */
must_check int logfile_read(const struct logfile *file, const struct logfile_query *query,
                            struct logfile_page *out, struct err *err);
void logfile_page_fini(struct logfile_page *page);

/* Removes files that were last written before before_ms; then, until no more than `bytes` remain,
 * the oldest file of the team that has most. */
void logfile_sweep(int dir_fd, int64_t before_ms, uint64_t bytes);

#endif
