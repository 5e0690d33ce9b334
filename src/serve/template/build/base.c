/* base.c - the base of a build: a template of this machine, a template that stands for an image, or
 * an image.
 *
 * An image lacks what templates have: the user `user`, who may become anybody, and a home. It is
 * provisioned once, and the result is cached like a step. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/template/build/internal.h"
#include "serve/template/name.h"

enum {
    KEY_BYTES_MAX = 4096, /* of the text that an addition's key is made from */
};

/* The provisioning script is part of its key: another script makes another layer. It runs in
 * whatever shell the image has. Debian's /etc/profile replaces PATH: the image's own must survive
 * `bash -l`. */
static const char provision_script[] =
    "set -e\n"
    "if ! grep -q '^user:' /etc/passwd 2>/dev/null; then\n"
    "  if command -v useradd >/dev/null; then useradd --create-home --shell /bin/bash user\n"
    "  elif command -v adduser >/dev/null; then adduser -D -s /bin/sh user\n"
    "  else\n"
    "    echo 'user:x:1000:1000::/home/user:/bin/sh' >>/etc/passwd\n"
    "    echo 'user:x:1000:' >>/etc/group\n"
    "  fi\n"
    "fi\n"
    "mkdir -p /home/user && chown user:user /home/user\n"
    "mkdir -p /etc/sudoers.d && echo 'user ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/user\n"
    "chmod 0440 /etc/sudoers.d/user\n"
    "if command -v passwd >/dev/null; then passwd -d user >/dev/null 2>&1 || true; fi\n"
    "mkdir -p /code /usr/local && chmod 777 /code && chmod -R 777 /usr/local\n"
    "if [ -f /etc/profile ]; then\n"
    "  sed -i 's|^  PATH=\"\\(/[^\"]*\\)\"$|  PATH=\"${PATH:-\\1}\"|' /etc/profile\n"
    "fi\n";

static json_t *env_of(const char *text)
{
    json_t *env = json_loads(text ? text : "{}", 0, NULL);

    if (!json_is_object(env)) {
        json_decref(env);
        env = json_object();
    }
    return env;
}

/* ---- a template ---- */

static char *context_json(const struct context *context)
{
    json_t *object = json_pack("{sssssO}", "user", context->user, "workdir", context->workdir,
                               "env", context->env);
    char *text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);

    json_decref(object);
    if (!text) {
        abort();
    }
    return text;
}

/* ---- additions, cached like a step ---- */

static void addition_take(struct work *work, const char *saved)
{
    (void)str_copy(work->from, sizeof(work->from), str_of(saved));
    memcpy(work->key, work->next_key, sizeof(work->key));
    work_mark(work, "build.base");
    work->phase = NULL;
    steps_next(work);
}

static void on_addition_saved(void *arg, int error, const struct err *err)
{
    struct work *work = arg;
    char name[KEEPER_SAVED_BYTES];

    disk_name_step(work->next_key, name);
    if (work->build && error < 0 && error != -EEXIST) {
        work_fail(work, "the image could not be kept: %s", err->msg);
    } else if (work->build) {
        cache_put(work, name, 0);
        addition_take(work, name);
    }
    work_release(work);
}

static void on_added(struct work *work, const char *out)
{
    char name[KEEPER_SAVED_BYTES];

    (void)out;
    disk_name_step(work->next_key, name);
    if (disk_has(work->all, name)) {
        disk_forget(work->all, name); /* one that was forced is made anew */
    }
    work_hold(work);
    jail_save(work->jail, name, 0, on_addition_saved, work);
}

/* `key` is all that the addition depends on; `add` makes it in the jail. */
static void addition_begin(struct work *work, const char *key, void (*add)(struct work *work))
{
    const struct step step = {.kind = STEP_RUN, .type = "RUN", .files_hash = key};

    chain_step(work->key, &step, work->next_key);
    const struct cached *cached = work->forced ? NULL : cache_find(work->all, work->next_key);
    if (cached) {
        addition_take(work, cached->saved);
    } else {
        work_with_jail(work, add);
    }
}

static void node_add(struct work *work)
{
    const char *const args[] = {work->node, NULL};
    char what[64];

    (void)snprintf(what, sizeof(what), "install Node %s", work->node);
    work_script(work, what, stand_in_node_script, args, on_added);
}

static void node_begin(struct work *work)
{
    scoped_buf(key, KEY_BYTES_MAX);

    if (buf_printf(&key, "node %s\n%s", work->node, stand_in_node_script) < 0 ||
        buf_append(&key, "", 1) < 0) {
        work_fail(work, "the version of Node is too long");
        return;
    }
    addition_begin(work, buf_at(&key), node_add);
}

/* ---- a template, begun ---- */

static void begin_template(struct work *work, const struct template *t, const char *shown,
                           bool with_commands)
{
    work->layers = xstrdup(t->layers);
    if (t->disk_mb > work->build->disk_mb) { /* it never shrinks */
        work->build->disk_mb = t->disk_mb;
    }
    (void)snprintf(work->base, sizeof(work->base), "template %s %s", t->id, t->build_id);
    work->context = (struct context){
        .user = xstrdup(t->user), .workdir = xstrdup(t->workdir), .env = env_of(t->env_json)};
    if (with_commands) {
        work->start_cmd = xstrdup(t->start_cmd);
        work->ready_cmd = xstrdup(t->ready_cmd);
        work->start_context =
            t->start_context ? xstrdup(t->start_context) : context_json(&work->context);
    }
    chain_begin(work->team_id, work->base, work->key);
    work_say(work, LOG_INFO, "[base] FROM %s [%.12s]", shown, work->key);
    if (work->node[0]) {
        node_begin(work);
        return;
    }
    work_mark(work, "build.base");
    work->phase = NULL;
    steps_next(work);
}

static void fail_template(struct work *work, const char *name, int why)
{
    size_t colon = str_find(str_of(name), ':');

    switch (why) {
    case -EACCES:
        work_fail(work, "you don't have access to template '%s'", name);
        break;
    case -ENODATA:
        work_fail(work, "tag '%s' does not exist for template '%.*s'",
                  name[colon] ? name + colon + 1 : TEMPLATE_TAG_DEFAULT, (int)colon, name);
        break;
    case -EINVAL:
        work_fail(work, "Invalid template reference: '%s'", name);
        break;
    default:
        work_fail(work, "template '%s' not found", name);
        break;
    }
}

static void from_template(struct work *work, const char *name, const char *shown,
                          bool with_commands)
{
    int why = 0;
    const struct template *t =
        templates_find(work->all->use.templates, work->team_id, str_of(name), &why);

    if (!t) {
        fail_template(work, name, why);
    } else {
        begin_template(work, t, shown, with_commands);
    }
}

/* ---- an image ---- */

static void provision(struct work *work)
{
    work_script(work, "prepare the image", provision_script, NULL, on_added);
}

/* The answer names a version that can be built, when the image has a stand-in in another
 * version. */
static void fail_image(struct work *work, const struct err *err)
{
    const char *instead = stand_in_instead(work->spec->from_image);

    if (instead) {
        work_fail(work,
                  "%s. Without a registry this machine has " IMAGE_BASE_IS
                  ": use %s, or set image_map or registry_mirror",
                  err->msg, instead);
    } else {
        work_fail(work, "%s", err->msg);
    }
}

/* Says first that it is not the image asked for, so that nobody takes it for that. */
static void from_offline(struct work *work, const char *template, const struct err *err)
{
    work_say(
        work, LOG_WARN,
        "[base] STAND-IN: %s cannot be fetched (%s); the template %s of this machine stands for "
        "it: " IMAGE_BASE_IS " (setting image_map; none: every image is fetched)",
        work->spec->from_image, err->msg, template);
    from_template(work, template, work->spec->from_image, false);
}

static void on_image(void *ctx, const struct image_result *result, const struct err *err)
{
    struct work *work = ctx;
    const char *offline = !result && err->code == EHOSTUNREACH
                              ? image_offline(work->all->images, str_of(work->spec->from_image))
                              : NULL;

    work->resolve = NULL;
    if (offline) {
        from_offline(work, offline, err);
        return;
    }
    if (!result) {
        fail_image(work, err);
        return;
    }
    work->layers = xstrdup(result->saved);
    disk_add(work->all, result->saved); /* used, from now on */
    (void)snprintf(work->base, sizeof(work->base), "image %s %s", result->digest, result->saved);
    work->context = (struct context){
        .user = xstrdup("user"), .workdir = xstrdup(""), .env = json_deep_copy(result->config.env)};
    chain_begin(work->team_id, work->base, work->key);
    work_say(work, LOG_INFO, "[base] FROM %s [%.12s]", work->spec->from_image, work->key);
    addition_begin(work, provision_script, provision);
}

static void on_image_line(void *ctx, const char *text)
{
    work_say(ctx, LOG_INFO, "[base] %s", text);
}

static void from_image(struct work *work)
{
    static const struct image_handler handler = {.line = on_image_line, .done = on_image};
    struct image_credentials credentials = {0};
    struct err err;

    if (image_credentials_parse(work->spec->registry, &credentials, &err) < 0) {
        work_fail(work, "%s", err.msg);
        return;
    }
    work->resolve =
        image_resolve(work->all->images, work->spec->from_image, &credentials, &handler, work);
}

/* The first line of the log says so: nobody should take the stand-in for the image. */
static void from_stand_in(struct work *work, const char *mapped)
{
    const char *image = work->spec->from_image;
    struct stand_in stand_in;
    struct err err;

    if (stand_in_read(mapped, image, &stand_in, &err) < 0) {
        work_fail(work, "%s", err.msg);
        return;
    }
    bool is_base = strcmp(stand_in.template, "base") == 0;
    work_say(
        work, LOG_WARN,
        "[base] STAND-IN: %s is not fetched; the template %s of this machine stands for it%s%s%s%s"
        " (setting image_map; none: every image is fetched)",
        image, stand_in.template, is_base ? ": " IMAGE_BASE_IS : "",
        stand_in.node[0] ? ", with Node " : "", stand_in.node, stand_in.node[0] ? " from npm" : "");
    (void)str_copy(work->node, sizeof(work->node), str_of(stand_in.node));
    from_template(work, stand_in.template, image, false);
}

void base_begin(struct work *work)
{
    const struct spec *spec = work->spec;

    if (spec->from_template) {
        from_template(work, spec->from_template, spec->from_template, true);
        return;
    }
    const char *mapped = image_mapped(work->all->images, str_of(spec->from_image));
    if (mapped) {
        from_stand_in(work, mapped);
    } else {
        from_image(work);
    }
}
