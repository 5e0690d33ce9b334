/* resolve.c - from a name to a saved layer.
 *
 *      manifest ─► (of this architecture) ─► config ─► chain of names
 *      downloads, one after the other ──┐
 *      a jail from what is saved already ┴─► unpack ─► save ─► unpack ─► ... ─► done
 *
 * The save after each layer is named by a chain of digests: of the layer's blob and of all before
 * it. Each digest was compared with the content, so no image can put its files under another's
 * name; images that begin with the same layers share them.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/base/fd.h"
#include "lib/base/foreign.h"
#include "serve/template/image/feed.h"
#include "serve/template/image/internal.h"

enum {
    CHAIN_DIGITS = 40,
    INDEX_DEPTH_MAX = 3,
    LINE_BYTES = 512,
};

#define CHAIN_PREFIX KEEPER_SAVED_BUILT "i"

struct image_resolve {
    struct image_store *store;
    const struct image_handler *handler;
    void *ctx;
    struct reference reference;
    char name[IMAGE_NAME_BYTES];
    struct registry *registry; /* or */
    struct local *local;

    struct buf body; /* of a manifest or a config */
    bool too_long;
    int depth;
    struct manifest manifest;
    char digest[REFERENCE_DIGEST_BYTES]; /* of the manifest read last */
    char wanted[REFERENCE_DIGEST_BYTES]; /* "": any */
    json_t *config;
    char (*chain)[KEEPER_SAVED_BYTES]; /* after each layer */

    uint32_t fetched; /* layers that are here */
    uint32_t made;    /* layers that are saved */
    struct download *download;
    struct image_jail *jail;
    struct feed *feed;
    uint32_t asked; /* questions to the jails' maker that it has not answered */
    bool busy;      /* a layer is being made */
    bool over;
    struct err early; /* found before it began; code 0: nothing */
    uv_timer_t timer; /* begins it; is closed last */
};

/* ---- ends ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct image_resolve *r = container_of(handle, struct image_resolve, timer);

    buf_fini(&r->body);
    json_decref(r->config);
    free(r->chain);
    free(r);
}

static void release(struct image_resolve *r)
{
    if (r->over && r->asked == 0) {
        uv_close((uv_handle_t *)&r->timer, on_timer_closed);
    }
}

/* Cancels its open work; a jail that arrives later is closed then. */
static void stop(struct image_resolve *r)
{
    r->over = true;
    registry_free(move_ptr(&r->registry));
    blob_cancel(move_ptr(&r->download));
    feed_cancel(move_ptr(&r->feed));
    local_free(move_ptr(&r->local));
    if (r->jail) {
        r->store->jails.close(move_ptr(&r->jail));
    }
    (void)uv_timer_stop(&r->timer);
}

void image_cancel(struct image_resolve *r)
{
    stop(r);
    release(r);
}

static void fail(struct image_resolve *r, const struct err *err)
{
    struct err why = *err;

    stop(r);
    r->handler->done(r->ctx, NULL, &why);
    release(r);
}

static void succeed(struct image_resolve *r)
{
    const json_t *c = r->config;
    struct image_result result = {
        .saved = r->chain[r->manifest.layers_n - 1],
        .digest = r->digest,
        .config = {.env = json_object_get(c, "env"),
                   .user = json_string_value(json_object_get(c, "user")),
                   .workdir = json_string_value(json_object_get(c, "workdir")),
                   .entrypoint = json_object_get(c, "entrypoint"),
                   .cmd = json_object_get(c, "cmd")},
    };

    stop(r);
    r->handler->done(r->ctx, &result, NULL);
    release(r);
}

printf_like(2, 3) static void say(struct image_resolve *r, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list ap;

    va_start(ap, format);
    (void)vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    r->handler->line(r->ctx, line);
}

/* ---- layers ---- */

static void make_next(struct image_resolve *r);

static void fail_layer(struct image_resolve *r, const struct err *err)
{
    struct err why = *err;

    (void)err_wrap(&why, "layer %u of %u", r->made + 1, r->manifest.layers_n);
    fail(r, &why);
}

static void on_saved(void *ctx, int error, const struct err *err)
{
    struct image_resolve *r = ctx;

    r->asked--;
    if (r->over) {
        release(r);
    } else if (error < 0 && error != -EEXIST) { /* another build was faster */
        fail_layer(r, err);
    } else {
        r->busy = false;
        r->made++;
        make_next(r);
    }
}

static void on_fed(void *ctx, const struct feed_end *end)
{
    struct image_resolve *r = ctx;

    r->feed = NULL;
    if (end->err) {
        fail_layer(r, end->err);
        return;
    }
    say(r, "Layer %u of %u: %llu files, %.1f MB", r->made + 1, r->manifest.layers_n,
        (unsigned long long)end->entries, (double)end->bytes / 1e6);
    r->asked++;
    r->store->jails.save(r->jail, r->chain[r->made], on_saved, r);
}

static int layer_open(struct image_resolve *r, struct local_part *out, struct err *err)
{
    const struct manifest_blob *blob = &r->manifest.layers[r->made];

    if (r->local) {
        return local_layer(r->local, &r->manifest, r->made, out, err);
    }
    int fd = blob_open(r->store, blob);
    if (fd < 0) {
        return err_set(err, -fd, "the download is not there any more");
    }
    *out = (struct local_part){.fd = fd, .length = (int64_t)blob->size};
    return 0;
}

static void on_dialled(void *ctx, int fd_or_error)
{
    struct image_resolve *r = ctx;
    scoped_foreign fd = fd_or_error;
    struct local_part part;
    struct err err;

    r->asked--;
    if (r->over) {
        release(r);
        return;
    }
    if (fd < 0) {
        (void)err_set(&err, -fd, "start the unpacker: %s", strerror(-fd));
        fail_layer(r, &err);
        return;
    }
    if (layer_open(r, &part, &err) < 0) {
        fail_layer(r, &err);
        return;
    }
    const struct feed_plan plan = {.socket_fd = move_fd(&fd),
                                   .file_fd = part.fd,
                                   .offset = part.offset,
                                   .length = part.length,
                                   .options = "mode layer\n"};
    r->feed = feed_start(r->store->use.loop, &plan, NULL, on_fed, r);
}

static void layer_make(struct image_resolve *r)
{
    r->asked++;
    r->store->jails.dial(r->jail, on_dialled, r);
}

static void on_jail(void *ctx, struct image_jail *jail, const struct err *err)
{
    struct image_resolve *r = ctx;

    r->asked--;
    if (r->over) {
        if (jail) {
            r->store->jails.close(jail);
        }
        release(r);
    } else if (!jail) {
        fail_layer(r, err);
    } else {
        r->jail = jail;
        layer_make(r);
    }
}

static void make_next(struct image_resolve *r)
{
    if (r->made == r->manifest.layers_n) {
        succeed(r);
    } else if (r->busy || r->made == r->fetched) {
        return;
    } else if (r->jail) {
        r->busy = true;
        layer_make(r);
    } else {
        r->busy = true;
        r->asked++;
        r->store->jails.open(r->store->jails.ctx, r->made ? r->chain[r->made - 1] : NULL, on_jail,
                             r);
    }
}

/* ---- downloads ---- */

static void fetch_next(struct image_resolve *r);

static void on_progress(void *ctx, uint64_t bytes)
{
    struct image_resolve *r = ctx;

    say(r, "Layer %u of %u: downloaded %.1f of %.1f MB", r->fetched + 1, r->manifest.layers_n,
        (double)bytes / 1e6, (double)r->manifest.layers[r->fetched].size / 1e6);
}

static void on_fetched(void *ctx, const struct err *err)
{
    struct image_resolve *r = ctx;

    r->download = NULL;
    if (err) {
        struct err why = *err;
        (void)err_wrap(&why, "layer %u of %u", r->fetched + 1, r->manifest.layers_n);
        fail(r, &why);
        return;
    }
    r->fetched++;
    fetch_next(r);
    make_next(r);
}

static const struct blob_handler blob_handler = {.progress = on_progress, .done = on_fetched};

static void fetch_next(struct image_resolve *r)
{
    if (r->fetched < r->manifest.layers_n) {
        r->download =
            blob_fetch(r->store, r->registry, &r->manifest.layers[r->fetched], &blob_handler, r);
    }
}

/* ---- the chain ---- */

/* Registries and disks have chains of their own: what a disk says of its blobs is not compared. */
static void chain_make(struct image_resolve *r,
                       char diff_ids[IMAGE_LAYERS_MAX][REFERENCE_DIGEST_BYTES])
{
    char hex[SHA256_HEX_LEN + 1] = "", text[sizeof(hex) + REFERENCE_DIGEST_BYTES + 16];

    r->chain = xcalloc(r->manifest.layers_n, sizeof(*r->chain));
    for (uint32_t i = 0; i < r->manifest.layers_n; i++) {
        const char *id = r->local ? diff_ids[i] : r->manifest.layers[i].digest;
        (void)snprintf(text, sizeof(text), "%s %s %s", r->local ? "local" : "registry", hex, id);
        sha256_hex(text, strlen(text), hex);
        (void)snprintf(r->chain[i], sizeof(r->chain[i]), CHAIN_PREFIX "%.*s", CHAIN_DIGITS, hex);
    }
}

static int config_take(struct image_resolve *r, struct err *err)
{
    char(*diff_ids)[REFERENCE_DIGEST_BYTES] = xcalloc(IMAGE_LAYERS_MAX, sizeof(*diff_ids));
    int result = manifest_config_parse(buf_str(&r->body), &r->manifest, &r->config, diff_ids, err);

    if (result == 0 && r->manifest.layers_n == 0) {
        result = err_set(err, EINVAL, "the image has no layers");
    }
    if (result == 0) {
        chain_make(r, diff_ids);
    }
    free(diff_ids);
    return result;
}

static void layers_begin(struct image_resolve *r)
{
    const struct image_jails *jails = &r->store->jails;
    uint32_t n = r->manifest.layers_n;
    struct err err;

    if (config_take(r, &err) < 0) {
        fail(r, &err);
        return;
    }
    r->made = n;
    while (r->made > 0 && !jails->has(jails->ctx, r->chain[r->made - 1])) {
        r->made--;
    }
    if (r->made > 0) {
        say(r, "%u of %u layers of %s are here already", r->made, n, r->name);
    }
    r->fetched = r->local ? n : r->made;
    fetch_next(r);
    make_next(r);
}

/* ---- manifest and config, from a registry ---- */

static void on_begin(void *ctx, uint64_t at)
{
    struct image_resolve *r = ctx;

    (void)at; /* nothing is resumed */
    buf_clear(&r->body);
    r->too_long = false;
}

static size_t on_write(void *ctx, const char *data, size_t len)
{
    struct image_resolve *r = ctx;

    r->too_long = buf_append(&r->body, data, len) < 0;
    return r->too_long ? 0 : len;
}

static bool body_is_good(struct image_resolve *r, const struct err *err, char digest[])
{
    char hex[SHA256_HEX_LEN + 1];
    struct err why;

    if (r->too_long) {
        (void)err_set(&why, EFBIG, "the registry's answer is larger than %d bytes",
                      IMAGE_MANIFEST_BYTES_MAX);
        fail(r, &why);
        return false;
    }
    if (err) {
        fail(r, err);
        return false;
    }
    sha256_hex(buf_at(&r->body), buf_len(&r->body), hex);
    (void)snprintf(digest, REFERENCE_DIGEST_BYTES, "sha256:%s", hex);
    if (r->wanted[0] && strcmp(r->wanted, digest) != 0) {
        (void)err_set(&why, EBADMSG,
                      "the registry sent something else than it promised: the digest of %.19s... "
                      "differs",
                      r->wanted);
        fail(r, &why);
        return false;
    }
    return true;
}

static void on_config(void *ctx, const struct err *err)
{
    struct image_resolve *r = ctx;
    char digest[REFERENCE_DIGEST_BYTES];

    if (body_is_good(r, err, digest)) {
        layers_begin(r);
    }
}

static const struct registry_sink config_sink = {
    .begin = on_begin, .write = on_write, .done = on_config};

static void manifest_get(struct image_resolve *r);

static void on_manifest(void *ctx, const struct err *err)
{
    struct image_resolve *r = ctx;
    struct manifest_blob pick;
    char path[REFERENCE_DIGEST_BYTES + 16];
    struct err why;

    if (!body_is_good(r, err, r->digest)) {
        return;
    }
    int kind = manifest_parse(buf_str(&r->body), (struct str){NULL, 0}, &r->manifest, &pick, &why);
    if (kind > 0 && ++r->depth > INDEX_DEPTH_MAX) {
        kind = err_set(&why, EINVAL, "the image's index leads nowhere");
    }
    if (kind < 0) {
        fail(r, &why);
    } else if (kind > 0) {
        memcpy(r->wanted, pick.digest, sizeof(r->wanted));
        manifest_get(r);
    } else {
        memcpy(r->wanted, r->manifest.config.digest, sizeof(r->wanted));
        (void)snprintf(path, sizeof(path), "blobs/%s", r->wanted);
        registry_get(r->registry, path, NULL, &config_sink, r);
    }
}

static const struct registry_sink manifest_sink = {
    .begin = on_begin, .write = on_write, .done = on_manifest};

static void manifest_get(struct image_resolve *r)
{
    char path[REFERENCE_TAG_BYTES + REFERENCE_DIGEST_BYTES];

    (void)snprintf(path, sizeof(path), "manifests/%s", r->wanted[0] ? r->wanted : r->reference.tag);
    registry_get(r->registry, path, MANIFEST_ACCEPT, &manifest_sink, r);
}

/* ---- the beginning ---- */

static void local_begin(struct image_resolve *r)
{
    struct err err;

    say(r, "Reading the image %s", r->name);
    if (local_open(&r->store->use, &r->reference, &r->local, &err) < 0 ||
        local_manifest(r->local, &r->manifest, r->digest, &err) < 0 ||
        local_config(r->local, &r->manifest, &r->body, &err) < 0) {
        fail(r, &err);
    } else {
        layers_begin(r);
    }
}

static void on_start(uv_timer_t *timer)
{
    struct image_resolve *r = container_of(timer, struct image_resolve, timer);

    if (r->early.code) {
        fail(r, &r->early);
    } else if (!r->registry) {
        local_begin(r);
    } else {
        say(r, "Pulling the image %s from %s", r->name, registry_host(r->registry));
        memcpy(r->wanted, r->reference.digest, sizeof(r->wanted));
        manifest_get(r);
    }
}

static int prepare(struct image_resolve *r, const char *name,
                   const struct image_credentials *credentials, struct err *err)
{
    const struct image_options *use = &r->store->use;
    int result = reference_parse(str_of(name), &r->reference, err);

    if (result < 0) {
        return result;
    }
    (void)str_copy(r->name, sizeof(r->name), str_of(name)); /* no longer than a reference may be */
    if (r->reference.kind != REFERENCE_REGISTRY) {
        return 0;
    }
    return registry_new(&(struct registry_options){.loop = use->loop,
                                                   .multi = r->store->multi,
                                                   .reference = &r->reference,
                                                   .mirror = use->mirror,
                                                   .plain_http = use->plain_http,
                                                   .credentials = credentials},
                        &r->registry, err);
}

struct image_resolve *image_resolve(struct image_store *store, const char *reference,
                                    const struct image_credentials *credentials,
                                    const struct image_handler *handler, void *ctx)
{
    struct image_resolve *r = xnew(struct image_resolve);

    *r = (struct image_resolve){.store = store, .handler = handler, .ctx = ctx};
    buf_init(&r->body, IMAGE_MANIFEST_BYTES_MAX);
    if (uv_timer_init(store->use.loop, &r->timer) < 0) {
        abort();
    }
    (void)prepare(r, reference, credentials, &r->early);
    (void)uv_timer_start(&r->timer, on_start, 0, 0);
    return r;
}
