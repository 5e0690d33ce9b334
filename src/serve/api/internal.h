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

#include "lib/base/encode.h"
#include "lib/base/histogram.h"
#include "lib/base/id.h"
#include "lib/base/table.h"
#include "lib/http/cors.h"
#include "lib/http/note.h"
#include "lib/http/status.h"
#include "serve/api/api.h"
#include "serve/api/fields.h"
#include "serve/api/limits.h"
#include "serve/api/routes.h"

enum {
    API_PARAM_BYTES = 512,   /* a piece of a path, decoded, and its NUL */
    API_MESSAGE_BYTES = 768, /* of an error, and its NUL: longer ones are cut */
    API_HEADERS_MAX = 4,     /* that a handler adds */
    API_HEADER_BYTES = 192,
    EVENTS_FOLLOW_BYTES_MAX = 6 * 1024 * 1024, /* a page of the store */
    API_RETRY_AFTER_S = 1,                     /* for clients, while the keeper is away */

    KEY_HEX_LEN = 40,
    KEY_TEXT_LEN = 4 + KEY_HEX_LEN, /* with "e2b_" */
    KEY_MASK_BYTES = 32,
    KEY_FILE_BYTES = 128, /* a key, its newline and a NUL */
    KEY_NAME_BYTES_MAX = 256,
    KEYS_PER_TEAM_MAX = 1000,
    KEY_USED_SAVE_MS = 60 * 1000, /* "last used" is written down at most that often */

    AUDIT_OBJECT_BYTES = 128, /* of an id or a name in the audit log, and its NUL */
    AUDIT_SOURCE_BYTES = 64,
    AUDIT_SENTENCE_BYTES = 384,
    AUDIT_SESSION_BYTES = 13, /* of a session's name, and its NUL */
    AUDIT_DAYS_DEFAULT = 90,
};

#define KEY_PREFIX "e2b_"
#define TOKEN_PREFIX "sk_" KEY_PREFIX /* of an access token: the same key, spelled otherwise */

struct team {
    char id[ID_UUID_LEN + 1];
    char *name;
    int64_t created_ms;
    struct limits limits;
    struct usage_sums { /* since the daemon's start, as far as they are on record */
        uint64_t sandbox_ms, cpu_ms, memory_mb_ms, builds;
    } recorded;
    uint64_t builds;     /* begun since the daemon's start */
    uint64_t audit_rows; /* likewise, of calls */
    uint32_t refused;    /* calls on record, in the second that began then */
    int64_t refused_since_ms;
    struct team *next;
};

struct key {
    char id[ID_UUID_LEN + 1];
    char hash[SHA256_HEX_LEN + 1];
    char masked[KEY_MASK_BYTES];
    char *name;
    const struct team *team;
    bool is_token;  /* an access token: listed nowhere */
    bool read_only; /* it may look, and change nothing */
    struct limits limits;
    int64_t created_ms;
    int64_t last_used_ms;  /* 0: never */
    int64_t used_saved_ms; /* the value on disk */
    UT_hash_handle hh;     /* by hash */
    UT_hash_handle hh_id;
};

struct admin_key {
    char id[ID_UUID_LEN + 1];
    char hash[SHA256_HEX_LEN + 1];
    char masked[KEY_MASK_BYTES];
    char *name;
    int64_t created_ms, last_used_ms;
    int64_t used_saved_ms;
    bool passing; /* of this daemon's life alone: on no record */
    UT_hash_handle hh;
};

struct session;
struct sessions;
struct web;

struct maker;      /* makers.c */
struct quota_hold; /* quota.c */

struct create; /* create.c */

struct audit {        /* audit.c */
    int64_t last;     /* the number of the newest row */
    uint64_t rows;    /* of no team, since the daemon's start */
    uint64_t changes; /* rows that began or ended, likewise */
    uint64_t dropped; /* refused calls that were too many to be written down */
};

struct api {
    struct api_options options;
    struct team *teams; /* oldest first; never removed */
    struct key *keys;   /* by hash */
    struct key *keys_by_id;
    struct admin_key *admin_keys;
    struct maker *makers;
    struct sessions *sessions; /* of the dashboard */
    struct web *web;           /* its files; NULL: none */
    struct quota_hold *holds;
    bool draining;             /* no new sandboxes: the operator said so */
    int64_t status_changed_ms; /* of that */
    uv_timer_t usage_timer;
    int64_t usage_ms;                   /* monotonic: until then usage is on record */
    struct create *creates;             /* under way, of those that carry an Idempotency-Key */
    char *default_key_path;             /* NULL until api_prepare_default_key() */
    struct event_stream *event_streams; /* open (events_follow.c) */
    struct audit_stream *audit_streams; /* open (audit_list.c) */
    bool renewing;                      /* a new default key is on its way to the disk */
    int64_t started_mono_ms;
    struct route_figures *figures; /* for each route, and one for what is none */
    struct audit audit;
    size_t calls; /* under way: the last one of a closed API frees it */
    bool closed;
};

/* How often a route was called and how long it took. */
struct route_figures {
    uint64_t by_status[6]; /* 2 is 2xx */
    struct histogram latency;
};

struct call {
    struct api *api;
    struct http_exchange *ex; /* NULL once the client has left */
    const struct route *route;
    const struct team *team;       /* the caller; NULL on a route that anybody or the admin calls */
    const struct volume *volume;   /* the volume of the token; NULL: none */
    char key_id[ID_UUID_LEN + 1];  /* with which key; "": none, or the admin's */
    const struct admin_key *admin; /* the admin's, while the head is checked */
    bool read_only;                /* that key may change nothing */
    bool by_session;               /* it came from the dashboard, with a cookie for the key */
    bool internal;                 /* it came by the internal socket */
    char param[API_PARAM_BYTES];   /* the segment of the last "{}" of the route */
    char first[API_PARAM_BYTES];   /* the segment of the first, where there are two */
    struct {
        const char *name;
        char value[API_HEADER_BYTES];
    } headers[API_HEADERS_MAX];
    size_t headers_n;
    int64_t begun_us;
    struct trace_place trace; /* steps of the call are reported under it */
    bool permanent;           /* asking again is of no use */
    int refused; /* status of a refusal that waits for the body to be out of the way; 0: none */
    char refusal[API_MESSAGE_BYTES];
    int64_t audit_seq; /* of its row in the audit log that has no outcome yet; 0: none */
    char object[AUDIT_OBJECT_BYTES];
    char audit_error[AUDIT_SENTENCE_BYTES];
    json_t *made; /* ids of new objects, besides the object; NULL: none */
};

void api_release(struct api *api); /* a call has ended */

/* Counts an answer (figures.c). */
void figures_note(struct call *call, int status);

/* ---- answering (answer.c); each frees the call ---- */

void call_json(struct call *call, int status, json_t *body); /* steals body */
void call_text(struct call *call, int status, const char *type, struct str text);
void call_empty(struct call *call, int status);

/* The answer to give once a change is on record: pass call_due() as the store's done, with this as
 * its ctx. Takes the reply over; NULL: none. */
void *call_later(struct call *call, int status, json_t *reply);
void call_due(void *ctx, int error, const struct err *err);
void call_fail(struct call *call, int status, const char *fmt, ...) printf_like(3, 4);

/* As call_fail(), with a word for programs beside the sentence. */
/* The refusal that follows is final: clients are told not to repeat the call. */
void call_permanent(struct call *call);
void call_fail_code(struct call *call, int status, const char *error_code, const char *message);

/* The status comes from error: the table of lib/http/status.c. An error of ours (500) is logged. */
void call_fail_err(struct call *call, int error, const struct err *err);

/* The same without the log: serve/sandbox has logged the error, with the sandbox's id. */
void call_fail_logged(struct call *call, int error, const struct err *err);

/* Before the body is there: it is answered so once the body is out of the way. */
void call_refuse(struct call *call, int status, const char *message);

/* Frees the call without an answer: nobody is left to receive it. */
void call_free(struct call *call);

/* Before the answer. The name must be static. */
void call_header(struct call *call, const char *name, const char *value);

static inline bool call_gone(const struct call *call)
{
    return !call->ex;
}

/* A pattern as struct route's; the segments that the first and the last "{}" stood for. (api.c) */
struct path_params {
    struct str first, last;
};
bool path_match(const char *pattern, struct str path, struct path_params *params);

/* ---- authentication (auth.c) and the table of accounts (accounts.c) ---- */

/* The key's own text in the request, or a str with at == NULL. */
struct str auth_key_text(const struct http_request *req);

/* Checks what the route's `access` column asks for and leaves who asks in the call. -EACCES (401)
 * or -EPERM (403) with the sentence. */
must_check int call_authenticate(struct call *call, struct err *err);

/* The team of the token in an upload's address, or NULL. (template_files.c) */
const struct team *upload_team(const struct call *call);

/* The key of the request, or of the dashboard's session that it carries. 0 with *out; -EACCES (401)
 * or -EPERM (403: a cookie without the session's own token) with the sentence. */
must_check int auth_check(struct api *api, const struct http_request *req, struct key **out,
                          struct err *err);

/* The same for the text of a key: -EACCES with the sentence. */
must_check int auth_check_text(struct api *api, struct str text, struct key **out, struct err *err);

/* The session of the dashboard's cookie, whose token the request must carry in X-Atoll-CSRF, and
 * its key. -ENOENT without a sentence: there is no cookie. -EACCES, -EPERM as above. */
must_check int auth_session(struct api *api, const struct http_request *req, struct session **out,
                            struct key **key, struct err *err);
/* The same for a page that cannot send a header, by its Origin. (sessions.c) */
must_check int auth_page(struct api *api, const struct http_request *req, struct key **key,
                         struct err *err);
/* The key that a session stands for. NULL: it was deleted, and the session is ended. */
struct key *session_key(struct api *api, struct session *session);

must_check int accounts_load(struct api *api, struct err *err); /* accounts_load.c */
void accounts_free(struct api *api);
struct team *accounts_add_team(struct api *api, const struct team_row *row);
struct team *accounts_team(const struct api *api, const char *id); /* NULL: none */
struct key *accounts_find_text(struct api *api, struct str key_text);
struct key *accounts_find_id(struct api *api, const struct team *team, const char *id);
size_t accounts_count(struct api *api, const struct team *team);

void accounts_add(struct api *api, struct key *key);
void accounts_remove(struct api *api, struct key *key);

/* The text of a new key, which has room for the prefix and KEY_HEX_LEN digits, and what is kept. */
void key_text_make(const char *prefix, char *text, char hash[SHA256_HEX_LEN + 1],
                   char masked[KEY_MASK_BYTES]);

/* A key (key.c). A new key is not in the table yet: accounts_add() makes it work. */
struct key *key_new(const struct team *team, const char *name, char text[KEY_TEXT_LEN + 1]);
struct key *key_from_row(const struct team *team, const struct key_row *row); /* NULL: damaged */
void key_save(struct api *api, const struct key *key, store_done *done, void *ctx);
void key_free(struct key *key);
/* The field `name` of a body that makes or changes a key. (keys.c) */
must_check int key_name_parse(const json_t *body, const char **name, struct err *err);

/* A new file that only its owner may read; replaces an existing one, and is on disk when this
 * returns. Blocks: it is a few bytes. (default_key.c) */
must_check int key_file_write(const char *path, const char *text, struct err *err);

/* ---- the admin (admin_keys.c) ---- */

/* Finds the admin's key of the request or of its session; -EACCES with the sentence. */
must_check int admin_check(struct api *api, const struct http_request *req,
                           const struct admin_key **out, struct err *err);
/* The key of that text: NULL with the sentence. */
struct admin_key *admin_find_text(struct api *api, struct str text, struct err *err);
/* Whether the admin key of that id exists. */
bool admin_id_works(const struct api *api, const char *id);
must_check int admin_keys_load(struct api *api, struct err *err);
void admin_keys_free(struct api *api);

/* ---- the audit log (audit.c) ---- */

must_check int audit_load(struct api *api, struct err *err);
void audit_tick(struct api *api); /* now and then: deletes old rows */

/* Writes the row of a call whose caller is known, before its handler runs. The functions below do
 * nothing for a call that has no row. */
void audit_begin(struct call *call);
/* The same, called by a handler that finds out itself which action this is, and, with a key that is
 * not NULL, who the caller is. */
void audit_begin_as(struct call *call, const struct key *key, const char *action);
void audit_note_answer(struct call *call, const json_t *answer); /* which may name new objects */
void audit_note_error(struct call *call, const char *sentence);
void audit_end(struct call *call, int status);

/* The sentence without the values that it quotes, and without keys. A value that is one of the
 * `names`, which end with NULL, stays: the row has it already. Pure. */
void audit_sentence(const char *text, const char *const *names, char out[AUDIT_SENTENCE_BYTES]);

/* ---- makers of objects (makers.c) ---- */

/* Notes that the call's key made it. Does nothing when the call has no key. */
void maker_note(const struct call *call, const char *id);
void maker_forget(struct api *api, const char *id);
/* The id of the key, or NULL. */
const char *maker_of(const struct api *api, const char *id);
json_t *maker_json(const struct api *api, const char *id); /* createdBy */
must_check int makers_load(struct api *api, struct err *err);
void makers_free(struct api *api);

/* ---- quotas (quota.c) ---- */

/* The amounts that a team uses, or (key_id not NULL) the part of them that one of its keys has
 * made. */
struct amounts quota_used(struct api *api, const struct team *team, const char *key_id);

/* The limits that hold for a team: its own, and the daemon's where it has none. */
struct limits quota_limits(const struct api *api, const struct team *team);

/* The one place where quotas are checked: may the team, and the key of that id (NULL: none), have
 * so much more? -EUSERS with a sentence that names the limit and its value. All that is under way
 * counts, so none of many calls at once passes a limit. */
must_check int quota_check(struct api *api, const struct team *team, const char *key_id,
                           const struct amounts *more, struct err *err);

/* The same for the team and key of the call. False: it was answered. */
bool call_quota(struct call *call, const struct amounts *more);

/* Counts as in use until it is ended: for what is in no table while it is being made. */
struct quota_hold *quota_hold(struct call *call, const struct amounts *amounts);
void quota_hold_end(struct api *api, struct quota_hold *hold); /* NULL is fine */

/* May so many more sandboxes run? Otherwise answers. */
bool call_has_room(struct call *call, const struct sandbox_wanted *wanted, uint32_t count);

/* ---- usage (usage.c) ---- */

void usage_start(struct api *api);
void usage_stop(struct api *api);
void usage_build(struct call *call); /* a build of the call's team has begun */

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

/* A snapshot as the API shows it (snapshots.c). */
json_t *snapshot_json(const struct call *call, const char *id, const char *alias, const char *tag,
                      uint64_t bytes);
/* The name for a new snapshot, which is of the team's namespace: -EINVAL with a sentence. */
struct template_name;
must_check int snapshot_name_check(const struct call *call, const char *text,
                                   struct template_name *out, struct err *err);

/* The team's own template of that name, whatever its tag. Otherwise answers, and NULL. */
const struct template *call_own_template(struct call *call, const char *name);

/* Its names, with the namespace and without. (templates.c) */
json_t *template_json(const struct api *api, const struct template *t); /* of GET /templates */
json_t *template_names(const struct api *api, const struct template *t);
json_t *template_aliases(const struct template *t);
json_t *template_json(const struct api *api, const struct template *t); /* as lists show it */
/* The same, if it runs; otherwise answers with that status. */
struct sandbox *call_running(struct call *call, int status);

/* 204, or the failure; ctx is the call. call_stopped() is for the end of a pause or of a kill,
 * whose failure serve/sandbox has logged. (sandboxes.c) */
void call_recorded(void *ctx, int error, const struct err *err);
void call_stopped(void *ctx, int error, const struct err *err);

/* No sandbox lives longer than the limit, however often it is extended. (sandboxes.c) */
int64_t call_end_ms(const struct call *call, const struct sandbox *sb, int64_t seconds);

/* "template '...' not found" and its like, for what templates_find() said. */
void call_fail_template(struct call *call, int why, struct str name);

/* Completes volumeMounts of a create's options: names become ids. -EINVAL with a sentence that says
 * which are wrong. (volumes.c) */
must_check int volumes_resolve(const struct call *call, json_t *options, struct err *err);

/* Whether the team has the shells that a create's options name. (shells.c) */
must_check int shells_resolve(const struct call *call, const json_t *options, struct err *err);

/* The types that a query names, as ",type,type," with a NUL; empty: all. (events.c) */
must_check int events_types_parse(struct str query, struct buf *types, struct err *err);

/* The array that the store has read, or its failure; ctx is the call (events.c). */
void call_array(void *ctx, int error, const struct err *err, const char *text);

/* ---- handlers ---- */

void handle_events(struct call *call, const json_t *body);
void handle_events_of(struct call *call, const json_t *body);
bool stream_events(struct call *call); /* follows them (events_follow.c) */
void handle_webhooks_list(struct call *call, const json_t *body);
void handle_webhooks_create(struct call *call, const json_t *body);
void handle_webhooks_get(struct call *call, const json_t *body);
void handle_webhooks_change(struct call *call, const json_t *body);
void handle_webhooks_delete(struct call *call, const json_t *body);
void handle_webhooks_test(struct call *call, const json_t *body);
void handle_webhooks_deliveries(struct call *call, const json_t *body);
void handle_webhooks_redeliver(struct call *call, const json_t *body);

void handle_secrets_list(struct call *call, const json_t *body);
void handle_secrets_create(struct call *call, const json_t *body);
void handle_secrets_get(struct call *call, const json_t *body);
void handle_secrets_update(struct call *call, const json_t *body);
void handle_secrets_delete(struct call *call, const json_t *body);
void handle_shells_list(struct call *call, const json_t *body);
void handle_shells_get(struct call *call, const json_t *body);
void handle_shells_put(struct call *call, const json_t *body);
void handle_shells_delete(struct call *call, const json_t *body);
void handle_tools_variables(struct call *call, const json_t *body); /* for_tools.c */
void handle_tools_keys_get(struct call *call, const json_t *body);
void handle_tools_keys_put(struct call *call, const json_t *body);
void handle_tools_artifacts(struct call *call, const json_t *body);
void handle_tools_artifact_put(struct call *call, const json_t *body);
void handle_tools_artifact_delete(struct call *call, const json_t *body);
void handle_tools_guard(struct call *call, const json_t *body);  /* guard_team_secrets.c */
void handle_tools_called(struct call *call, const json_t *body); /* audit.c */
void handle_audit(struct call *call, const json_t *body);        /* audit_list.c */
bool stream_audit(struct call *call);
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
void handle_connections(struct call *call, const json_t *body); /* metrics.c */
void handle_lineage(struct call *call, const json_t *body);
void handle_fork(struct call *call, const json_t *body);
void handle_snapshot(struct call *call, const json_t *body);
void handle_snapshots(struct call *call, const json_t *body);
bool stream_export(struct call *call); /* of a snapshot (travel.c) */
bool stream_export_paused(struct call *call);
bool stream_import(struct call *call);
void handle_connect_v1(struct call *call, const json_t *body);
void handle_connect_v2(struct call *call, const json_t *body);
void handle_teams(struct call *call, const json_t *body);
void handle_team_usage(struct call *call, const json_t *body);
void handle_usage(struct call *call, const json_t *body); /* of the call's team */
void handle_tokens_create(struct call *call, const json_t *body);
void handle_tokens_delete(struct call *call, const json_t *body);
void handle_admin_keys_list(struct call *call, const json_t *body);
void handle_admin_keys_create(struct call *call, const json_t *body);
void handle_admin_keys_delete(struct call *call, const json_t *body);
void handle_admin_teams_list(struct call *call, const json_t *body);
void handle_admin_teams_create(struct call *call, const json_t *body);
void handle_admin_team(struct call *call, const json_t *body);
void handle_admin_team_change(struct call *call, const json_t *body);
void handle_admin_team_kill(struct call *call, const json_t *body);
void handle_admin_team_cancel(struct call *call, const json_t *body);
void handle_admin_running(struct call *call, const json_t *body);
void handle_session_begin(struct call *call, const json_t *body); /* sessions.c */
void handle_session_get(struct call *call, const json_t *body);
void handle_session_end(struct call *call, const json_t *body);
bool stream_screen(struct call *call);
void handle_link_make(struct call *call, const json_t *body);
void handle_dashboard_health(struct call *call, const json_t *body);
void handle_dashboard_overview(struct call *call, const json_t *body);  /* dashboard_overview.c */
void handle_dashboard_sandboxes(struct call *call, const json_t *body); /* dashboard_sandboxes.c */
void handle_dashboard_builds(struct call *call, const json_t *body);
void handle_dashboard_statuses(struct call *call, const json_t *body);
void handle_dashboard_build(struct call *call, const json_t *body);
void handle_dashboard_templates(struct call *call, const json_t *body);
void handle_dashboard_defaults(struct call *call, const json_t *body);
void handle_dashboard_template(struct call *call, const json_t *body);
void handle_tag_groups(struct call *call, const json_t *body); /* the template is call->first */
void handle_tag_count(struct call *call, const json_t *body);
void handle_tag_exists(struct call *call, const json_t *body);
void handle_tag_assignments(struct call *call, const json_t *body);
void handle_nodes(struct call *call, const json_t *body);
void handle_node(struct call *call, const json_t *body);
void handle_node_change(struct call *call, const json_t *body);
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
bool stream_upload(struct call *call);
void handle_tags(struct call *call, const json_t *body);
void handle_tags_assign(struct call *call, const json_t *body);
void handle_default_templates(struct call *call, const json_t *body);
void handle_tags_remove(struct call *call, const json_t *body);
void handle_alias(struct call *call, const json_t *body);
void handle_pushed_request(struct call *call, const json_t *body); /* pushed_image.c */
void handle_pushed_rebuild(struct call *call, const json_t *body);
void handle_pushed_start(struct call *call, const json_t *body);
void handle_health(struct call *call, const json_t *body);
void handle_about(struct call *call, const json_t *body);
void handle_metrics(struct call *call, const json_t *body);
void handle_metrics_many(struct call *call, const json_t *body);
void handle_metrics_team(struct call *call, const json_t *body);
void handle_metrics_team_max(struct call *call, const json_t *body);
void handle_logs_v1(struct call *call, const json_t *body);
void handle_logs_v2(struct call *call, const json_t *body);
bool stream_logs(struct call *call); /* follows the log */
void handle_volumes_list(struct call *call, const json_t *body);
void handle_volumes_create(struct call *call, const json_t *body);
void handle_volumes_get(struct call *call, const json_t *body);
void handle_volumes_delete(struct call *call, const json_t *body);
bool stream_volume(struct call *call); /* /volumecontent, whole */
void handle_figures(struct call *call, const json_t *body);
void handle_openapi(struct call *call, const json_t *body);

#endif
