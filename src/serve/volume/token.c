/* token.c - tokens for the content of a volume: a JWT, signed with a secret of that volume alone,
 * so that the tokens of a deleted volume are worthless. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/encode.h"
#include "serve/volume/internal.h"

#define HEADER "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"

static void put(int r)
{
    if (r < 0) {
        abort(); /* all parts have fixed lengths, and the room is theirs */
    }
}

/* The signature of "<header>.<claims>", encoded. */
static void sign(const struct volume *volume, struct str text, struct buf *out)
{
    unsigned char mac[SHA256_BYTES];
    unsigned len = 0;

    if (!HMAC(EVP_sha256(), volume->secret, (int)strlen(volume->secret),
              (const unsigned char *)text.at, text.len, mac, &len) ||
        len != sizeof(mac)) {
        abort();
    }
    put(base64_encode(out, mac, sizeof(mac), BASE64_URL_NOPAD));
}

void volume_token(const struct volume *volume, int64_t now_s, char out[VOLUME_TOKEN_BYTES_MAX])
{
    char jti[ID_UUID_LEN + 1];
    scoped_buf(text, VOLUME_TOKEN_BYTES_MAX);
    scoped_buf(claims, VOLUME_TOKEN_BYTES_MAX);
    scoped_buf(mac, VOLUME_TOKEN_BYTES_MAX);

    id_uuid(jti);
    put(buf_printf(&claims,
                   "{\"iss\":\"atoll\",\"sub\":\"%s\",\"teamid\":\"%s\",\"volid\":\"%s\","
                   "\"jti\":\"%s\",\"iat\":%" PRId64 ",\"nbf\":%" PRId64 ",\"exp\":%" PRId64 "}",
                   volume->team_id, volume->team_id, volume->id, jti, now_s, now_s,
                   now_s + VOLUME_TOKEN_S));
    put(base64_encode(&text, HEADER, strlen(HEADER), BASE64_URL_NOPAD));
    put(buf_append(&text, ".", 1));
    put(base64_encode(&text, buf_at(&claims), buf_len(&claims), BASE64_URL_NOPAD));
    sign(volume, buf_str(&text), &mac);
    put(buf_append(&text, ".", 1));
    put(buf_append(&text, buf_at(&mac), buf_len(&mac)));
    if (!str_copy(out, VOLUME_TOKEN_BYTES_MAX, buf_str(&text))) {
        abort();
    }
}

/* Only what we signed ourselves is parsed. */
static int64_t expiry_of(struct str claims)
{
    scoped_buf(plain, VOLUME_TOKEN_BYTES_MAX);

    if (base64_decode(&plain, claims) < 0) {
        return 0;
    }
    json_t *json = json_loadb(buf_at(&plain), buf_len(&plain), 0, NULL);
    int64_t expiry = json_integer_value(json_object_get(json, "exp"));
    json_decref(json);
    return expiry;
}

int volume_token_check(const struct volume *volume, struct str token, int64_t now_s,
                       struct err *err)
{
    const char *dot = token.len ? memrchr(token.at, '.', token.len) : NULL;
    struct str body = {token.at, dot ? (size_t)(dot - token.at) : 0};
    scoped_buf(mac, VOLUME_TOKEN_BYTES_MAX);

    if (!dot || token.len >= VOLUME_TOKEN_BYTES_MAX) {
        return err_set(err, EACCES, "the volume token is malformed");
    }
    sign(volume, body, &mac);
    if (!str_eq_secret(str_skip(token, body.len + 1), buf_str(&mac))) {
        return err_set(err, EACCES, "the volume token is not valid for this volume");
    }
    if (expiry_of(str_skip(body, str_find(body, '.') + 1)) <= now_s) {
        return err_set(err, EACCES, "the volume token has expired");
    }
    return 0;
}
