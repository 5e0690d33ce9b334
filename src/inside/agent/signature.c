#include "inside/agent/signature.h"

#include <errno.h>
#include <inttypes.h>
#include <sha2.h>
#include <stdio.h>

#include "lib/base/encode.h"

static void part_hash(SHA2_CTX *ctx, struct str part, const char *after)
{
    if (part.len) {
        SHA256Update(ctx, (const uint8_t *)part.at, part.len);
    }
    SHA256Update(ctx, (const uint8_t *)after, strlen(after));
}

void signature_make(const struct signature_claim *claim, struct str token,
                    char out[SIGNATURE_BYTES])
{
    uint8_t digest[SHA256_BYTES];
    char expiry[24] = "";
    scoped_buf(text, SIGNATURE_BYTES);
    SHA2_CTX ctx;

    SHA256Init(&ctx);
    part_hash(&ctx, claim->path, ":");
    part_hash(&ctx, claim->operation, ":");
    part_hash(&ctx, claim->username, ":");
    if (claim->has_expiry) {
        (void)snprintf(expiry, sizeof(expiry), ":%" PRId64, claim->expiry_s);
    }
    part_hash(&ctx, token, expiry);
    SHA256Final(digest, &ctx);

    if (base64_encode(&text, digest, sizeof(digest), BASE64_STD_NOPAD) < 0) {
        buf_clear(&text);
    }
    (void)snprintf(out, SIGNATURE_BYTES, "v1_%.*s", (int)buf_len(&text), buf_at(&text));
}

int signature_check(const struct signature_claim *claim, struct str token, struct str header,
                    struct str signature, int64_t now_s, struct err *err)
{
    char wanted[SIGNATURE_BYTES];

    if (header.at && header.len > 0) {
        if (!str_eq_secret(header, token)) {
            return err_set(err, EACCES, "access token present in header but does not match");
        }
        return 0;
    }
    if (!signature.at) {
        return err_set(err, EACCES, "missing signature query parameter");
    }
    signature_make(claim, token, wanted);
    if (!str_eq_secret(signature, str_of(wanted))) {
        return err_set(err, EACCES, "invalid signature");
    }
    if (claim->has_expiry && claim->expiry_s < now_s) {
        return err_set(err, EACCES, "signature is already expired");
    }
    return 0;
}
