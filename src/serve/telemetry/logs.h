/* logs.h - the log lines of agents: taken, kept, read, followed.
 *
 * Owns:     a directory of log files (logfile.h), and what is on its way there.
 * Needs:    a loop. Its sink goes to sandboxes_new().
 * Blocks:   logs_new(), for the disk; the rest never: files are the thread pool's.
 * Threads:  the loop's.
 *
 * An agent sends as many lines as it was given credit for, and keeps each until it is on record
 * here; so a daemon that dies loses none that the agent still holds, and an agent that was taken
 * over can fill neither memory nor disk: lines are of limited size, under way in limited number,
 * and a sandbox's file is of limited length. Lines stay LOGS_KEPT_MS, or until all of them together
 * pass LOGS_BYTES_MAX, when those written longest ago go first.
 */
#ifndef TELEMETRY_LOGS_H
#define TELEMETRY_LOGS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "lib/base/err.h"
#include "serve/sandbox/sandbox.h"
#include "serve/telemetry/logfile.h"

#define LOGS_BYTES_MAX (UINT64_C(2) << 30)

enum {
    LOGS_KEPT_MS = 7 * 24 * 3600 * 1000,
    LOGS_OWN_BYTES = 256 * 1024,
    LOGS_SWEEP_MS = 3600 * 1000,
    LOGS_ANSWER_BYTES_MAX = 32 * 1024 * 1024,
};

struct logs;

must_check int logs_new(uv_loop_t *loop, const char *path, struct logs **out, struct err *err);

/* Writes what has come. Blocks until that is done and every read has been answered; the loop must
 * run once more afterwards. NULL is fine. */
void logs_free(struct logs *logs);

/* For sandboxes_options. */
struct sandbox_log_sink logs_sink(struct logs *logs);

/* A line of the daemon's own about a sandbox that runs: a JSON object without line ends. More than
 * LOGS_OWN_BYTES of them on their way to the disk are lost, and counted. */
void logs_put(struct logs *logs, const char *sandbox_id, enum log_level level, struct str line);

/* Puts a page into words, on a thread of the pool: touches nothing but its arguments. */
typedef int logs_render(const struct logfile_page *page, struct buf *out);

/* -ENOENT when there are no lines of that team's sandbox; an empty page is no error. `end` is where
 * to go on reading. The text is valid during the call. */
typedef void logs_read_done(void *ctx, int error, const struct err *err, struct str text,
                            struct logfile_position end);

/* done comes from the loop, after all that had come from the agent before this call is on record.
 */
void logs_read(struct logs *logs, struct str sandbox_id, const char *team_id,
               const struct logfile_query *query, logs_render *render, logs_read_done *done,
               void *ctx);

/* Calls more when there are new lines on record, or when there will be no more (`ended`). */
struct logs_watch {
    struct logs_watch *prev, *next;
    struct log_stream *stream; /* NULL: not set */
    bool ended;
    void (*more)(struct logs_watch *watch);
};
/* `ended` at once when the sandbox does not run. */
void logs_watch_set(struct logs *logs, struct logs_watch *watch, struct sandbox *sb);
void logs_watch_unset(struct logs_watch *watch); /* fine when not set */

struct logs_figures {
    uint64_t lines;   /* on record since the start */
    uint64_t lost;    /* dropped by agents, or not written */
    uint64_t refused; /* of agents that sent no JSON */
};
struct logs_figures logs_figures(const struct logs *logs);

#endif
