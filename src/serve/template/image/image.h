/* image.h - from the name of an image to a layer that jails start from.
 *
 *      name ─► map ─┬─► a template of this machine (nothing is fetched)
 *                   └─► manifest ─► blobs, by digest ─► a jail per image, a save per layer
 *
 * Images come from OCI registries, from `oci:` directories, `docker-archive:` files and, by recipe,
 * from `debootstrap:`. Their content is hostile until it is in a jail: manifests and configs are
 * read here, with limits; the archives themselves are read by atoll-unpack
 * (inside/unpack/unpack.h), which runs inside the jail whose disk it fills.
 *
 * Owns:     <state>/blobs: downloads by digest, whole or to be resumed.
 * Needs:    a loop; jails to unpack in, which the caller makes.
 * Blocks:   image_store_new() lists a directory; the rest never.
 * Threads:  the loop's; files are written on libuv's.
 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "wire/keeper.h"

enum {
    IMAGE_NAME_BYTES = 512,
    IMAGE_LAYERS_MAX = 128,
    IMAGE_MANIFEST_BYTES_MAX = 4 * 1024 * 1024, /* also of a config */
    IMAGE_CONNECT_TIMEOUT_MS = 10 * 1000,
    IMAGE_STALL_TIMEOUT_S = 30, /* a registry that sends less than a byte a second for so long */
    IMAGE_TRIES_MAX = 5,        /* of one download: each goes on where the last was cut */
};
#define IMAGE_BLOB_BYTES_MAX ((uint64_t)64 << 30)

/* ---- jails, made by the caller ---- */

/* The jail that `open` made; opaque here. */
struct image_jail;

struct image_jails {
    void *ctx;
    /* Whether something is saved under that name: then it is whole and need not be made. */
    bool (*has)(void *ctx, const char *saved);
    /* A jail over KEEPER_LAYER_EMPTY whose disk begins as a copy of what was saved as `from` (NULL:
     * empty), running as root, without network. `done` comes once; jail NULL: err says why. */
    void (*open)(void *ctx, const char *from,
                 void (*done)(void *arg, struct image_jail *jail, const struct err *err),
                 void *arg);
    /* As sandbox_dial(), with CHANNEL_PORT_UNPACK. done comes once, also after close. */
    void (*dial)(struct image_jail *jail, void (*done)(void *arg, int fd_or_error), void *arg);
    /* Saves its disk under that name, durably; the jail runs on. done comes once, also after close;
     * error 0 or -errno. */
    void (*save)(struct image_jail *jail, const char *name,
                 void (*done)(void *arg, int error, const struct err *err), void *arg);
    /* Ends it. */
    void (*close)(struct image_jail *jail);
};

/* ---- the store of images ---- */

struct image_options { /* borrowed for the life of the store */
    uv_loop_t *loop;
    const char *state; /* directory that blobs/ is made in */
    const char *map;   /* "pattern=template,...", "none", or NULL or "": the default */
    /* host[:port] asked instead of a registry: "docker.io=host,..." or "host". */
    const char *mirror;
    const char *local; /* the directory that oci: and docker-archive: may read below; NULL: none */
    bool plain_http;   /* registries on loopback are used without TLS */
};

struct image_store;

must_check int image_store_new(const struct image_options *options, const struct image_jails *jails,
                               struct image_store **out, struct err *err);
/* Every resolve under way must have ended or been cancelled. The loop must run once more. */
void image_store_free(struct image_store *store);

/* The template of this machine that stands for an image by the operator's map, or NULL; behind a
 * '+', what is added to it. The pointer is the store's, until it is asked again. */
const char *image_mapped(struct image_store *store, struct str reference);

/* The template that stands for an image whose registry cannot be reached (-EHOSTUNREACH), or NULL.
 * NULL also when the operator has set the map, which then decides alone. */
const char *image_offline(const struct image_store *store, struct str reference);

/* Well-known names, so that a machine without a registry builds what most templates begin with. A
 * tag is here only when `base` has that version, or when it names none: a pattern without a
 * template, which comes first, is for images of another system. "+node" stands for the version of
 * Node that the tag names (serve/template/build/stand_in.h). */
#define IMAGE_BASE_IS "Debian 13 with Python 3.13 and Node 24"
#define IMAGE_MAP_DEFAULT                                                                          \
    "*alpine*=,*bookworm*=,*bullseye*=,*buster*=,*jammy*=,*noble*=,"                               \
    "debian:latest=base,debian:stable*=base,debian:trixie*=base,debian:13=base,debian:13-*=base,"  \
    "buildpack-deps:latest=base,buildpack-deps:stable*=base,"                                      \
    "buildpack-deps:trixie*=base,"                                                                 \
    "python:latest=base,python:slim*=base,python:trixie*=base,python:3=base,python:3-*=base,"      \
    "python:3.13=base,python:3.13-*=base,node:*=base+node,"                                        \
    "e2bdev/base:*=base,debootstrap:trixie=base,e2bdev/code-interpreter:*=code-interpreter-v1"

/* Ubuntu is fetched where that is possible. Most templates begin with one of its releases and use
 * apt alone, so without a registry Debian is of more use to them than a refusal; the log says it.
 */
#define IMAGE_MAP_OFFLINE "ubuntu:*=base"

/* ---- a single image ---- */

/* As the SDK sends them in fromImageRegistry. All NULL: anonymous. */
struct image_credentials {
    const char *username, *password;
    const char *aws_access_key_id, *aws_secret_access_key, *aws_region;
    const char *gcp_service_account_json;
};

/* Reads {type: "registry" | "aws" | "gcp", ...}; the strings are borrowed from `json`. NULL and
 * null: none. -EINVAL with a sentence. */
must_check int image_credentials_parse(const json_t *json, struct image_credentials *out,
                                       struct err *err);

struct image_config {  /* strings and objects are the resolve's, during the call */
    const json_t *env; /* object of strings; never NULL */
    const char *user;  /* "" when the image says nothing; likewise */
    const char *workdir;
    const json_t *entrypoint; /* array of strings; never NULL; likewise */
    const json_t *cmd;
};

struct image_result {
    const char *saved;  /* the layer: KEEPER_SAVED_PREFIX... */
    const char *digest; /* of the manifest: "sha256:..."; changes when the image did */
    struct image_config config;
};

struct image_handler {
    void (*line)(void *ctx, const char *text); /* progress, for the build's log */
    /* Once; not after image_cancel(). result NULL: err has the sentence. */
    void (*done)(void *ctx, const struct image_result *result, const struct err *err);
};

struct image_resolve;

/* `done` comes from the loop, never before this returns. The reference is one of
 *      [registry/]repository[:tag][@digest]     oci:path[:tag]     docker-archive:path[:name]
 * A reference that image_mapped() knows is the caller's to handle. */
struct image_resolve *image_resolve(struct image_store *store, const char *reference,
                                    const struct image_credentials *credentials,
                                    const struct image_handler *handler, void *ctx);

/* Cancels it: nothing is called any more, its jail is closed; downloads stay for the next
 * resolve. */
void image_cancel(struct image_resolve *resolve);

/* Removes blobs that nothing has used since then; returns the bytes freed. */
uint64_t image_prune(struct image_store *store, int64_t older_than_ms);

#endif
