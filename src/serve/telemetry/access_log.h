/* access_log.h - a line of JSON for every request, in a file.
 *
 * Owns:     the file, a buffer, and a thread that writes.
 * Needs:    nothing.
 * Blocks:   access_log_open() and access_log_close(), for the disk; the rest never.
 * Threads:  the loop's; the writer's thread has the file.
 *
 * While the buffer is full (the disk is slow or full) lines are dropped and counted. The file is
 * opened for appending, so it may be truncated at any time; and when its name leads to another file
 * or to none, it is opened again: both ways of logrotate work without a signal. */
#ifndef TELEMETRY_ACCESS_LOG_H
#define TELEMETRY_ACCESS_LOG_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/http/note.h"

enum {
    ACCESS_LOG_BUFFER_BYTES = 1024 * 1024,
    ACCESS_LOG_LOOK_MS = 1000,  /* between two looks at the file's name */
    ACCESS_LOG_TEXT_BYTES = 256 /* of a path or a user agent: the rest is cut */
};

struct access_log;

/* "-": standard output. */
must_check int access_log_open(const char *path, struct access_log **out, struct err *err);
void access_log_close(struct access_log *log); /* writes what has come; NULL is fine */

struct access_entry {
    const struct http_request *req;
    const struct http_note *note;
    const struct http_carried *carried;
    int64_t begun_ms; /* of the wall clock */
    int64_t took_us;
};
void access_log_put(struct access_log *log, const struct access_entry *entry);

uint64_t access_log_lines(const struct access_log *log);
uint64_t access_log_dropped(struct access_log *log);

/* A path without its long or secret parts, which become "*". Pure. */
void access_log_path(struct str path, char out[ACCESS_LOG_TEXT_BYTES]);

/* The line of an entry with its newline, to be freed. Pure. */
char *access_log_line(const struct access_entry *entry);

#endif
