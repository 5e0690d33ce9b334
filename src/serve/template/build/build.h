/* build.h - builds of templates: requests, running builds, results.
 *
 * Owns:     every build, its jail and its log; the cache of steps; uploaded files.
 * Needs:    a loop, the store, the keeper's client, the templates, the sandboxes.
 * Blocks:   builds_new() reads the store and a directory; the rest never.
 * Threads:  the loop's; files are written on libuv's.
 *
 *      request ─► WAITING ─► start ─► BUILDING: queue ─► base ─► steps ─► finalize ─► READY
 *                    │                    └───────────────┴───────┴──────────┴──────► ERROR
 *                    └── nobody started it for a day ────────────────────────────────►
 *
 * A build runs in one jail of the same kind as sandboxes. After each step the keeper saves that
 * jail's disk under a name that follows from the chain of hashes up to there, so the next build
 * with the same beginning goes on from the last step they share. The result is a single layer on
 * top of the base's layers, however many steps it took.
 *
 * Every build ends. A build that was under way when the daemon died is in error, with that reason;
 * its jail is destroyed, and its last cached step stays in the cache.
 */
#ifndef BUILD_BUILD_H
#define BUILD_BUILD_H

#include <jansson.h>

#include "lib/base/err.h"
#include "lib/base/id.h"
#include "lib/base/str.h"
#include "lib/base/trace.h"
#include "serve/keeper/client.h"
#include "serve/sandbox/sandbox.h"
#include "serve/store/store.h"
#include "serve/template/image/image.h"
#include "serve/template/template.h"

enum {
    BUILD_CPU_MAX = 32,
    BUILD_CPU_DEFAULT = 2,
    BUILD_MEMORY_MB_MIN = 128,
    BUILD_MEMORY_MB_MAX = 64 * 1024,
    BUILD_MEMORY_MB_DEFAULT = 1024,
    BUILD_DISK_MB = 10 * 1024,
    BUILD_TAGS_MAX = 32, /* of one build */
    BUILD_RUNNING_DEFAULT = 4,
    BUILD_QUEUE_MAX = 1000,
};

enum build_state { BUILD_WAITING, BUILD_BUILDING, BUILD_READY, BUILD_ERROR };

struct builds;

struct builds_options {
    uv_loop_t *loop;
    struct store *store;
    struct keeper_client *keeper;
    struct templates *templates;
    struct sandboxes *sandboxes;
    const char *files;          /* directory of uploaded files; made when it is not there */
    struct image_options image; /* its loop is ours */
    uint32_t running_max;       /* builds at one time; the others queue */
    int64_t step_limit_ms;      /* of the command of one step */
    int64_t ready_limit_ms;     /* of the start and ready commands together */
    struct tracer tracer;       /* takes the steps of builds */
};

must_check int builds_new(const struct builds_options *options, struct builds **out,
                          struct err *err);
/* Ends the builds under way; the next daemon records them as such. */
void builds_free(struct builds *builds);

/* The wiring tells it: on_state of the keeper's client. */
void builds_keeper_changed(struct builds *builds, bool connected);

/* ---- builds ---- */

struct build_info {
    const char *id, *template_id;
    const char *team_id; /* its template's; NULL: built in, or that is gone */
    bool under_way;      /* it runs, or waits for its turn */
    enum build_state state;
    const char *reason; /* of an error: {"message", "step"} as JSON; else NULL */
    int64_t created_ms, started_ms, finished_ms;
    uint32_t cpu_count, memory_mb, disk_mb;
    /* The size of its layer and of its saved running state; 0: gone, or none yet. */
    uint64_t bytes;
    uint32_t position; /* in the queue, from 1 on; 0: it runs, or does not wait for that */
};
const char *build_state_name(enum build_state state);

struct build_size {
    uint32_t cpu_count, memory_mb, disk_mb; /* of its sandboxes */
};

/* A build of a template that exists. Takes the tags (separated by ',') when it is ready. The id is
 * drawn here; `done` comes when it is on record. */
void build_request(struct builds *builds, const struct template *template, const char *tags,
                   const struct build_size *size, char id[ID_UUID_LEN + 1], store_done *done,
                   void *ctx);

/* Starts it, or queues it. -ENOENT; -EBUSY: it is not waiting; -EAGAIN: the queue is full; -EINVAL
 * with the sentence for the client. Builds of the same template that would take one of the same
 * tags are cancelled. */
must_check int build_start(struct builds *builds, const char *template_id, const char *id,
                           const json_t *body, struct err *err);

/* The build that is started next is part of that trace. */
void build_trace(struct builds *builds, const char *template_id, const char *id,
                 const struct trace_place *place);

/* Ends it in error with that reason. -ENOENT; -EBUSY: it has ended already. */
must_check int build_cancel(struct builds *builds, const char *template_id, const char *id,
                            const char *reason);

bool build_find(struct builds *builds, const char *template_id, const char *id,
                struct build_info *out);
/* Visits the builds of a template (NULL: of all), newest first, until `each` returns false. */
void builds_each(struct builds *builds, const char *template_id,
                 bool (*each)(void *ctx, const struct build_info *info), void *ctx);

/* A snapshot is on record as a build of a template. */
void builds_add_snapshot(struct builds *builds, const struct build_row *row);

/* Gives a tag to what another names, or to a build by its id. -ENODATA: not built. */
must_check int build_tag(struct builds *builds, const char *template_id, const char *build_id,
                         const char *tag, store_done *done, void *ctx);

/* The template is being deleted: cancels its builds and forgets them. Layers that others were built
 * on stay. */
void builds_drop(struct builds *builds, const char *template_id);

/* ---- uploaded files (files.c) ---- */

enum { BUILD_HASH_LEN = 64, BUILD_TOKEN_LEN = 64 };
#define BUILD_FILE_BYTES_MAX ((int64_t)64 << 30)

/* Whether the team has uploaded files of that hash. */
bool build_files_present(struct builds *builds, const char *team_id, const char *hash);

/* The token that an upload must carry: valid for that team and hash while this daemon runs. */
void build_files_token(const struct builds *builds, const char *template_id, const char *hash,
                       char out[BUILD_TOKEN_LEN + 1]);
bool build_files_token_ok(const struct builds *builds, const char *template_id, const char *hash,
                          struct str token);

struct upload;

/* An upload in pieces: each build_upload_write() is answered by `took`, and the next may come only
 * after that. build_upload_end() is answered by `done`: 0, or -errno and the sentence. */
struct upload_handler {
    void (*took)(void *ctx, int error, const struct err *err);
    void (*done)(void *ctx, int error, const struct err *err); /* the upload is dead afterwards */
};
struct upload *build_upload_new(struct builds *builds, const char *team_id, const char *hash,
                                const struct upload_handler *handler, void *ctx);
void build_upload_write(struct upload *upload, const void *data, size_t len);
void build_upload_end(struct upload *upload);
void build_upload_abort(
    struct upload *upload); /* nothing is called any more; what came is removed */

/* ---- room ---- */

struct builds_pruned {
    uint32_t layers, files;
    uint64_t bytes;
};
/* Removes cached steps, images and uploads that nothing has used since, and no template, sandbox or
 * build needs. */
struct builds_pruned builds_prune(struct builds *builds, int64_t unused_since_ms);

struct builds_figures {
    uint32_t running, queued;
    uint64_t ready, failed; /* since the start */
    uint32_t steps;         /* cached */
    uint64_t steps_bytes, files_bytes;
};
struct builds_figures builds_figures(const struct builds *builds);

#endif
