/* seal.h - a value as it is stored: AES-256-GCM, bound to the name of its owner, so that it cannot
 * be put in the place of another value. Pure. */
#ifndef SECRETS_SEAL_H
#define SECRETS_SEAL_H

#include "lib/base/buf.h"
#include "serve/secrets/key.h"

enum {
    SEAL_VALUE_BYTES_MAX = 64 * 1024,
    SEAL_TEXT_BYTES_MAX = (SEAL_VALUE_BYTES_MAX + 64) / 3 * 4 + 4,
};

/* Appends the text for the store and a NUL. `of` names the owner of the value. */
must_check int seal(const uint8_t key[SECRET_KEY_BYTES], const char *of, struct str value,
                    struct buf *out);

/* Appends the value. -EBADMSG when it is not what seal() made with that key and `of`. */
must_check int unseal(const uint8_t key[SECRET_KEY_BYTES], const char *of, const char *sealed,
                      struct buf *out);

#endif
