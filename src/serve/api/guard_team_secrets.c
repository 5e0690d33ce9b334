/* guard_team_secrets.c - searches a text for everything that a team keeps secret: POST
 * /internal/guard.
 *
 *   - its stored secrets, the sealed keys of its API shells, the keys that tools gave to sandboxes
 *   - its own API keys: the one of this call, and any text that has the form and the hash of one
 *   - texts that look like the key of a well-known service (lib/guard/formats.h)
 *
 * The search runs on a thread of the pool, so that neither many secrets nor a large text keep the
 * loop. Copies of the secrets are wiped when the guard goes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/utf8.h"
#include "lib/guard/formats.h"
#include "lib/guard/guard.h"
#include "serve/api/for_tools.h"
#include "serve/api/internal.h"

enum {
    OUT_BYTES_MAX = 48 * 1024 * 1024, /* marks may be longer than what they stand for */
    KINDS_MAX = 16 * 1024,            /* different things that can be told apart */
    WHAT_BYTES = 120,                 /* leaves room for the rest of a sentence */
    NAME_SHOWN = 64,
    OWN_KEY_BYTES = 64,
};

#define OWN_KEY "an API key of this team"

struct known {
    uv_work_t work;
    struct call *call;
    json_t *body; /* {"text", "sandboxID", "least", "secrets", "find"} */
    char key[OWN_KEY_BYTES];
    struct guard *guard;
    size_t least;
    size_t n;     /* secrets that are looked for */
    json_t *what; /* array of texts: a secret's tag is its place here */
    json_t *hashes;
    struct err err;
    int error;             /* the first */
    bool found[KINDS_MAX]; /* by tag */
    struct str text;
    struct buf out;
    size_t count;
    struct str place; /* of the first, when only that is looked for */
    uint16_t tag;
    int result; /* of the search */
};

/* ---- the known secrets ---- */

/* The index of a text in `what`; beyond the limit all texts share one index. */
static uint16_t tag_of(struct known *known, const char *what)
{
    size_t n = json_array_size(known->what);

    for (size_t i = n; i > 0; i--) {
        if (strcmp(json_string_value(json_array_get(known->what, i - 1)), what) == 0) {
            return (uint16_t)(i - 1);
        }
    }
    if (n == KINDS_MAX) {
        return 0;
    }
    (void)json_array_append_new(known->what, json_string(what));
    return (uint16_t)n;
}

/* The value of a header consists of words, and an echo may have one word alone. */
static void know(struct known *known, struct str secret, bool words, const char *what)
{
    if (known->error < 0 || secret.len == 0 || utf8_characters(secret) < known->least) {
        return;
    }
    uint16_t tag = tag_of(known, what);
    known->error = words ? guard_add_value_tagged(known->guard, secret, tag, &known->err)
                         : guard_add_tagged(known->guard, secret, tag, &known->err);
    known->n++;
}

static bool on_secret(void *ctx, const struct secret *secret)
{
    struct known *known = ctx;
    char what[WHAT_BYTES];
    scoped_buf(value, SECRET_VALUE_BYTES_MAX);

    const struct secrets *all = known->call->api->options.secrets;
    int r = secret_value(all, secret->team_id, str_of(secret->name), &value, &known->err);
    if (r < 0 && known->error == 0) {
        known->error = r; /* a secret that cannot be searched for may be in the text */
    }
    (void)snprintf(what, sizeof(what), "the secret \"%.*s\" of this team", NAME_SHOWN,
                   secret->name);
    know(known, buf_str(&value), false, what);
    buf_wipe(&value);
    return known->error == 0;
}

static void on_shell(void *ctx, const struct shell *shell, struct shell_times times)
{
    struct known *known = ctx;
    char what[WHAT_BYTES];
    scoped_buf(value, SECRET_VALUE_BYTES_MAX);

    (void)times;
    if (!shell->sealed || known->error < 0) {
        return;
    }
    known->error = shells_value(known->call->api->options.shells, known->call->team->id,
                                str_of(shell->name), &value, &known->err);
    (void)snprintf(what, sizeof(what), "the key of the API shell \"%s\"", shell->name);
    know(known, buf_str(&value), true, what);
    buf_wipe(&value);
}

static void on_hash(void *ctx, const char *hash)
{
    struct known *known = ctx;

    (void)json_object_set_new(known->hashes, hash, json_true());
}

static void know_record(struct known *known, const json_t *record)
{
    const json_t *vars = json_object_get(record, "vars");

    json_each (json_object_get(record, "secret"), it) {
        const char *name = json_object_iter_key(it);
        const char *value = json_string_of(vars, name);
        char what[WHAT_BYTES];

        (void)snprintf(what, sizeof(what), "the value of %.*s, given to a sandbox", NAME_SHOWN,
                       name);
        know(known, str_of(value), false, what);
    }
}

static void know_passed(struct known *known)
{
    const json_t *secrets = json_object_get(known->body, "secrets");

    for (size_t i = 0; i < json_array_size(secrets); i++) {
        const json_t *secret = json_array_get(secrets, i);

        know(known, (struct str){json_string_value(secret), json_string_length(secret)}, false,
             "a secret that was passed");
    }
}

static void gather(struct known *known, const json_t *records)
{
    struct api *api = known->call->api;
    const char *team = known->call->team->id;

    for (size_t i = 0; i < json_array_size(records); i++) {
        know_record(known, json_array_get(records, i));
    }
    secrets_each(api->options.secrets, team, on_secret, known);
    shells_each(api->options.shells, team, on_shell, known);
    know(known, str_of(known->key), false, OWN_KEY);
    api_key_hashes_each(api, team, on_hash, known);
    know_passed(known);
}

/* ---- the answer ---- */

static void known_free(struct known *known)
{
    guard_free(known->guard);
    json_decref(known->what);
    json_decref(known->hashes);
    json_decref(known->body);
    buf_fini(&known->out);
    free(known);
}

static void known_fail(struct known *known, int error, const struct err *err)
{
    struct call *call = known->call;

    if (error == -ENOSPC) { /* not the disk: there are more secrets than one search takes */
        call_fail(call, 500, "%s", err->msg);
    } else {
        call_fail_err(call, error, err);
    }
    known_free(known);
}

static json_t *redacted_json(const struct known *known)
{
    json_t *kinds = json_array();

    for (size_t i = 0; i < json_array_size(known->what); i++) {
        if (known->found[i]) {
            (void)json_array_append(kinds, json_array_get(known->what, i));
        }
    }
    /* A mark that replaces part of a character leaves bytes that are not UTF-8: null then. */
    json_t *text =
        json_stringn(buf_len(&known->out) ? buf_at(&known->out) : "", buf_len(&known->out));
    return json_pack("{sI so sI so}", "count", (json_int_t)known->count, "kinds", kinds, "known",
                     (json_int_t)known->n, "text", text ? text : json_null());
}

static json_t *found_json(const struct known *known)
{
    json_int_t line = 1;

    if (known->result == 0) {
        return json_object();
    }
    for (const char *at = known->text.at; at < known->place.at; at++) {
        line += *at == '\n';
    }
    return json_pack("{sI sO}", "line", line, "what", json_array_get(known->what, known->tag));
}

static void known_answer(struct known *known)
{
    struct call *call = known->call;

    if (known->error < 0) {
        known_fail(known, known->error, &known->err);
    } else if (known->result == -EMSGSIZE) {
        call_fail(call, 413, "text: is larger than %d bytes", GUARD_TEXT_BYTES_MAX);
        known_free(known);
    } else if (known->result < 0) {
        call_fail(call, 413, "text: has more secrets than can be shown");
        known_free(known);
    } else {
        call_json(call, 200,
                  json_is_true(json_object_get(known->body, "find")) ? found_json(known)
                                                                     : redacted_json(known));
        known_free(known);
    }
}

/* ---- the search, on a thread of the pool ---- */

/* Texts that look like a key are searched for like any other. */
static void on_format(void *ctx, struct str place, struct str key, const char *kind)
{
    struct known *known = ctx;
    char hash[SHA256_HEX_LEN + 1];

    if (strcmp(kind, GUARD_KIND_API_KEY) == 0) {
        sha256_hex(key.at, key.len, hash);
        kind = json_object_get(known->hashes, hash) ? OWN_KEY : kind;
    }
    if (known->error == 0) {
        known->error = guard_add_tagged(known->guard, place, tag_of(known, kind), &known->err);
    }
}

static void on_tag(void *ctx, uint16_t tag)
{
    struct known *known = ctx;

    known->found[tag] = true;
}

static void on_work(uv_work_t *work)
{
    struct known *known = work->data;

    guard_formats_each(known->text, on_format, known);
    if (known->error < 0) {
        return;
    }
    guard_ready(known->guard);
    known->result = json_is_true(json_object_get(known->body, "find"))
                        ? guard_find(known->guard, known->text, &known->place, &known->tag)
                        : guard_redact_tagged(known->guard, known->text, &known->out, &known->count,
                                              on_tag, known);
}

static void on_worked(uv_work_t *work, int status)
{
    (void)status;
    known_answer(work->data);
}

static void on_records(void *ctx, int error, const struct err *err, const char *text)
{
    struct known *known = ctx;
    scoped_json *records = error == 0 ? for_tools_records(known->call, text) : NULL;

    if (error < 0) {
        known_fail(known, error, err);
        return;
    }
    gather(known, records);
    if (known->error < 0) {
        known_fail(known, known->error, &known->err);
    } else if (uv_queue_work(known->call->api->options.loop, &known->work, on_work, on_worked) <
               0) {
        call_fail(known->call, 503, "the search could not begin: try again later");
        known_free(known);
    }
}

void handle_tools_guard(struct call *call, const json_t *body)
{
    const json_t *text = json_object_get(body, "text");
    struct known *known = xnew(struct known);

    known->call = call;
    known->work.data = known;
    known->body = json_incref(json_unconst(body));
    known->text = (struct str){json_string_value(text), json_string_length(text)};
    known->least = (size_t)json_integer_value(json_object_get(body, "least"));
    known->guard = guard_new();
    known->what = json_array();
    known->hashes = json_object();
    buf_init(&known->out, OUT_BYTES_MAX);
    if (!call_gone(call)) {
        (void)str_copy(known->key, sizeof(known->key), auth_key_text(http_request(call->ex)));
    }
    store_sandbox_keys_list(call->api->options.store, call->team->id,
                            json_string_of(body, "sandboxID"), on_records, known);
}
