/* export_key.h - the file with the key that exported saves are sealed with.
 *
 * It is DATA/export.key: 64 hexadecimal digits and a newline, of root, 0600. The keeper reads it,
 * and `atoll export-key` shows and sets it. The directory belongs to root: a file that others
 * could have put there is refused, because whoever knows the key can make root read what they
 * wrote.
 *
 * Owns:    nothing.
 * Needs:   root.
 * Blocks:  for the disk.
 * Threads: any.
 */
#ifndef WIRE_EXPORT_KEY_H
#define WIRE_EXPORT_KEY_H

#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    EXPORT_KEY_BYTES = 32,
    EXPORT_KEY_HEX_LEN = 2 * EXPORT_KEY_BYTES,
};
#define EXPORT_KEY_FILE "export.key"

/* -ENOENT when there is none. */
must_check int export_key_read(int dir_fd, char hex[EXPORT_KEY_HEX_LEN + 1], struct err *err);
/* The same, and makes one when there is none. */
must_check int export_key_read_or_make(int dir_fd, char hex[EXPORT_KEY_HEX_LEN + 1],
                                       struct err *err);
/* Puts it in the place of the one before, if there is one. */
must_check int export_key_write(int dir_fd, const char *hex, struct err *err);
bool export_key_ok(const char *hex);

#endif
