/* internal.h - shared by the files of image/.
 *
 *   reference.c    names and the map of them          pure
 *   challenge.c    WWW-Authenticate                   pure
 *   manifest.c     manifests, indexes, configurations pure
 *   credentials.c  credentials as the SDK sends them  pure
 *   registry.c     requests to a registry
 *   blobs.c        downloads, by digest
 *   local.c        images on this machine's disk
 *   feed.c         a file into an unpacker
 *   resolve.c      from a name to a saved layer
 *   store.c        the state that they share
 */
#ifndef IMAGE_INTERNAL_H
#define IMAGE_INTERNAL_H

#include "lib/base/buf.h"
#include "serve/template/image/image.h"
#include "serve/template/image/manifest.h"
#include "serve/template/image/registry.h"

struct download;

struct image_store {
    struct image_options use;
    struct image_jails jails;
    struct multi *multi;
    int blobs_fd; /* the directory */
    struct download *downloads;
    char *map;
    char mapped[IMAGE_NAME_BYTES]; /* the last result of image_mapped() */
};

/* ---- blobs.c ---- */

enum { BLOB_NAME_BYTES = REFERENCE_DIGEST_BYTES + 8 };

/* Its file, open for reading, if it is here as a whole; -ENOENT. It counts as used now. */
must_check int blob_open(struct image_store *store, const struct manifest_blob *blob);

struct blob_handler {
    void (*progress)(void *ctx, uint64_t bytes);    /* of the whole, now and then */
    void (*done)(void *ctx, const struct err *err); /* NULL: blob_open() finds it */
};

/* Fetches it, or waits for another fetch of it. `done` is called once, from the loop. The registry
 * does nothing else meanwhile. */
struct download *blob_fetch(struct image_store *store, struct registry *registry,
                            const struct manifest_blob *blob, const struct blob_handler *handler,
                            void *ctx);
/* Nothing is called any more; the downloaded part stays for the next fetch. Accepts NULL. */
void blob_cancel(struct download *download);

/* ---- local.c ---- */

/* Where the parts of an image on this machine lie. */
struct local_part {
    int fd; /* owned */
    int64_t offset, length;
};

struct local;

/* Blocks for the disk, briefly: the directory is the operator's. */
must_check int local_open(const struct image_options *options, const struct reference *reference,
                          struct local **out, struct err *err);
void local_free(struct local *local);

/* The manifest and the config, as a registry would send them; the caller frees. */
must_check int local_manifest(struct local *local, struct manifest *out,
                              char digest[REFERENCE_DIGEST_BYTES], struct err *err);
must_check int local_config(struct local *local, const struct manifest *manifest, struct buf *out,
                            struct err *err);
must_check int local_layer(struct local *local, const struct manifest *manifest, uint32_t index,
                           struct local_part *out, struct err *err);

#endif
