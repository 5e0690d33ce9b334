/* internal.h - one call of the API, from its head to its answer.
 *
 * api.c finds the route, auth.c who asks, then the body is gathered and parsed and the route's
 * handler is called. The handler answers with exactly one of the call_* below, at once or later;
 * that ends the call. A client that leaves in between changes nothing for the handler: call_gone()
 * tells, and the answer goes nowhere.
 */
#ifndef API_INTERNAL_H
#define API_INTERNAL_H

#include <jansson.h>

#include "api/api.h"
#include "api/fields.h"
#include "base/encode.h"
#include "base/histogram.h"
#include "base/id.h"
#include "base/table.h"

enum {
    API_BODY_BYTES_MAX = 64 * 1024,
    API_CREATE_BODY_BYTES_MAX = 1024 * 1024,
    API_BUILD_BODY_BYTES_MAX = 8 * 1024 * 1024, /* steps may carry scripts */
    API_PARAM_BYTES = 512,                      /* a piece of a path, decoded, and its NUL */
    API_MESSAGE_BYTES = 768,                    /* of an error, and its NUL: longer ones are cut */
    API_HEADERS_MAX = 4,                        /* that a handler adds */
    API_HEADER_BYTES = 112,
    API_RETRY_AFTER_S = 1, /* what a client is told to wait when the keeper is away */

    KEY_HEX_LEN = 40,
    KEY_TEXT_LEN = 4 + KEY_HEX_LEN, /* with "e2b_" */
    KEY_MASK_BYTES = 32,
    KEY_NAME_BYTES_MAX = 256,
    KEYS_PER_TEAM_MAX = 1000,
    KEY_USED_SAVE_MS = 60 * 1000, /* "last used" is written down at most that often */
};

#define KEY_PREFIX "e2b_"

struct team {
    char id[ID_UUID_LEN + 1];
    char *name;
    struct team *next;
};

struct key {
    char id[ID_UUID_LEN + 1];
    char hash[SHA256_HEX_LEN + 1];
    char masked[KEY_MASK_BYTES];
    char *name;
    const struct team *team;
    int64_t created_ms;
    int64_t last_used_ms;  /* 0: never */
    int64_t used_saved_ms; /* what of that is on disk */
    UT_hash_handle hh;     /* by hash */
};

struct create; /* create.c */

struct api {
    struct api_options options;
    struct team *teams; /* oldest first; never removed */
    struct key *keys;
    struct create *creates; /* under way, of those that carry an Idempotency-Key */
    char *default_key_path; /* NULL until api_prepare_default_key() */
    bool renewing;          /* a new default key is on its way to the disk */
    int64_t started_mono_ms;
    struct route_figures *figures; /* for each route, and one for what is none */
    size_t calls;                  /* under way: the last one of a closed API frees it */
    bool closed;
};

struct call;

enum body_kind { BODY_NONE, BODY_OPTIONAL, BODY_REQUIRED };

/* Where a request comes from opens nothing: a browser on this machine comes from here as well. */
enum access {
    ACCESS_KEY,
    ACCESS_OPEN,   /* without a key, or with a token of the route's own */
    ACCESS_PROBE,  /* without a key, for programs: no page may read it */
    ACCESS_SCRAPE, /* with a key, for programs: no page may read it */
};

/* How often a route was called and how long it took. */
struct route_figures {
    uint64_t by_status[6]; /* 2 is 2xx */
    struct histogram latency;
};

struct route {
    const char *method;
    const char *path; /* "{}" stands for one segment, at most twice */
    void (*handle)(struct call *call, const json_t *body);
    enum body_kind body;
    enum access access;
    /* Answers in its own way, when this call wants that: true, and the exchange and the call are
     * its own. NULL: never. */
    bool (*stream)(struct call *call);
};

struct call {
    struct api *api;
    struct http_exchange *ex; /* NULL once the client has left */
    const struct route *route;
    const struct team *team;     /* who asks; NULL on an open route */
    const char *absent;          /* what handle_absent() says is not there */
    char param[API_PARAM_BYTES]; /* what the last "{}" of the route stands for */
    char first[API_PARAM_BYTES]; /* what the first does, where there are two */
    struct {
        const char *name;
        char value[API_HEADER_BYTES];
    } headers[API_HEADERS_MAX];
    size_t headers_n;
    int64_t begun_us;
    bool permanent; /* asking again is of no use */
    int refused;    /* status of a refusal that waits for the body to be out of the way; 0: none */
    char refusal[API_MESSAGE_BYTES];
};

void api_release(struct api *api); /* a call has ended */

/* Counts an answer (figures.c). */
void figures_note(struct call *call, int status);
size_t routes_count(void); /* api.c */
const struct route *route_at(size_t i);

/* ---- answering (answer.c); each frees the call ---- */

void call_json(struct call *call, int status, json_t *body); /* steals body */
void call_text(struct call *call, int status, const char *type, struct str text);
void call_empty(struct call *call, int status);

/* What is answered when a change is on record: call_due() of the store's done, with this as its
 * ctx. The reply is taken over; NULL: none. */
void *call_later(struct call *call, int status, json_t *reply);
void call_due(void *ctx, int error, const struct err *err);
void call_fail(struct call *call, int status, const char *fmt, ...) printf_like(3, 4);

/* As call_fail(), with a word for programs beside the sentence. */
/* The refusal that follows is final: clients are told not to repeat the call. */
void call_permanent(struct call *call);
void call_fail_code(struct call *call, int status, const char *error_code, const char *message);

/* The status comes from error: the one table of errors.c. */
void call_fail_err(struct call *call, int error, const struct err *err);

/* Without an answer: there is nobody to give one to. */
void call_free(struct call *call);

/* Before the answer. The name must be static. */
void call_header(struct call *call, const char *name, const char *value);

static inline bool call_gone(const struct call *call)
{
    return !call->ex;
}

int status_of(int error); /* errors.c */

/* A pattern as struct route's; the segments that the first and the last "{}" stood for. (api.c) */
struct path_params {
    struct str first, last;
};
bool path_match(const char *pattern, struct str path, struct path_params *params);

/* What the request asks for, if it is something that is not there yet; NULL otherwise. (absent.c)
 */
const char *absent_find(const struct http_request *req);

/* CORS (cors.c): what every answer carries, and what a preflight is told. */
extern const struct http_header cors_headers[];
extern const size_t cors_headers_n;
void cors_preflight(struct http_exchange *ex);

/* ---- who asks (auth.c) and the table behind it (accounts.c) ---- */

/* The key's own text in the request, or a str with at == NULL. */
struct str auth_key_text(const struct http_request *req);

/* 0 with *out, or -EACCES with the sentence. */
must_check int auth_check(struct api *api, const struct http_request *req, const struct team **out,
                          struct err *err);

must_check int accounts_load(struct api *api, struct err *err); /* accounts_load.c */
void accounts_free(struct api *api);
struct team *accounts_add_team(struct api *api, const char *id, const char *name);
struct key *accounts_find_text(struct api *api, struct str key_text);
struct key *accounts_find_id(struct api *api, const struct team *team, const char *id);
size_t accounts_count(struct api *api, const struct team *team);

void accounts_add(struct api *api, struct key *key);
void accounts_remove(struct api *api, struct key *key);

/* One key (key.c). A fresh one is known to nobody yet: accounts_add() makes it work. */
struct key *key_new(const struct team *team, const char *name, char text[KEY_TEXT_LEN + 1]);
struct key *key_from_row(const struct team *team, const struct key_row *row); /* NULL: damaged */
struct key_row key_row(const struct key *key);                                /* borrows from key */
void key_free(struct key *key);

/* Makes a new default key when the one in the file does not work any more; then `done`, perhaps at
 * once. The file's own few bytes are written on the loop's thread. In default_key.c. */
void default_key_keep(struct api *api, store_done *done, void *ctx);

/* ---- sandboxes as JSON (sandbox_json.c) ---- */

json_t *sandbox_json_created(const struct api *api, const struct sandbox *sb);
json_t *sandbox_json_listed(const struct sandbox *sb);
json_t *sandbox_json_detail(const struct api *api, const struct sandbox *sb);
json_t *stamp_json(int64_t wall_ms);

/* "<id>", or the older "<id>-<client id>". False when no sandbox can have that id. */
bool sandbox_id_cut(const char *text, struct str *id);

/* The sandbox that the call's path names, if it is the team's. Otherwise answers, and NULL. */
struct sandbox *call_sandbox(struct call *call);

/* The team's own template of that name, whatever its tag. Otherwise answers, and NULL. */
const struct template *call_own_template(struct call *call, const char *name);

/* Its names, with the namespace and without. (templates.c) */
json_t *template_json(const struct api *api, const struct template *t); /* of GET /templates */
json_t *template_names(const struct api *api, const struct template *t);
json_t *template_aliases(const struct template *t);
/* The same, if it runs; otherwise answers with that status. */
struct sandbox *call_running(struct call *call, int status);

/* May the team have so many more that run? Those that start count: none of many creates at once may
 * pass the limit. Otherwise answers. (create.c) */
bool call_has_room(struct call *call, uint32_t more);

/* 204, or the failure; ctx is the call. (sandboxes.c) */
void call_recorded(void *ctx, int error, const struct err *err);

/* No sandbox lives longer than the limit, however often it is extended. (sandboxes.c) */
int64_t call_end_ms(const struct call *call, const struct sandbox *sb, int64_t seconds);

/* "template '...' not found" and its like, for what templates_find() said. */
void call_fail_template(struct call *call, int why, struct str name);

/* Completes volumeMounts of a create's options: names become ids. -EINVAL with a sentence that says
 * which are wrong. (volumes.c) */
must_check int volumes_resolve(const struct call *call, json_t *options, struct err *err);

/* Whether the team has the shells that a create's options name. (shells.c) */
must_check int shells_resolve(const struct call *call, const json_t *options, struct err *err);

/* The array that the store has read, or its failure; ctx is the call (events.c). */
void call_array(void *ctx, int error, const struct err *err, const char *text);

/* ---- handlers ---- */

void handle_events(struct call *call, const json_t *body);
void handle_events_of(struct call *call, const json_t *body);
void handle_webhooks_list(struct call *call, const json_t *body);
void handle_webhooks_create(struct call *call, const json_t *body);
void handle_webhooks_get(struct call *call, const json_t *body);
void handle_webhooks_change(struct call *call, const json_t *body);
void handle_webhooks_delete(struct call *call, const json_t *body);
void handle_webhooks_test(struct call *call, const json_t *body);
void handle_webhooks_deliveries(struct call *call, const json_t *body);

void handle_secrets_list(struct call *call, const json_t *body);
void handle_secrets_create(struct call *call, const json_t *body);
void handle_secrets_get(struct call *call, const json_t *body);
void handle_secrets_update(struct call *call, const json_t *body);
void handle_secrets_delete(struct call *call, const json_t *body);
void handle_shells_list(struct call *call, const json_t *body);
void handle_shells_get(struct call *call, const json_t *body);
void handle_shells_put(struct call *call, const json_t *body);
void handle_shells_delete(struct call *call, const json_t *body);
void handle_identity_configuration(struct call *call, const json_t *body);
void handle_identity_keys(struct call *call, const json_t *body);

void handle_create_v1(struct call *call, const json_t *body);
void handle_create_v2(struct call *call, const json_t *body);
void handle_list_v1(struct call *call, const json_t *body);
void handle_list_v2(struct call *call, const json_t *body);
void handle_get(struct call *call, const json_t *body);
void handle_kill(struct call *call, const json_t *body);
void handle_timeout(struct call *call, const json_t *body);
void handle_refresh(struct call *call, const json_t *body);
void handle_network(struct call *call, const json_t *body);
void handle_pause(struct call *call, const json_t *body);
void handle_resume(struct call *call, const json_t *body);
void handle_fork(struct call *call, const json_t *body);
void handle_snapshot(struct call *call, const json_t *body);
void handle_snapshots(struct call *call, const json_t *body);
void handle_connect_v1(struct call *call, const json_t *body);
void handle_connect_v2(struct call *call, const json_t *body);
void handle_teams(struct call *call, const json_t *body);
void handle_keys_list(struct call *call, const json_t *body);
void handle_keys_create(struct call *call, const json_t *body);
void handle_keys_rename(struct call *call, const json_t *body);
void handle_keys_delete(struct call *call, const json_t *body);
void handle_templates(struct call *call, const json_t *body);
void handle_templates_v2(struct call *call, const json_t *body);
void handle_template(struct call *call, const json_t *body);
void handle_template_change(struct call *call, const json_t *body);
void handle_template_delete(struct call *call, const json_t *body);
void handle_template_prune(struct call *call, const json_t *body);
void handle_build_v2(struct call *call, const json_t *body);
void handle_build_v3(struct call *call, const json_t *body);
void handle_build_start(struct call *call, const json_t *body);
void handle_build_cancel(struct call *call, const json_t *body);
void handle_build_status(struct call *call, const json_t *body);
void handle_build_logs(struct call *call, const json_t *body);
void handle_files(struct call *call, const json_t *body);
void handle_upload(struct call *call, const json_t *body);
/* Charges a call that had no key to the team that its token is of; false, and the refusal is set:
 * the team has its share. Inside `stream`. */
bool call_charge(struct call *call, const char *team_id);
bool stream_upload(struct call *call);
void handle_tags(struct call *call, const json_t *body);
void handle_tags_assign(struct call *call, const json_t *body);
void handle_tags_count(struct call *call, const json_t *body);
void handle_tags_exists(struct call *call, const json_t *body);
void handle_tags_groups(struct call *call, const json_t *body);
void handle_tags_assignments(struct call *call, const json_t *body);
void handle_default_templates(struct call *call, const json_t *body);
void handle_tags_remove(struct call *call, const json_t *body);
void handle_alias(struct call *call, const json_t *body);
void handle_absent(struct call *call, const json_t *body);
void handle_health(struct call *call, const json_t *body);
void handle_metrics(struct call *call, const json_t *body);
void handle_metrics_many(struct call *call, const json_t *body);
void handle_metrics_team(struct call *call, const json_t *body);
void handle_metrics_team_max(struct call *call, const json_t *body);
void handle_logs_v1(struct call *call, const json_t *body);
void handle_logs_v2(struct call *call, const json_t *body);
bool stream_logs(struct call *call); /* what follows the log */
void handle_volumes_list(struct call *call, const json_t *body);
void handle_volumes_create(struct call *call, const json_t *body);
void handle_volumes_get(struct call *call, const json_t *body);
void handle_volumes_delete(struct call *call, const json_t *body);
bool stream_volume(struct call *call); /* /volumecontent, whole */
void handle_figures(struct call *call, const json_t *body);

#endif
