#include "lib/base/id.h"

#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void id_random(void *out, size_t len)
{
    char *at = out;

    while (len > 0) {
        size_t want = len < 256 ? len : 256; /* up to 256 bytes arrive whole, signals or not */
        if (getrandom(at, want, 0) != (ssize_t)want) {
            abort();
        }
        at += want;
        len -= want;
    }
}

void id_alnum(char *out, size_t len)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    enum { LETTERS = sizeof(alphabet) - 1, FAIR = 256 - 256 % LETTERS };
    size_t n = 0;

    while (n < len) {
        uint8_t bytes[32];
        id_random(bytes, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes) && n < len; i++) {
            if (bytes[i] < FAIR) { /* drop the tail, so that every letter is as likely */
                out[n++] = alphabet[bytes[i] % LETTERS];
            }
        }
    }
    out[len] = '\0';
}

void id_hex(char *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        uint8_t b;
        id_random(&b, 1);
        (void)snprintf(out + 2 * i, 3, "%02x", b);
    }
}

void id_sandbox(char out[ID_SANDBOX_LEN + 1])
{
    out[0] = 'i';
    id_alnum(out + 1, ID_SANDBOX_LEN - 1);
}

void id_uuid(char out[ID_UUID_LEN + 1])
{
    uint8_t b[16];

    id_random(b, sizeof(b));
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); /* version 4 */
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80); /* variant 1 */
    int n = snprintf(out, ID_UUID_LEN + 1,
                     "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                     b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
                     b[13], b[14], b[15]);
    assert(n == ID_UUID_LEN);
    (void)n;
}

bool id_uuid_ok(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text.at[i] != '-' : !isxdigit((unsigned char)text.at[i])) {
            return false;
        }
    }
    return text.len == ID_UUID_LEN;
}
