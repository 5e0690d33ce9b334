/* guard_output: what is about to be shown to somebody, searched for secrets.
 *
 * What is looked for is gathered here; the search runs on a thread of the pool, and so does what
 * makes it ready: neither many secrets nor a large text keep the loop. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/fields.h"
#include "base/alloc.h"
#include "base/fiber.h"
#include "guard/guard.h"
#include "secret/secret.h"
#include "shell/shells.h"
#include "tools/box.h"
#include "tools/catalogue/handlers.h"
#include "tools/internal.h"
#include "tools/keys.h"

enum {
    OUT_BYTES_MAX = 48 * 1024 * 1024, /* marks may be longer than what they stand for */
};

#define WARNING "[BLOCKED] The text held secrets and was withheld."

/* ---- what is known ---- */

struct knowing {
    struct tool_call *call;
    struct guard *guard;
    size_t n;
    int error; /* the first */
    struct err *err;
};

static void know(struct knowing *knowing, struct str secret)
{
    if (knowing->error == 0 && secret.len > 0) {
        knowing->error = guard_add(knowing->guard, secret, knowing->err);
        knowing->n++;
    }
}

static void know_value(struct knowing *knowing, struct str value)
{
    if (knowing->error == 0 && value.len > 0) {
        knowing->error = guard_add_value(knowing->guard, value, knowing->err);
        knowing->n++;
    }
}

static bool on_secret(void *ctx, const struct secret *secret)
{
    struct knowing *knowing = ctx;
    scoped_buf(value, SECRET_VALUE_BYTES_MAX);

    const struct secrets *all = tools_options(call_tools(knowing->call))->secrets;
    int r = secret_value(all, secret->team_id, str_of(secret->name), &value, knowing->err);
    if (r < 0 && knowing->error == 0) {
        knowing->error = r; /* what cannot be looked for may be there */
    }
    know(knowing, buf_str(&value));
    if (value.data) {
        explicit_bzero(value.data, value.cap);
    }
    return knowing->error == 0;
}

static void on_shell(void *ctx, const struct shell *shell, struct shell_times times)
{
    struct knowing *knowing = ctx;
    scoped_buf(value, SECRET_VALUE_BYTES_MAX);

    (void)times;
    if (!shell->sealed || knowing->error < 0) {
        return;
    }
    const struct shells *all = tools_options(call_tools(knowing->call))->shells;
    knowing->error =
        shells_value(all, call_team(knowing->call), str_of(shell->name), &value, knowing->err);
    know_value(knowing, buf_str(&value));
    if (value.data) {
        explicit_bzero(value.data, value.cap);
    }
}

static bool on_key(void *ctx, const char *name, const char *value)
{
    struct knowing *knowing = ctx;

    (void)name;
    know(knowing, str_of(value));
    return knowing->error == 0;
}

static int know_all(struct knowing *knowing, const json_t *input, struct err *err)
{
    struct tool_call *call = knowing->call;
    const struct tools_options *options = tools_options(call_tools(call));
    const char *sandbox = json_string_of(input, "sandbox_id");
    const json_t *given = json_object_get(input, "secrets");
    /* Of whoever else's sandbox nothing is said, not even that it has no keys. */
    int r = sandbox ? box_api(call, "GET", sandbox, "", NULL, NULL, err) : 0;

    r = r < 0 ? r : keys_each(call, sandbox, on_key, knowing, err);
    if (r < 0) {
        return r;
    }
    secrets_each(options->secrets, call_team(call), on_secret, knowing);
    shells_each(options->shells, call_team(call), on_shell, knowing);
    for (size_t i = 0; i < json_array_size(given); i++) {
        const json_t *secret = json_array_get(given, i);
        know(knowing, (struct str){json_string_value(secret), json_string_length(secret)});
    }
    return knowing->error;
}

/* ---- the search ---- */

struct search {
    uv_work_t work;
    struct guard *guard;
    struct str text;
    struct buf out;
    size_t count;
    int error;
    bool done;
    struct fiber *fiber;
};

static void on_work(uv_work_t *work)
{
    struct search *search = work->data;

    guard_ready(search->guard);
    search->error = guard_redact(search->guard, search->text, &search->out, &search->count);
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
    return search->error == -EMSGSIZE
               ? err_set(err, EMSGSIZE, "text: is larger than %d bytes", GUARD_TEXT_BYTES_MAX)
           : search->error < 0 ? err_set(err, EMSGSIZE, "text: has more secrets than can be shown")
                               : 0;
}

static json_t *answer_of(const struct search *search, const char *mode, size_t known)
{
    bool block = strcmp(mode, "block") == 0 && search->count > 0;
    json_t *text = block ? json_string(WARNING)
                         : json_stringn(buf_len(&search->out) ? buf_at(&search->out) : "",
                                        buf_len(&search->out));

    /* A mark in the place of a part of a character leaves what is no text. */
    return json_pack("{sb sI so ss sI}", "found", search->count > 0, "count",
                     (json_int_t)search->count, "text", text ? text : json_string(WARNING), "mode",
                     mode, "known", (json_int_t)known);
}

int tool_guard_output(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    const json_t *text = json_object_get(input, "text");
    struct search search = {
        .guard = guard_new(),
        .text = {json_string_value(text), json_string_length(text)},
    };
    struct knowing knowing = {.call = call, .guard = search.guard, .err = err};

    buf_init(&search.out, OUT_BYTES_MAX);
    int r = search.text.len > GUARD_TEXT_BYTES_MAX
                ? err_set(err, EMSGSIZE, "text: is larger than %d bytes", GUARD_TEXT_BYTES_MAX)
                : know_all(&knowing, input, err);
    r = r < 0 ? r : search_run(call, &search, err);
    if (r == 0) {
        *out = answer_of(&search, json_string_of(input, "mode"), knowing.n);
    }
    buf_fini(&search.out);
    guard_free(search.guard);
    return r;
}
