/* context.h - the files that a COPY takes from the directory a template is built from.
 *
 * Owns:     nothing that lasts: archives are unnamed files in the temporary directory.
 * Needs:    tar.
 * Blocks:   for the disk.
 */
#ifndef CLI_CONTEXT_H
#define CLI_CONTEXT_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/encode.h"
#include "lib/base/err.h"

enum { CONTEXT_FILES_MAX = 1000 * 1000 };

struct context;

/* Reads .dockerignore of the directory, if there is one. */
must_check int context_open(const char *dir, struct context **out, struct err *err);
void context_free(struct context *context);

struct context_archive {
    int fd; /* the caller's */
    int64_t bytes;
    char hash[SHA256_HEX_LEN + 1]; /* of names, modes and contents; not of times and owners */
};

/* Whether context_pack() would find something, without reading it. */
must_check int context_check(struct context *context, const char *source, struct err *err);

/* A tar of what `source` names, globs and all, below its directory and not ignored. -EINVAL when it
 * leads out of it, -ENOENT when there is nothing. */
must_check int context_pack(struct context *context, const char *source,
                            struct context_archive *out, struct err *err);

/* Makes an archive of a file that is a tar already, and takes the file over. The hash is that of
 * its bytes. */
must_check int context_archive_of(int fd, struct context_archive *out, struct err *err);

/* Whether a path is left out by the lines of a .dockerignore. Pure. */
bool context_ignores(struct str lines, const char *path);

#endif
