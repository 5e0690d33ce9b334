#include "serve/secrets/seal.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/encode.h"
#include "lib/base/id.h"

enum { NONCE_BYTES = 12, TAG_BYTES = 16 };

static EVP_CIPHER_CTX *cipher_new(const uint8_t key[SECRET_KEY_BYTES], const char *nonce,
                                  const char *of, int encrypt)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n;

    if (!ctx ||
        EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, (const unsigned char *)nonce,
                          encrypt) != 1 ||
        EVP_CipherUpdate(ctx, NULL, &n, (const unsigned char *)of, (int)strlen(of)) != 1) {
        abort(); /* only without memory */
    }
    return ctx;
}

int seal(const uint8_t key[SECRET_KEY_BYTES], const char *of, struct str value, struct buf *out)
{
    scoped_buf(raw, SEAL_VALUE_BYTES_MAX + NONCE_BYTES + TAG_BYTES);
    char *at;
    int n = 0, rest = 0;

    if (buf_reserve(&raw, NONCE_BYTES + value.len + TAG_BYTES, &at) < 0) {
        return -ENOBUFS;
    }
    id_random(at, NONCE_BYTES);
    EVP_CIPHER_CTX *ctx = cipher_new(key, at, of, 1);
    unsigned char *text = (unsigned char *)at + NONCE_BYTES;
    if (EVP_CipherUpdate(ctx, text, &n, (const unsigned char *)value.at, (int)value.len) != 1 ||
        EVP_CipherFinal_ex(ctx, text + n, &rest) != 1 ||
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, text + value.len) != 1) {
        abort();
    }
    EVP_CIPHER_CTX_free(ctx);
    buf_commit(&raw, NONCE_BYTES + value.len + TAG_BYTES);
    int r = base64_encode(out, buf_at(&raw), buf_len(&raw), BASE64_STD);
    return r < 0 ? r : buf_append(out, "", 1);
}

int unseal(const uint8_t key[SECRET_KEY_BYTES], const char *of, const char *sealed, struct buf *out)
{
    scoped_buf(raw, SEAL_VALUE_BYTES_MAX + NONCE_BYTES + TAG_BYTES);
    char *at;
    int n = 0, rest = 0;

    if (base64_decode(&raw, str_of(sealed)) < 0 || buf_len(&raw) < NONCE_BYTES + TAG_BYTES) {
        return -EBADMSG;
    }
    const size_t len = buf_len(&raw) - NONCE_BYTES - TAG_BYTES;
    const unsigned char *text = (const unsigned char *)buf_at(&raw) + NONCE_BYTES;
    if (buf_reserve(out, len + 1, &at) < 0) {
        return -ENOBUFS;
    }
    EVP_CIPHER_CTX *ctx = cipher_new(key, buf_at(&raw), of, 0);
    bool good = EVP_CipherUpdate(ctx, (unsigned char *)at, &n, text, (int)len) == 1 &&
                EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_BYTES,
                                    buf_at(&raw) + NONCE_BYTES + len) == 1 &&
                EVP_CipherFinal_ex(ctx, (unsigned char *)at + n, &rest) == 1;
    EVP_CIPHER_CTX_free(ctx);
    if (!good) {
        explicit_bzero(at, len);
        return -EBADMSG;
    }
    buf_commit(out, len);
    return 0;
}
