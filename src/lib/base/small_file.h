/* small_file.h - reads a whole small file: one of /proc or /sys, a setting, a record.
 *
 * Owns:    nothing.
 * Blocks:  as read() of the file does. A name that a tenant may have prepared is not for these
 *          functions: the keeper opens such names with keeper/disk/tenant_file.h.
 * Threads: any.
 */
#ifndef BASE_SMALL_FILE_H
#define BASE_SMALL_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/buf.h"

/* Reads the file `name` in dir_fd (or AT_FDCWD) into `text`: at most size - 1 bytes, then a zero
 * byte. Returns the number of bytes, or -errno with errno set; `text` is "" then. A symbolic link
 * as the last part of the name is not followed. */
ssize_t small_file_read(int dir_fd, const char *name, char *text, size_t size);

/* The same for an open file, from its current position. */
ssize_t small_file_read_fd(int fd, char *text, size_t size);

/* The decimal number at the start of the file; 0 when the file cannot be read. */
uint64_t small_file_number(int dir_fd, const char *name);

/* The rest of an open file as a text, in *out (the caller frees it): at most max bytes, and a
 * longer file is cut there. Returns its length, or -errno. */
must_check ssize_t small_file_text(int fd, size_t max, char **out);

/* Appends the rest of an open file to `out`. -ENOBUFS when it does not fit, else 0 or -errno. */
must_check int small_file_append(int fd, struct buf *out);

#endif
