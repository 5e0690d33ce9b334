#include "lib/base/encode.h"

#include <ctype.h>
#include <errno.h>
#include <sha2.h>
#include <stdio.h>

static const char alphabet_std[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char alphabet_url[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#ifdef __x86_64__
typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint8_t bytes32 __attribute__((vector_size(32)));
typedef int8_t values32 __attribute__((vector_size(32)));
typedef uint32_t words8 __attribute__((vector_size(32)));

enum {
    STEP_BYTES = 24,      /* that become 32 characters */
    STEP_READ_BYTES = 28, /* how far a step looks: two loads of 16 bytes, 12 apart */
};

/* Encodes as many bytes as it can in steps of STEP_BYTES, and returns how many that were. Each word
 * takes three bytes, the first of them highest, and is cut into four numbers of six bits; these
 * become characters by adding the distance of their part of the alphabet. */
__attribute__((target("avx2"))) static size_t encode_wide(char *at, const uint8_t *in, size_t len,
                                                          const char *alphabet)
{
    const uint8_t gap62 = (uint8_t)(alphabet[62] - 62 - (alphabet[61] - 61));
    const uint8_t gap63 = (uint8_t)(alphabet[63] - 63 - (alphabet[62] - 62));
    size_t done = 0;

    for (; len - done >= STEP_READ_BYTES; done += STEP_BYTES, at += sizeof(bytes32)) {
        bytes16 low, high;
        memcpy(&low, in + done, sizeof(low));
        memcpy(&high, in + done + STEP_BYTES / 2, sizeof(high));
        words8 w = (words8)__builtin_shufflevector(low, high, 2, 1, 0, 0, 5, 4, 3, 3, 8, 7, 6, 6,
                                                   11, 10, 9, 9, 18, 17, 16, 16, 21, 20, 19, 19, 24,
                                                   23, 22, 22, 27, 26, 25, 25);
        values32 v = (values32)((w >> 18 & 0x3f) | (w >> 4 & 0x3f00) | (w << 10 & 0x3f0000) |
                                (w << 24 & 0x3f000000));
        bytes32 text = (bytes32)v + 'A'; /* may wrap on its way to the right character */
        text += (bytes32)(v > 25) & (uint8_t)('a' - 'A' - 26);
        text += (bytes32)(v > 51) & (uint8_t)('0' - 'a' - 26);
        text += (bytes32)(v > 61) & gap62;
        text += (bytes32)(v > 62) & gap63;
        memcpy(at, &text, sizeof(text));
    }
    return done;
}

static size_t encode_fast(char *at, const uint8_t *in, size_t len, const char *alphabet)
{
    return len >= STEP_READ_BYTES && __builtin_cpu_supports("avx2")
               ? encode_wide(at, in, len, alphabet)
               : 0;
}
#else
static size_t encode_fast(char *at, const uint8_t *in, size_t len, const char *alphabet)
{
    (void)at, (void)in, (void)len, (void)alphabet;
    return 0;
}
#endif

int base64_encode(struct buf *out, const void *data, size_t len, enum base64_kind kind)
{
    const char *alphabet = kind == BASE64_URL_NOPAD ? alphabet_url : alphabet_std;
    const uint8_t *in = data;
    char *at;

    int r = buf_reserve(out, (len + 2) / 3 * 4, &at);
    if (r < 0) {
        return r;
    }
    char *const begin = at;
    size_t fast = encode_fast(at, in, len, alphabet);
    in += fast;
    len -= fast;
    at += fast / 3 * 4;
    for (; len >= 3; in += 3, len -= 3) {
        *at++ = alphabet[in[0] >> 2];
        *at++ = alphabet[(in[0] & 3) << 4 | in[1] >> 4];
        *at++ = alphabet[(in[1] & 15) << 2 | in[2] >> 6];
        *at++ = alphabet[in[2] & 63];
    }
    if (len > 0) {
        unsigned second = len == 2 ? in[1] : 0;
        *at++ = alphabet[in[0] >> 2];
        *at++ = alphabet[(in[0] & 3u) << 4 | second >> 4];
        if (len == 2) {
            *at++ = alphabet[(second & 15) << 2];
        }
        for (size_t pad = len; kind == BASE64_STD && pad < 3; pad++) {
            *at++ = '=';
        }
    }
    buf_commit(out, (size_t)(at - begin));
    return 0;
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    if (c == '+' || c == '-') {
        return 62;
    }
    return c == '/' || c == '_' ? 63 : -1;
}

int base64_decode(struct buf *out, struct str text)
{
    char *at;
    int r;

    for (int pad = 0; pad < 2 && text.len && text.at[text.len - 1] == '='; pad++) {
        text.len--;
    }
    if (text.len % 4 == 1) {
        return -EINVAL;
    }
    r = buf_reserve(out, text.len / 4 * 3 + 3, &at);
    if (r < 0) {
        return r;
    }
    size_t n = 0;
    uint32_t acc = 0;
    unsigned bits = 0;
    for (size_t i = 0; i < text.len; i++) {
        int v = base64_value(text.at[i]);
        if (v < 0) {
            return -EINVAL;
        }
        acc = acc << 6 | (uint32_t)v;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            at[n++] = (char)(acc >> bits & 0xff);
        }
    }
    if (acc & ((1u << bits) - 1)) {
        return -EINVAL; /* bits that no byte holds: a second spelling of the same bytes */
    }
    buf_commit(out, n);
    return 0;
}

void hex_encode(char *out, const void *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *in = data;

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[in[i] >> 4];
        out[2 * i + 1] = digits[in[i] & 15];
    }
    out[2 * len] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int percent_encode(struct buf *out, struct str text)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool plain = (c < 0x80 && isalnum(c)) || c == '-' || c == '.' || c == '_' || c == '~';

        r = plain ? buf_append(out, &text.at[i], 1) : buf_printf(out, "%%%02X", c);
    }
    return r;
}

int percent_decode(struct buf *out, struct str text, bool plus_is_space)
{
    char *at;
    size_t n = 0;
    int r = buf_reserve(out, text.len, &at);

    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '+' && plus_is_space) {
            c = ' ';
        } else if (c == '%') {
            int hi = text.len - i > 2 ? hex_value(text.at[i + 1]) : -1;
            int lo = hi >= 0 ? hex_value(text.at[i + 2]) : -1;
            if (hi < 0 || lo < 0) {
                return -EINVAL;
            }
            c = (char)(hi << 4 | lo);
            i += 2;
        }
        at[n++] = c;
    }
    buf_commit(out, n);
    return 0;
}

void sha256(const void *data, size_t len, uint8_t out[SHA256_BYTES])
{
    SHA2_CTX ctx;

    SHA256Init(&ctx);
    SHA256Update(&ctx, data, len);
    SHA256Final(out, &ctx);
}

void sha256_hex(const void *data, size_t len, char out[SHA256_HEX_LEN + 1])
{
    uint8_t digest[SHA256_BYTES];

    sha256(data, len, digest);
    hex_encode(out, digest, sizeof(digest));
}

bool str_eq_secret(struct str a, struct str b)
{
    unsigned char diff = 0;

    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        diff |= (unsigned char)(a.at[i] ^ b.at[i]);
    }
    return diff == 0;
}
