/* audit.c - the record of who changed what: a row when a call begins, its outcome when it ends.
 *
 * The row is given to the store before the handler can give it a change, and the store writes in
 * order: no change is on record without the call that made it. No call waits for its row.
 *
 * A row has ids, a verb, a status and a sentence; never a value of a body. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/guard/formats.h"
#include "serve/api/internal.h"
#include "serve/web/sessions.h"

enum {
    AUDIT_TEAM_ROWS_MAX = 200 * 1000, /* of a team, or of no team: the oldest are deleted */
    AUDIT_ROWS_MAX = 4 * 1000 * 1000, /* of all teams */
    AUDIT_PURGE_EVERY = 1000,         /* rows of a team between two looks at its number */
    AUDIT_REFUSED_PER_S = 20,         /* calls that were refused, of one team */
    AUDIT_SECOND_MS = 1000,
    AUDIT_MADE_MAX = 16, /* ids of new objects in one row */
};

/* ---- texts ---- */

/* Ids and names have printable characters alone; a path may hold anything. */
static void plain_copy(char *out, size_t size, const char *text)
{
    size_t n = 0;

    for (; text[n] && n + 1 < size; n++) {
        out[n] = text[n] > ' ' && text[n] < 0x7f ? text[n] : '?';
    }
    out[n] = '\0';
}

static void cover(void *ctx, struct str place, struct str key, const char *kind)
{
    char *text = ctx;

    (void)key, (void)kind;
    memset(text + (place.at - text), '*', place.len);
}

/* The name that a quote at `text` holds, which ends with `quote`; "": none of them. */
static const char *name_quoted(const char *text, char quote, const char *const *names)
{
    for (; *names; names++) {
        size_t len = strlen(*names);

        if (len > 0 && strncmp(text, *names, len) == 0 && text[len] == quote) {
            return *names;
        }
    }
    return "";
}

/* A sentence names values of the request in quotes: they are left out, since a body may hold a
 * secret anywhere. The name of the object, which the row shows, is kept. An apostrophe inside a
 * word ("doesn't") opens no quote. */
void audit_sentence(const char *text, const char *const *names, char out[AUDIT_SENTENCE_BYTES])
{
    char quote = '\0', before = ' ';
    const char *name = "";
    size_t n = 0;

    for (; *text && n + 4 + strlen(name) < AUDIT_SENTENCE_BYTES; before = *text++) {
        bool word = (before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z');

        if (quote && *text == quote) {
            n += (size_t)snprintf(out + n, AUDIT_SENTENCE_BYTES - n, "%s", name[0] ? name : "..");
            quote = '\0';
            name = "";
        } else if (!quote && (*text == '"' || (*text == '\'' && !word))) {
            quote = *text;
            name = name_quoted(text + 1, quote, names);
        }
        if (!quote || *text == quote) {
            out[n++] = *text >= ' ' && *text < 0x7f ? *text : '?';
        }
    }
    out[n] = '\0';
    guard_formats_each((struct str){out, n}, cover, out);
}

/* ---- bounds ---- */

/* Deletes what is too much, now and then: the counts are those since the daemon's start, so that no
 * row has to be counted. */
static void purge(struct api *api, const char *team_id, uint64_t *written)
{
    if (*written % AUDIT_PURGE_EVERY == 0) {
        store_audit_forget_team(api->options.store, team_id, AUDIT_TEAM_ROWS_MAX);
    }
    if (api->audit.last % AUDIT_PURGE_EVERY == 0) {
        audit_tick(api);
    }
    ++*written;
}

void audit_tick(struct api *api)
{
    int64_t days = api->options.audit_days > 0 ? api->options.audit_days : AUDIT_DAYS_DEFAULT;

    store_audit_forget(api->options.store, clock_wall_ms() - days * 24 * 3600 * 1000,
                       api->audit.last - AUDIT_ROWS_MAX);
}

/* Refused calls cost nothing to make: only some are written down. Each team has its own number, so
 * that no other hides its calls behind many of them. */
static bool refusal_has_room(struct audit *audit, struct team *team)
{
    int64_t now_ms = clock_mono_ms();

    if (now_ms - team->refused_since_ms >= AUDIT_SECOND_MS) {
        team->refused_since_ms = now_ms;
        team->refused = 0;
    }
    if (team->refused >= AUDIT_REFUSED_PER_S) {
        audit->dropped++;
        return false;
    }
    team->refused++;
    return true;
}

/* ---- begin ---- */

struct who {
    const struct team *team;
    const char *id, *name, *type;
};

/* Names a session without saying its cookie. */
static void session_name(struct call *call, char out[AUDIT_SESSION_BYTES])
{
    struct session *session = NULL;
    struct key *key = NULL;
    struct err err;

    if (call->by_session && call->ex &&
        auth_session(call->api, http_request(call->ex), &session, &key, &err) == 0) {
        (void)snprintf(out, AUDIT_SESSION_BYTES, "%.*s", AUDIT_SESSION_BYTES - 1, session->hash);
    }
}

static struct who who_calls(const struct call *call)
{
    struct who who = {.team = call->team, .id = "", .name = "", .type = "token"};

    if (call->admin) {
        who = (struct who){call->team, call->admin->id, call->admin->name, "admin"};
    } else if (call->key_id[0]) {
        const struct key *key = accounts_find_id(call->api, call->team, call->key_id);

        who.id = call->key_id;
        who.name = key ? key->name : "";
        who.type = "key";
    }
    return who;
}

/* A call that was refused for who makes it: by which of the keys that we know. */
static bool who_was_refused(struct call *call, struct who *who)
{
    const struct http_request *req = http_request(call->ex);
    struct key *key = NULL;
    struct err err;

    if ((call->refused != 401 && call->refused != 403) ||
        auth_check(call->api, req, &key, &err) < 0) {
        return false;
    }
    *who = (struct who){key->team, key->id, key->name, "key"};
    return refusal_has_room(&call->api->audit, accounts_team(call->api, key->team->id));
}

static void row_write(struct call *call, const struct who *who, const char *action)
{
    struct api *api = call->api;
    struct team *team = who->team ? accounts_team(api, who->team->id) : NULL;
    bool inside = strcmp(call->first, call->param) != 0;
    char source[AUDIT_SOURCE_BYTES] = "", parent[AUDIT_OBJECT_BYTES] = "";
    char session[AUDIT_SESSION_BYTES] = "";

    if (call->ex) {
        (void)str_copy(source, sizeof(source), http_request(call->ex)->peer);
    }
    plain_copy(call->object, sizeof(call->object), call->param);
    if (inside) {
        plain_copy(parent, sizeof(parent), call->first);
    }
    session_name(call, session);
    call->audit_seq = ++api->audit.last;
    api->audit.changes++;
    const struct audit_row row = {
        .seq = call->audit_seq,
        .time_ms = clock_wall_ms(),
        .team_id = team ? team->id : "",
        .actor_id = who->id,
        .actor_name = who->name,
        .actor_type = who->type,
        .source = source,
        .via = call->internal     ? "tools"
               : call->by_session ? "dashboard"
                                  : "api",
        .session = session,
        .action = action,
        .object = call->object,
        .parent = parent,
    };
    store_audit_begin(api->options.store, &row);
    purge(api, row.team_id, team ? &team->audit_rows : &api->audit.rows);
}

void audit_begin(struct call *call)
{
    const char *action = call->route ? call->route->action : NULL;
    struct who who;

    if (!action || action[0] == '-') {
        return;
    }
    if (call->team || call->admin) {
        who = who_calls(call);
    } else if (!who_was_refused(call, &who)) {
        return;
    }
    row_write(call, &who, action);
}

void audit_begin_as(struct call *call, const struct key *key, const char *action)
{
    struct who who = who_calls(call);

    if (key) {
        who = (struct who){key->team, key->id, key->name, "key"};
    }
    assert(call->audit_seq == 0);
    row_write(call, &who, action);
}

/* ---- end ---- */

static const char *id_in(const json_t *object)
{
    static const char *const names[] = {"sandboxID",  "snapshotID", "volumeID", "buildID",
                                        "templateID", "id",         "tokenId"};

    for (size_t i = 0; i < countof(names); i++) {
        const char *id = json_string_of(object, names[i]);
        if (id && id[0]) {
            return id;
        }
    }
    return NULL;
}

static void made_add(struct call *call, const json_t *object)
{
    const char *id = id_in(object);

    if (!id || strcmp(id, call->object) == 0 || json_array_size(call->made) >= AUDIT_MADE_MAX) {
        return;
    }
    if (!call->object[0]) {
        plain_copy(call->object, sizeof(call->object), id);
        return;
    }
    if (!call->made) {
        call->made = json_array();
    }
    (void)json_array_append_new(call->made, json_string(id));
}

void audit_note_answer(struct call *call, const json_t *answer)
{
    size_t i;
    json_t *each;

    if (call->audit_seq == 0) {
        return;
    }
    if (!json_is_array(answer)) {
        const json_t *inner = json_object_get(answer, "sandbox"); /* of an answer of fork */
        made_add(call, inner ? inner : answer);
        return;
    }
    json_array_foreach (json_unconst(answer), i, each) {
        const json_t *inner = json_object_get(each, "sandbox");
        made_add(call, inner ? inner : each);
    }
}

void audit_note_error(struct call *call, const char *sentence)
{
    char parent[AUDIT_OBJECT_BYTES];

    if (call->audit_seq != 0) {
        plain_copy(parent, sizeof(parent), call->first);
        const char *const names[] = {call->object, parent, NULL};
        audit_sentence(sentence, names, call->audit_error);
    }
}

void audit_end(struct call *call, int status)
{
    if (call->audit_seq == 0 || call->api->closed) {
        json_decref(call->made);
        call->made = NULL;
        return; /* the next daemon finds a row that a stop has left without an outcome */
    }
    char *made = call->made ? json_dumps(call->made, JSON_COMPACT) : NULL;
    const struct audit_outcome outcome = {
        .seq = call->audit_seq,
        .status = status,
        .took_ms = (clock_mono_us() - call->begun_us) / 1000,
        .error = call->audit_error[0] ? call->audit_error : NULL,
        .object = call->object,
        .made = made,
    };

    store_audit_end(call->api->options.store, &outcome);
    call->api->audit.changes++;
    free(made);
    json_decref(call->made);
    call->made = NULL;
    call->audit_seq = 0;
}

int audit_load(struct api *api, struct err *err)
{
    return store_audit_open(api->options.store, &api->audit.last, err);
}

/* ---- POST /internal/tool-calls ---- */

/* atoll-tools tells of a tool that somebody has called: {"name", "sandbox", "error"}. */
void handle_tools_called(struct call *call, const json_t *body)
{
    char action[AUDIT_OBJECT_BYTES] = "tool.";
    const char *error = json_string_of(body, "error");

    plain_copy(action + strlen(action), sizeof(action) - strlen(action),
               json_text_of(body, "name"));
    (void)snprintf(call->param, sizeof(call->param), "%.64s", json_text_of(body, "sandbox"));
    (void)snprintf(call->first, sizeof(call->first), "%s", call->param);
    audit_begin_as(call, NULL, action);
    if (error) {
        audit_note_error(call, error);
        audit_end(call, (int)json_integer_value(json_object_get(body, "status")));
    } else {
        audit_end(call, 200);
    }
    call_empty(call, 204);
}
