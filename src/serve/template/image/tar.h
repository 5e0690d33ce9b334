/* tar.h - finds a file in a tar, without reading what lies between. */
#ifndef IMAGE_TAR_H
#define IMAGE_TAR_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum { TAR_ENTRIES_MAX = 100000 };

struct tar_file {
    int64_t offset, length;
};

/* A regular file of that name; a link to one that comes before it is followed once. Blocks for the
 * disk. -ENOENT with a sentence. */
must_check int tar_find(int fd, const char *name, struct tar_file *out, struct err *err);

#endif
