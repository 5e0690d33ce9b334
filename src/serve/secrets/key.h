/* key.h - the daemon's own key: 32 random bytes in a file that only it can read.
 *
 * Each user of a key derives its own from it, under a label, so that no derived key tells anything
 * about another. If the file is lost, the secrets are lost, and nothing else.
 *
 * Blocks:   for the disk.
 * Threads:  any.
 */
#ifndef SECRETS_KEY_H
#define SECRETS_KEY_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum { SECRET_KEY_BYTES = 32 };

/* Reads the file, or makes it (0600) when there is none. A file that is damaged, or that others may
 * read, is an error: a new one in its place would make every secret unreadable. */
must_check int key_load(const char *path, uint8_t out[SECRET_KEY_BYTES], struct err *err);

void key_derive(const uint8_t key[SECRET_KEY_BYTES], const char *label,
                uint8_t out[SECRET_KEY_BYTES]);

#endif
