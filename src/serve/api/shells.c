/* /shells: connections to APIs that code uses without their keys. A key is taken, never shown; no
 * answer may be kept by a cache. */
#include <errno.h>

#include "serve/api/internal.h"
#include "serve/secrets/shell/shells.h"

enum { GRANTS_MAX = 32 }; /* shells of one sandbox */

static json_t *shell_json(const struct shell *shell, struct shell_times times)
{
    json_t *out = json_deep_copy(shell->definition);

    (void)json_object_set_new(out, "name", json_string(shell->name));
    (void)json_object_set_new(out, "createdAt", stamp_json(times.created_ms));
    (void)json_object_set_new(out, "updatedAt", stamp_json(times.updated_ms));
    return out;
}

/* ---- look ---- */

struct showing {
    json_t *list;
    const char *name; /* NULL: all */
};

static void on_shell(void *ctx, const struct shell *shell, struct shell_times times)
{
    struct showing *showing = ctx;

    if (!showing->name || strcmp(showing->name, shell->name) == 0) {
        (void)json_array_append_new(showing->list, shell_json(shell, times));
    }
}

static json_t *show(const struct call *call, const char *name)
{
    struct showing showing = {.list = json_array(), .name = name};

    shells_each(call->api->options.shells, call->team->id, on_shell, &showing);
    return showing.list;
}

void handle_shells_list(struct call *call, const json_t *body)
{
    (void)body;
    call_json(call, 200, show(call, NULL));
}

void handle_shells_get(struct call *call, const json_t *body)
{
    scoped_json *found = show(call, call->param);

    (void)body;
    if (json_array_size(found) == 0) {
        call_fail(call, 404, "there is no shell \"%.64s\"", call->param);
    } else {
        call_json(call, 200, json_incref(json_array_get(found, 0)));
    }
}

/* ---- change ---- */

static void on_put(void *ctx, int error, const struct err *err)
{
    struct call *call = ctx;

    if (error < 0) {
        call_fail_err(call, error, err);
    } else {
        handle_shells_get(call, NULL);
    }
}

void handle_shells_put(struct call *call, const json_t *body)
{
    scoped_json *definition = json_deep_copy(body);
    struct err err;

    /* A client may send back the definition that a GET has shown. */
    (void)json_object_del(definition, "name");
    (void)json_object_del(definition, "createdAt");
    (void)json_object_del(definition, "updatedAt");
    int r = shells_put(call->api->options.shells, call->team->id, call->param, definition, on_put,
                       call, &err);
    if (r == -ENOSPC) {
        call_fail(call, 403, "%s", err.msg);
    } else if (r < 0) {
        call_fail_err(call, r, &err);
    }
}

static void on_deleted(void *ctx, int error, const struct err *err)
{
    if (error < 0) {
        call_fail_err(ctx, error, err);
    } else {
        call_empty(ctx, 204);
    }
}

void handle_shells_delete(struct call *call, const json_t *body)
{
    struct err err;
    int r = shells_delete(call->api->options.shells, call->team->id, call->param, on_deleted, call,
                          &err);

    (void)body;
    if (r < 0) {
        call_fail(call, 404, "%s", err.msg);
    }
}

/* ---- shells of a create ---- */

int shells_resolve(const struct call *call, const json_t *options, struct err *err)
{
    const json_t *names = json_object_get(options, "shells");

    if (json_array_size(names) > GRANTS_MAX) {
        return err_set(err, EINVAL, "validation error: shells has more than %d names", GRANTS_MAX);
    }
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        if (!name) {
            return err_set(err, EINVAL, "validation error: shells[%zu] must be a string", i);
        }
        if (!shells_find(call->api->options.shells, call->team->id, str_of(name))) {
            return err_set(err, EINVAL,
                           "validation error: shells[%zu]: there is no shell \"%.64s\"", i, name);
        }
    }
    return 0;
}
