#include "tools/known.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/base/fiber.h"
#include "lib/base/utf8.h"
#include "lib/guard/formats.h"
#include "lib/guard/guard.h"
#include "serve/api/fields.h"
#include "serve/secrets/secret.h"
#include "serve/secrets/shell/shells.h"
#include "tools/internal.h"
#include "tools/keys.h"

enum {
    WHAT_BYTES = 120, /* leaves room for the rest of a sentence */
    NAME_SHOWN = 64,
};

#define OWN_KEY "an API key of this team"

struct known {
    struct tool_call *call;
    struct guard *guard;
    size_t least;
    size_t n;     /* secrets that are looked for */
    json_t *what; /* array of texts: a secret's tag is its place here */
    json_t *hashes;
    int error; /* the first */
    struct err *err;
    bool found[KNOWN_KINDS_MAX]; /* by tag */
};

/* ---- what is known ---- */

/* The place of a text among those that are told; past the limit all are one. */
static uint16_t tag_of(struct known *known, const char *what)
{
    size_t n = json_array_size(known->what);

    for (size_t i = n; i > 0; i--) {
        if (strcmp(json_string_value(json_array_get(known->what, i - 1)), what) == 0) {
            return (uint16_t)(i - 1);
        }
    }
    if (n == KNOWN_KINDS_MAX) {
        return 0;
    }
    (void)json_array_append_new(known->what, json_string(what));
    return (uint16_t)n;
}

/* A value of a header has words, which an echo may have alone. */
static void know(struct known *known, struct str secret, bool words, const char *what)
{
    if (known->error < 0 || secret.len == 0 || utf8_characters(secret) < known->least) {
        return;
    }
    uint16_t tag = tag_of(known, what);
    known->error = words ? guard_add_value_tagged(known->guard, secret, tag, known->err)
                         : guard_add_tagged(known->guard, secret, tag, known->err);
    known->n++;
}

static bool on_secret(void *ctx, const struct secret *secret)
{
    struct known *known = ctx;
    char what[WHAT_BYTES];
    scoped_buf(value, SECRET_VALUE_BYTES_MAX);

    const struct secrets *all = tools_options(call_tools(known->call))->secrets;
    int r = secret_value(all, secret->team_id, str_of(secret->name), &value, known->err);
    if (r < 0 && known->error == 0) {
        known->error = r; /* what cannot be looked for may be there */
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
    const struct shells *all = tools_options(call_tools(known->call))->shells;
    known->error =
        shells_value(all, call_team(known->call), str_of(shell->name), &value, known->err);
    (void)snprintf(what, sizeof(what), "the key of the API shell \"%s\"", shell->name);
    know(known, buf_str(&value), true, what);
    buf_wipe(&value);
}

static bool on_key(void *ctx, const char *name, const char *value)
{
    struct known *known = ctx;
    char what[WHAT_BYTES];

    (void)snprintf(what, sizeof(what), "the value of %.*s, given to a sandbox", NAME_SHOWN, name);
    know(known, str_of(value), false, what);
    return known->error == 0;
}

static void on_hash(void *ctx, const char *hash)
{
    struct known *known = ctx;

    (void)json_object_set_new(known->hashes, hash, json_true());
}

/* ---- life ---- */

void known_free(struct known *known)
{
    if (known) {
        guard_free(known->guard);
        json_decref(known->what);
        json_decref(known->hashes);
        free(known);
    }
}

static int gather(struct known *known, const char *sandbox_id, struct err *err)
{
    struct tool_call *call = known->call;
    const struct tools_options *options = tools_options(call_tools(call));
    int r = keys_each(call, sandbox_id, on_key, known, err);

    if (r < 0) {
        return r;
    }
    secrets_each(options->secrets, call_team(call), on_secret, known);
    shells_each(options->shells, call_team(call), on_shell, known);
    know(known, str_of(call->key), false, OWN_KEY);
    api_key_hashes_each(options->api, call_team(call), on_hash, known);
    return known->error;
}

int known_new(struct tool_call *call, const char *sandbox_id, size_t least, struct known **out,
              struct err *err)
{
    struct known *known = xnew(struct known);

    known->call = call;
    known->guard = guard_new();
    known->least = least;
    known->what = json_array();
    known->hashes = json_object();
    known->err = err;
    int r = gather(known, sandbox_id, err);
    if (r < 0) {
        known_free(known);
        return r;
    }
    *out = known;
    return 0;
}

int known_add(struct known *known, struct str value, const char *what, struct err *err)
{
    known->err = err;
    know(known, value, false, what);
    return known->error;
}

size_t known_count(const struct known *known)
{
    return known->n;
}

/* ---- the search, on a thread of the pool ---- */

struct search {
    uv_work_t work;
    struct known *known;
    struct str text;
    struct buf *out; /* NULL: the first place is looked for */
    size_t count;
    struct str place;
    uint16_t tag;
    struct err err;
    int error;
    bool done;
    struct fiber *fiber;
};

/* What has the looks of a key is looked for as any other. */
static void on_format(void *ctx, struct str place, struct str key, const char *kind)
{
    struct known *known = ctx;
    char hash[SHA256_HEX_LEN + 1];

    if (strcmp(kind, GUARD_KIND_API_KEY) == 0) {
        sha256_hex(key.at, key.len, hash);
        kind = json_object_get(known->hashes, hash) ? OWN_KEY : kind;
    }
    if (known->error == 0) {
        known->error = guard_add_tagged(known->guard, place, tag_of(known, kind), known->err);
    }
}

static void on_tag(void *ctx, uint16_t tag)
{
    struct known *known = ctx;

    known->found[tag] = true;
}

static void on_work(uv_work_t *work)
{
    struct search *search = work->data;
    struct known *known = search->known;

    known->err = &search->err;
    guard_formats_each(search->text, on_format, known);
    if (known->error < 0) {
        search->error = known->error;
        return;
    }
    guard_ready(known->guard);
    search->error = search->out
                        ? guard_redact_tagged(known->guard, search->text, search->out,
                                              &search->count, on_tag, known)
                        : guard_find(known->guard, search->text, &search->place, &search->tag);
}

static void on_worked(uv_work_t *work, int status)
{
    struct search *search = work->data;

    (void)status;
    search->done = true;
    fiber_wake(search->fiber);
}

/* The thread has the struct until it is done, so no cancellation ends the wait. */
static int search_run(struct tool_call *call, struct search *search, struct err *err)
{
    int r = 0;

    search->work.data = search;
    search->fiber = fiber_self();
    if (uv_queue_work(tools_loop(call_tools(call)), &search->work, on_work, on_worked) < 0) {
        return err_set(err, EAGAIN, "the search could not begin: try again later");
    }
    fiber_shield();
    while (!search->done && r == 0) {
        r = fiber_park();
    }
    fiber_unshield();
    if (search->error == -ENOSPC) {
        *err = search->err;
        return search->error;
    }
    return search->error == -EMSGSIZE
               ? err_set(err, EMSGSIZE, "text: is larger than %d bytes", GUARD_TEXT_BYTES_MAX)
           : search->error < 0 ? err_set(err, EMSGSIZE, "text: has more secrets than can be shown")
                               : search->error;
}

int known_redact(struct tool_call *call, struct known *known, struct str text, struct buf *out,
                 size_t *count, json_t **kinds, struct err *err)
{
    struct search search = {.known = known, .text = text, .out = out};
    int r = search_run(call, &search, err);

    if (r < 0) {
        return r;
    }
    *count = search.count;
    *kinds = json_array();
    for (size_t i = 0; i < json_array_size(known->what); i++) {
        if (known->found[i]) {
            (void)json_array_append(*kinds, json_array_get(known->what, i));
        }
    }
    return 0;
}

int known_find(struct tool_call *call, struct known *known, struct str text, size_t *line,
               const char **what, struct err *err)
{
    struct search search = {.known = known, .text = text};
    int r = search_run(call, &search, err);

    if (r > 0) {
        *line = 1;
        for (const char *at = text.at; at < search.place.at; at++) {
            *line += *at == '\n';
        }
        *what = json_string_value(json_array_get(known->what, search.tag));
    }
    return r;
}
