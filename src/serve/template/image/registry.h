/* registry.h - requests to one registry about one repository, with authentication, time limits and
 * retries.
 *
 * Owns:     the request under way; the token.
 * Needs:    a multi (lib/web/multi.h) that outlives it.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef IMAGE_REGISTRY_H
#define IMAGE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/web/multi.h"
#include "serve/template/image/reference.h"

struct registry;

struct registry_options { /* borrowed during the call */
    uv_loop_t *loop;
    struct multi *multi;
    const struct reference *reference;
    const char *mirror; /* as image_options'; NULL: none */
    bool plain_http;
    const struct image_credentials *credentials; /* copied */
};

must_check int registry_new(const struct registry_options *options, struct registry **out,
                            struct err *err);

/* Ends a request under way without a call. Accepts NULL. */
void registry_free(struct registry *registry);

/* Where an answer goes. Each try may begin elsewhere. */
struct registry_sink {
    uint64_t (*offset)(void *ctx);         /* bytes that need not be sent again */
    void (*begin)(void *ctx, uint64_t at); /* the bytes that follow begin there */
    /* len: taken; CURL_WRITEFUNC_PAUSE: later, see registry_resume(); 0: no more is wanted. */
    size_t (*write)(void *ctx, const char *data, size_t len);
    void (*done)(void *ctx, const struct err *err); /* NULL: the answer was 200 and is whole */
};

/* GETs <repository>/<path>: "manifests/latest", "blobs/sha256:...". Only one request may be under
 * way. `done` is called once, from the loop. */
void registry_get(struct registry *registry, const char *path, const char *accept,
                  const struct registry_sink *sink, void *ctx);

/* The sink that paused has room again. */
void registry_resume(struct registry *registry);

const char *registry_host(const struct registry *registry);

#endif
