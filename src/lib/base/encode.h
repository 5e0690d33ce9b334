/* encode.h - hex, base64, percent-encoding and SHA-256: bytes to text and back.
 *
 * Decoders are strict: one wrong character and the whole is -EINVAL, so that no two texts mean the
 * same bytes.
 */
#ifndef BASE_ENCODE_H
#define BASE_ENCODE_H

#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum {
    SHA256_BYTES = 32,
    SHA256_HEX_LEN = 64,
};

enum base64_kind {
    BASE64_STD,       /* + and /, with = */
    BASE64_STD_NOPAD, /* + and /, without */
    BASE64_URL_NOPAD, /* - and _, without */
};

must_check int base64_encode(struct buf *out, const void *data, size_t len, enum base64_kind kind);

/* Takes padded and unpadded text of either alphabet. */
must_check int base64_decode(struct buf *out, struct str text);

void hex_encode(char *out, const void *data, size_t len); /* 2 * len digits and a NUL */

/* %XX and, in a query, + for a space. */
must_check int percent_encode(struct buf *out, struct str text); /* all but the unreserved */
must_check int percent_decode(struct buf *out, struct str text, bool plus_is_space);

void sha256(const void *data, size_t len, uint8_t out[SHA256_BYTES]);
void sha256_hex(const void *data, size_t len, char out[SHA256_HEX_LEN + 1]);

/* Compares in constant time: as long for every pair of texts of equal length. Every token and
 * signature that a caller sends is compared by this function: access tokens of sandboxes and
 * traffic (serve/edge, inside/agent), CSRF tokens and login links (serve/api/auth.c, serve/web),
 * upload and volume tokens (serve/template/build/files.c, serve/volume/token.c), and those of the
 * gateway and of Jupyter (inside/gateway, inside/interpreter). API keys and sessions are not
 * compared but found by the SHA-256 of their text. */
bool str_eq_secret(struct str a, struct str b);

#endif
