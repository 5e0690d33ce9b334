/* metadata.h - a file's own key/value pairs, kept in extended attributes user.e2b.<key>.
 *
 * Blocks:   on the disk: for the thread pool. metadata_of_headers() does not.
 */
#ifndef AGENT_METADATA_H
#define AGENT_METADATA_H

#include "filesystem.pb-c.h"
#include "inside/agent/arena.h"
#include "lib/base/err.h"
#include "lib/http/http.h"

enum {
    METADATA_KEY_MAX = 255 - 9, /* the kernel's limit on a name, less "user.e2b." */
    METADATA_BYTES_MAX = 4096,  /* names and values of one file together */
    METADATA_PAIRS_MAX = 256,
};

/* Pairs as they go to the kernel: "user.e2b.key\0value\0" one after the other. */
struct metadata {
    char bytes[METADATA_BYTES_MAX + 2 * METADATA_PAIRS_MAX];
    size_t len;
};

/* From X-Metadata-<key> headers. -EINVAL with a sentence when a pair could not be kept. */
must_check int metadata_of_headers(const struct http_request *req, struct metadata *out,
                                   struct err *err);

/* Makes these the file's only metadata. A file system without attributes keeps none: no error. */
must_check int metadata_write(int fd, const struct metadata *metadata);

/* Into entry->metadata. Pairs that are not UTF-8 are left out; so are all when they cannot be read.
 * -ENOBUFS when the arena is full. */
must_check int metadata_read(struct arena *arena, const char *path, Filesystem__EntryInfo *entry);

#endif
