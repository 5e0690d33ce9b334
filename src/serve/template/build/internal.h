/* internal.h - shared by the files of build/.
 *
 *   builds.c    the table of builds, their rows
 *   queue.c     which one runs next
 *   work.c      one build under way: from its base to its end
 *   inside.c    its jail, when it is needed, and scripts of ours in there
 *   base.c      what it begins with
 *   step.c      one step
 *   finalize.c  the last touches, the start command, the layer that is kept
 *   jail.c      an internal sandbox to do it in
 *   output.c    the log, and what commands write into it
 *   cache.c     cached steps, what the keeper has saved, and what of it may go
 *   files.c     uploaded archives
 *   spec.c, chain.c, words.c   the pure parts
 *
 * Lifetime: a work is counted (work_hold, work_release): once by its build while it is under way,
 * and once by each question to the keeper, the store or a jail that cannot be taken back. A
 * callback that finds its work ended only gives its count back, and what it was brought.
 */
#ifndef BUILD_INTERNAL_H
#define BUILD_INTERNAL_H

#include "lib/base/shares.h"
#include "lib/base/table.h"
#include "serve/sandbox/run.h"
#include "serve/sandbox/start_command.h"
#include "serve/template/build/build.h"
#include "serve/template/build/spec.h"
#include "serve/template/build/stand_in.h"
#include "serve/template/image/feed.h"

enum {
    BUILD_SCRIPT_TIMEOUT_MS = 300 * 1000, /* of what we run ourselves between steps */
    BUILD_SCRIPT_OUT_BYTES_MAX = 16 * 1024,
    BUILD_SETTLE_MS = 20 * 1000,              /* a start command without a ready command */
    BUILD_OUTPUT_BYTES_MAX = 4 * 1024 * 1024, /* kept of one step's output; the rest is dropped */
    BUILD_LINE_BYTES_MAX = 4096,
    BUILD_LINE_COST_BYTES = 64, /* of that, for each line: an empty one is a row in the store too */
    BUILD_WAITING_MAX_MS = 24 * 3600 * 1000, /* asked for and never started */
    BUILD_SWEEP_EVERY_MS = 20 * 1000,
    BUILD_REASON_BYTES = 1024,
    BUILD_PIDS = 4096,
};
/* Cached steps, images and uploads that were not used for this long are removed. */
static const int64_t BUILD_KEEP_MS = (int64_t)14 * 24 * 3600 * 1000;
/* Builds that failed or were replaced are remembered so long. */
static const int64_t BUILD_HISTORY_MS = (int64_t)7 * 24 * 3600 * 1000;

#define BUILD_SAVED_STEP KEEPER_SAVED_BUILT "s"
#define BUILD_SAVED_FINAL KEEPER_SAVED_BUILT "f"
#define BUILD_SAVED_WARM KEEPER_SAVED_BUILT "w"  /* a jail in which the start command runs */
#define BUILD_SAVED_IMAGE KEEPER_SAVED_BUILT "i" /* made by image/ */

struct work;
struct disk;
struct cached;
struct files;

struct build {
    struct builds *all;
    UT_hash_handle hh;
    char id[ID_UUID_LEN + 1];
    char *template_id, *tags, *reason;
    enum build_state state;
    int64_t created_ms, started_ms, finished_ms;
    uint32_t cpu_count, memory_mb, disk_mb;
    char *snapshot_of; /* as of its row */
    char *layers, *user, *workdir, *env_json, *start_cmd, *ready_cmd, *start_context, *saved;
    uint64_t bytes;
    uint64_t saved_bytes;
    struct work *work;        /* under way, or queued */
    struct trace_place trace; /* of the call that started it */
};

struct builds {
    struct builds_options use;
    struct build *by_id; /* oldest first */
    struct work *queue;  /* in the order of the asking */
    struct work *at_work;
    uint32_t running;
    struct image_jails jails;
    struct image_store *images;
    struct cached *cached; /* by key */
    struct disk *saved;    /* by name: what the keeper has */
    bool disks_known;      /* the list has been read since the keeper came */
    struct files *files;
    uv_timer_t sweep;
    uint32_t refs;
    bool closed;
    uint64_t ready, failed;
};

void builds_hold(struct builds *all);
void builds_release(struct builds *all);

/* ---- queue.c ---- */

enum { BUILD_SPARE_PLACES = 1 }; /* besides running_max, for a team that has no build running */

void builds_next(struct builds *all); /* runs what is queued, as far as there is room */
uint32_t queue_length(const struct builds *all);
void queue_add(struct work *work);
void queue_remove(struct work *work);             /* also when it is running: it has ended */
uint32_t queue_position(const struct work *work); /* 0: it is not queued; NULL is not */
/* -EAGAIN and the sentence when there is no room for one more of that team. */
must_check int queue_check(const struct builds *all, const char *team_id, struct err *err);

/* ---- builds.c ---- */

struct build_row build_row(const struct build *build); /* borrows from build */
void build_record(struct build *build, store_done *done, void *ctx);
/* Ends the build with an error, once the error and the log before it are on record. The reason is
 * JSON. */
void build_end(struct build *build, const char *reason);
const char *build_team(const struct build *build); /* its template's; NULL: that is gone */

/* ---- jail.c ---- */

struct jail;

struct jail_plan { /* borrowed during the call */
    const char *team_id;
    const char *layers;
    const char *from; /* NULL or "": an empty disk */
    uint32_t cpu_count, memory_mb, disk_mb;
    bool network;
};

/* done comes once, from the loop. jail NULL: err says why. */
void jail_open(struct builds *all, const struct jail_plan *plan,
               void (*done)(void *arg, struct jail *jail, const struct err *err), void *arg);
struct sandbox *jail_sandbox(struct jail *jail); /* NULL: it has ended by itself */
/* done comes once, also after jail_close(). */
void jail_save(struct jail *jail, const char *name, uint32_t flags,
               void (*done)(void *arg, int error, const struct err *err), void *arg);
/* The bytes that its disk holds; 0 when that is unknown. */
void jail_usage(struct jail *jail, void (*done)(void *arg, uint64_t disk_bytes), void *arg);
void jail_close(struct jail *jail); /* accepts NULL */
struct image_jails jail_images(struct builds *all);

/* ---- work.c ---- */

struct context { /* state that a step passes on besides the disk */
    char *user;
    char *workdir; /* "": the user's home */
    json_t *env;
};

struct lines { /* output of a command, until it is a whole line */
    struct buf part;
    bool cut;
};

struct work {
    struct work *prev, *next; /* in the queue, or at work */
    struct builds *all;
    struct build *build; /* NULL: it has ended */
    uint32_t refs;
    bool queued;
    struct spec *spec;
    char team_id[ID_UUID_LEN + 1];

    char *layers;                      /* of the base: below whatever is built */
    char base[SHA256_HEX_LEN + 128];   /* names the base in the chain and in the log */
    char node[STAND_IN_VERSION_BYTES]; /* the version to add to a stand-in; "": none */
    struct context context;
    char *start_cmd, *ready_cmd; /* inherited, until the spec's own take their place */
    char *start_context;         /* of these, as a template's */

    size_t step;                       /* index; steps_n: finalize */
    const char *phase;                 /* "base", "finalize"; NULL: a step */
    bool forced;                       /* this step and all that follow are run */
    char key[SHA256_HEX_LEN + 1];      /* of what `from` holds */
    char next_key[SHA256_HEX_LEN + 1]; /* of the step under way */
    char from[KEEPER_SAVED_BYTES];     /* the disk so far; "": as the base left it */

    struct jail *jail; /* with `from` on its disk, and nothing of a failed step */
    void (*opened)(struct work *work);
    void (*scripted)(struct work *work, const char *out); /* of a script of ours */
    struct image_resolve *resolve;
    struct run *run;
    struct feed *feed;
    struct start_command *command;
    struct buf script_out;
    struct lines out, errout;
    size_t output_bytes; /* of this step */
    bool output_cut;
    char prefix[48]; /* "builder 1/3": before what commands write */

    struct trace_place trace; /* the build's own span */
    uint8_t trace_parent[TRACE_SPAN_BYTES];
    int64_t begun_us, step_us; /* when it began, and when its last step was over */
};

/* The step that has that name is over. */
void work_mark(struct work *work, const char *name);
void work_traced(const struct work *work, const char *error);

/* spec is taken over. */
struct work *work_new(struct build *build, struct spec *spec);
void work_hold(struct work *work);
void work_release(struct work *work);
void work_begin(struct work *work); /* from the queue */
/* Ends the build in error; the step is the one under way. */
void work_fail(struct work *work, const char *fmt, ...) printf_like(2, 3);
void work_done(struct work *work); /* the build has all it needs: READY once on record */
void work_stop(struct work *work); /* takes back all that is under way; the build is not told */

/* ---- inside.c ---- */

/* Calls next with work->jail there. */
void work_with_jail(struct work *work, void (*next)(struct work *work));

/* Runs a script of ours as root with arguments $1...; next gets what it wrote to stdout. A failure
 * fails the build: "WHAT: ...". */
void work_script(struct work *work, const char *what, const char *script, const char *const *args,
                 void (*next)(struct work *work, const char *out));

/* ---- base.c, step.c, finalize.c ---- */

void base_begin(struct work *work);
void steps_next(struct work *work); /* goes on behind what is done */
void finalize_begin(struct work *work);

/* ---- output.c ---- */

void build_say(struct build *build, enum log_level level, const char *step, const char *fmt, ...)
    printf_like(4, 5);
void work_say(struct work *work, enum log_level level, const char *fmt, ...) printf_like(3, 4);
/* "base", "finalize" or the number of the step, for the log and for the reason. */
void work_step_name(const struct work *work, char out[24]);
void output_begin(struct work *work, const char *prefix);
void output_add(struct work *work, bool is_stderr, struct str data);
void output_end(struct work *work); /* text without a final newline is a line too */

/* ---- cache.c ---- */

struct cached {
    UT_hash_handle hh;
    char key[SHA256_HEX_LEN + 16];
    char team_id[ID_UUID_LEN + 1];
    char saved[KEEPER_SAVED_BYTES];
    char *user, *workdir, *env_json;
    uint64_t bytes;
    int64_t created_ms, used_ms;
};

must_check int cache_load(struct builds *all, struct err *err);
void cache_free(struct builds *all);
/* NULL: not cached, or its disk is gone. Marks it as used. */
const struct cached *cache_find(struct builds *all, const char *key);
/* Caches that save as the result of the work's next step; "": the step did not change the disk. */
void cache_put(struct work *work, const char *saved, uint64_t bytes);

/* The names of the saves that builds keep. */
void disk_name_step(const char *key, char out[KEEPER_SAVED_BYTES]);
void disk_name_build(const struct build *build, const char *prefix, char out[KEEPER_SAVED_BYTES]);

bool disk_has(const struct builds *all, const char *name);
void disk_add(struct builds *all, const char *name); /* or marks it as used */
void disk_forget(struct builds *all, const char *name);
void disk_list(struct builds *all); /* asks the keeper; then sweeps */
void sweep(struct builds *all, int64_t unused_since_ms, struct builds_pruned *out);

/* ---- files.c ---- */

must_check int files_open(struct builds *all, const char *path, struct err *err);
void files_close(struct builds *all);
/* A descriptor of the archive, or -ENOENT, -errno. Marks it as used. */
int files_get(struct builds *all, const char *team_id, const char *hash);
void files_sweep(struct builds *all, int64_t unused_since_ms, struct builds_pruned *out);
uint64_t files_bytes(const struct builds *all);

#endif
