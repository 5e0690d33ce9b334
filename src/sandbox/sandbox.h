/* sandbox.h - sandboxes: the table in memory and the state machine of each.
 *
 * Owns:     every struct sandbox, its pidfd, its channel to the agent, its timer.
 * Needs:    a loop, the store, the keeper's client, the templates.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 *      create ──► STARTING ──► RUNNING ──────────────► KILLING ──► (gone)
 *                    │            │ timeout, request,      ▲
 *                    └── failed ──┴─ jail died, adoption failed
 *
 * STARTING is visible to nobody: create answers when the agent has its configuration. A KILLING
 * sandbox is not found any more: its streams were reset when it got there. The state is saved with
 * every change; the kernel has the last word, so at start every saved sandbox is attached again
 * through the keeper, and what cannot be is recorded as killed, with the reason. PAUSED joins here
 * with the memory issue; the table and the lists carry it already.
 *
 * A pointer to a struct sandbox is good until the callback it came in returns, or as long as a
 * watch on it is set.
 */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "keeper/client.h"
#include "store/store.h"
#include "template/template.h"

enum {
    SANDBOX_TIMEOUT_S_DEFAULT = 15,
    SANDBOX_TIMEOUT_S_MAX = 24 * 3600,
    SANDBOX_TOKEN_BYTES = 33,
    SANDBOX_PIDS = 4096,
    SANDBOX_START_TIMEOUT_MS = 10 * 1000, /* the agent must have answered /init by then */
    SANDBOX_KEEPER_WAIT_MS = 2000,        /* of a create: a keeper started again is back by then */
};

/* What the agent says it is: gates features in the SDKs, so plain semver. */
#define SANDBOX_ENVD_VERSION "0.6.13"

enum sandbox_state { SANDBOX_STARTING, SANDBOX_RUNNING, SANDBOX_PAUSED, SANDBOX_KILLING };

struct sandboxes;
struct sandbox;

struct sandboxes_options {
    uv_loop_t *loop;
    struct store *store;
    struct keeper_client *keeper;
    struct templates *templates;
    const char *instance; /* as keeper_options'; NULL: the only daemon of this machine */
};

/* Loads the table. Adoption runs once the keeper is connected; `ready` is called when every saved
 * sandbox is either attached or recorded as gone, and everything the keeper lists that we do not
 * know has been destroyed. Until then creates wait, but not for long when there is no keeper. */
must_check int sandboxes_new(const struct sandboxes_options *options, void (*ready)(void *ctx),
                             void *ctx, struct sandboxes **out, struct err *err);

/* Leaves the jails running. Their channels close; a later daemon adopts them. A create under way is
 * told -EAGAIN here. */
void sandboxes_free(struct sandboxes *all);

/* The wiring tells it: on_state of the keeper's client. A keeper that came back is used again. */
void sandboxes_keeper_changed(struct sandboxes *all, bool connected);

/* ---- create, find, end ---- */

struct sandbox_params { /* borrowed during the call */
    const char *team_id;
    const struct template *template;
    int64_t timeout_ms;
    bool secure;
    const json_t *metadata; /* object of strings, or NULL; likewise */
    const json_t *env_vars;
    const json_t *options; /* the rest of the body that is stored: network, autoPause, ... */
};

/* sb is NULL on failure, and err says why. error is -EAGAIN when the keeper is away or the daemon
 * is stopping, -ENOSPC when a limit of this machine is reached, -EIO otherwise. */
typedef void sandbox_created(void *ctx, struct sandbox *sb, int error, const struct err *err);
void sandbox_create(struct sandboxes *all, const struct sandbox_params *params,
                    sandbox_created *done, void *ctx);

/* RUNNING and PAUSED ones only. */
struct sandbox *sandboxes_find(struct sandboxes *all, struct str id);

/* The sandbox is gone from the table when this returns, its watches have been called, and the jail
 * dies at once; `done` (may be NULL) comes when that is on record. */
void sandbox_kill(struct sandbox *sb, const char *reason, void (*done)(void *ctx), void *ctx);

/* End of life as a wall-clock time; `only_extend` leaves a later one as it is. 0 or -errno. */
void sandbox_set_end(struct sandbox *sb, int64_t end_ms, bool only_extend);

/* ---- what one is ---- */

struct sandbox_info {
    const char *id, *team_id, *access_token; /* token NULL when not secure */
    const char *template_id, *template_alias;
    enum sandbox_state state;
    int64_t started_ms, end_ms, created_ms;
    uint32_t cpu_count, memory_mb, disk_mb;
    const json_t *metadata, *env_vars, *options; /* objects, never NULL */
};
struct sandbox_info sandbox_info(const struct sandbox *sb);

/* Newest first, by (created_ms, id). `after` continues behind that position; NULL: from the start.
 * Calls each until it returns false. Costs what is visited, not what exists. */
struct sandbox_position {
    int64_t created_ms;
    char id[ID_SANDBOX_LEN + 1];
};
void sandboxes_each(struct sandboxes *all, bool ascending, const struct sandbox_position *after,
                    bool (*each)(void *ctx, struct sandbox *sb), void *ctx);

struct sandboxes_figures {
    uint32_t running, starting;
};
struct sandboxes_figures sandboxes_figures(const struct sandboxes *all);

/* ---- traffic ---- */

/* A connected stream socket to a port inside; 49983 is the agent. fd_or_error: a descriptor that
 * done owns, or -ECONNREFUSED (nobody listens), -ETIMEDOUT, -EAGAIN (too many wait already),
 * -ENOTCONN (the sandbox ended). done may come before this returns. */
void sandbox_dial(struct sandbox *sb, uint16_t port, void (*done)(void *ctx, int fd_or_error),
                  void *ctx);

/* Calls gone, once, when the sandbox leaves RUNNING. The watch is then unset already. */
struct sandbox_watch {
    struct sandbox_watch *prev, *next;
    struct sandbox *sandbox; /* NULL: not set */
    void (*gone)(struct sandbox_watch *watch);
};
void sandbox_watch_set(struct sandbox_watch *watch, struct sandbox *sb);
void sandbox_watch_unset(struct sandbox_watch *watch); /* fine when not set */

#endif
