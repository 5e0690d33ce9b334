/* id.h - random names. Every name comes from getrandom(): it cannot be guessed, and a clone of a
 * process gets other names than its source. */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/str.h"

enum {
    ID_SANDBOX_LEN = 21, /* 'i' and twenty of [a-z0-9] */
    ID_TEMPLATE_LEN = 20,
    ID_UUID_LEN = 36,
};

/* Fills with random bytes. Cannot fail: it aborts where the kernel has no randomness. */
void id_random(void *out, size_t len);

/* len characters of [a-z0-9] and a NUL: out holds len + 1. */
void id_alnum(char *out, size_t len);

/* 2 * bytes lower-case hex digits of fresh randomness and a NUL. */
void id_hex(char *out, size_t bytes);

void id_sandbox(char out[ID_SANDBOX_LEN + 1]);
void id_uuid(char out[ID_UUID_LEN + 1]);
bool id_uuid_ok(struct str text); /* of the form of one, in digits of either case */

#endif
