/* template.h - templates, from which sandboxes start, and their table in memory.
 *
 * Owns:     every struct template.
 * Needs:    the store, which must stay open as long as the table is used.
 * Blocks:   templates_new() reads the store; the rest never.
 * Threads:  the loop's.
 */
#ifndef TEMPLATE_TEMPLATE_H
#define TEMPLATE_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "serve/store/store.h"

struct template
{
    char *id;
    char *alias;   /* NULL: has none */
    char *team_id; /* NULL: built in */
    char *build_id;
    char *layers; /* topmost first, separated by ','; "": not built yet */
    char *user;
    char *workdir;
    char *env_json;
    uint32_t cpu_count, memory_mb, disk_mb;
    int64_t created_ms;
    bool is_public;
    char *start_cmd;      /* run at the start of a sandbox; NULL: none */
    char *ready_cmd;      /* succeeds once the start command is up; NULL: none */
    char *start_context;  /* {user, workdir, env} of both as JSON, when they are from a base with
                             another one; NULL: the template's own */
    char *saved;          /* the save of a jail in which both have been run: see keeper.h */
    uint64_t saved_bytes; /* of its memory, on disk */
    uint64_t saved_disk_bytes; /* of a snapshot's files */
    char *snapshot_of;         /* it is a snapshot of that sandbox; NULL: a template */
    uint32_t spawns;           /* sandboxes made of it since the daemon's start */
    int64_t last_spawned_ms;   /* 0: none since then */
};

#define TEMPLATE_BASE "base" /* the one that clients get who name none */

struct templates;

/* Reads the table back from the store. */
must_check int templates_new(struct store *store, struct templates **out, struct err *err);
void templates_free(struct templates *templates);

struct template_builtin { /* borrowed during the call */
    const char *alias;
    const char *layers;
    const char *user, *workdir, *env_json; /* NULL: "user", "", "{}" */
    const char *start_cmd, *ready_cmd;     /* NULL: none */
    uint32_t cpu_count, memory_mb, disk_mb;
};

/* Adds a built-in template, or updates it: other layers or other commands make it a new build,
 * which has no save yet. */
void templates_put_builtin(struct templates *templates, const struct template_builtin *what);

/* Sets the save of a jail of that build, and the bytes of its memory on the disk; NULL: it has no
 * save any more. done is called when it is stored, and creates use it from then on. -ESTALE: the
 * build no longer exists. */
void templates_set_save(struct templates *templates, const char *id, const char *build_id,
                        const char *saved, uint64_t bytes, store_done *done, void *ctx);

/* A built-in template that is still being made, and its progress in a sentence; NULL: it is not
 * awaited any more. */
void templates_await(struct templates *templates, const char *alias, const char *sentence);

/* The progress of an awaited template of that name, or NULL. */
const char *templates_awaited(const struct templates *templates, struct str name);

/* A team's name is the namespace of its templates: "name/alias". Teams in the store are known
 * already; this is for teams that were made since. */
void templates_name_team(struct templates *templates, const char *team_id, const char *name);

/* By id, alias, alias:tag, or any of these behind a team's name and '/'. The id of a build that a
 * tag names is as good as the tag. NULL with the reason in
 * *why (never NULL): -ENOENT; -EACCES, it is another team's; -ENODATA, there is one, but not with
 * that tag; -EINVAL, no template can have such a name. The pointer is good until the loop runs on.
 */
const struct template *templates_find(struct templates *templates, const char *team_id,
                                      struct str name, int *why);

/* The same, built or not and with any tag: for callers that show or change it. */
const struct template *templates_lookup(struct templates *templates, const char *team_id,
                                        struct str name, int *why);
const struct template *templates_by_id(struct templates *templates, const char *id);
/* The build that a tag of a template names; NULL: it has no such tag. */
const struct template *templates_tagged(struct templates *templates, const char *id,
                                        const char *tag);

/* The namespace of a team; NULL when its name cannot be one, and for built-in templates. */
const char *templates_space(const struct templates *templates, const char *team_id);

/* ---- changes: `done` (may be NULL) is called when they are stored ---- */

/* A template that is not built yet. The team must have none of that alias (NULL: without one). */
const struct template *templates_add(struct templates *templates, const char *team_id,
                                     const char *alias, uint32_t cpu_count, uint32_t memory_mb,
                                     uint32_t disk_mb, store_done *done, void *ctx);
void templates_set_public(struct templates *templates, const char *id, bool is_public,
                          store_done *done, void *ctx);

/* Makes the tag name that build. The row of the build must have been stored before. */
void templates_tag(struct templates *templates, const struct build_row *build, const char *tag,
                   store_done *done, void *ctx);
/* -ENODATA: it has no such tag, and done is not called. */
must_check int templates_untag(struct templates *templates, const char *id, const char *tag,
                               store_done *done, void *ctx);
void templates_each_tag(struct templates *templates, const char *id,
                        void (*each)(void *ctx, const char *tag, const struct template *t,
                                     int64_t created_ms),
                        void *ctx);

/* The team's own of that alias, or NULL. */
const struct template *templates_own(struct templates *templates, const char *team_id,
                                     const char *alias);

/* The row of the build that a snapshot is. Borrows from both. */
struct build_row template_snapshot_build(const struct template *snapshot, const char *tag);

/* Adds a snapshot under that tag; `snapshot` is copied. Its id is new, or that of a template of the
 * team whose tag then names this snapshot. `done` is called when it is stored; it is not found
 * before. */
void templates_put_snapshot(struct templates *templates, const struct template *snapshot,
                            const char *tag, store_done *done, void *ctx);

/* Not found from this moment on, and back if that cannot be stored. */
void templates_remove(struct templates *templates, const char *id, store_done *done, void *ctx);

/* A sandbox was made of it. */
void templates_spawned(struct templates *templates, const char *id, int64_t now_ms);

/* The templates that the team may use: its own, built-in and public ones. A NULL team: all. */
void templates_each(struct templates *templates, const char *team_id,
                    void (*each)(void *ctx, const struct template *t), void *ctx);
/* Visits the templates of every team, with each of their tags: everything that sandboxes can start
 * from. */
void templates_each_built(struct templates *templates,
                          void (*each)(void *ctx, const struct template *t), void *ctx);
size_t templates_count(const struct templates *templates);

#endif
