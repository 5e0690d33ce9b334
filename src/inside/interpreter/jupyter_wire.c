#include "inside/interpreter/jupyter_wire.h"

#include <errno.h>
#include <sha2.h>
#include <stdlib.h>

#include "inside/interpreter/json_read.h"
#include "lib/base/clock.h"

enum {
    HMAC_BLOCK_BYTES = 64,
    SIGNED_FRAMES = 4, /* header, parent header, metadata, content */
};

#define DELIMITER STR("<IDS|MSG>")

/* RFC 2104. The key fits a block: it is our own. */
static void sign(const char *key, const struct str *parts, char hex[SHA256_HEX_LEN + 1])
{
    uint8_t inner[HMAC_BLOCK_BYTES] = {0}, outer[HMAC_BLOCK_BYTES], digest[SHA256_BYTES];
    SHA2_CTX sha;

    memcpy(inner, key, strnlen(key, HMAC_BLOCK_BYTES));
    for (size_t i = 0; i < HMAC_BLOCK_BYTES; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    SHA256Init(&sha);
    SHA256Update(&sha, inner, sizeof(inner));
    for (size_t i = 0; i < SIGNED_FRAMES; i++) {
        SHA256Update(&sha, (const uint8_t *)parts[i].at, parts[i].len);
    }
    SHA256Final(digest, &sha);
    SHA256Init(&sha);
    SHA256Update(&sha, outer, sizeof(outer));
    SHA256Update(&sha, digest, sizeof(digest));
    SHA256Final(digest, &sha);
    hex_encode(hex, digest, sizeof(digest));
}

int jupyter_read(const char *key, const struct str *frames, size_t n, struct jupyter_message *out,
                 struct err *err)
{
    char signature[SHA256_HEX_LEN + 1];
    size_t i = 0;

    while (i < n && !str_eq(frames[i], DELIMITER)) {
        i++;
    }
    if (n - i < 2 + SIGNED_FRAMES) {
        return err_set(err, EBADMSG, "a kernel's message has too few frames");
    }
    sign(key, &frames[i + 2], signature);
    if (!str_eq_secret(frames[i + 1], str_of(signature))) {
        return err_set(err, EPERM, "a kernel's message is not signed with its key");
    }
    struct jupyter_message message = {
        .header = json_read(frames[i + 2]),
        .parent = json_read(frames[i + 3]),
        .content = json_read(frames[i + 5]),
    };
    if (!json_is_object(message.header) || !json_is_object(message.parent) ||
        !json_is_object(message.content)) {
        jupyter_message_fini(&message);
        return err_set(err, EBADMSG, "a kernel's message is not made of JSON objects");
    }
    *out = message;
    return 0;
}

void jupyter_message_fini(struct jupyter_message *message)
{
    json_decref(message->header);
    json_decref(message->parent);
    json_decref(message->content);
    *message = (struct jupyter_message){0};
}

int jupyter_pack(const char *key, const char *session, const char *msg_id, const char *type,
                 const json_t *content, struct jupyter_packed *out)
{
    char date[CLOCK_STAMP_BYTES];

    clock_stamp(clock_wall_ms(), date);
    json_auto_t *header =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "msg_id", msg_id, "session", session,
                  "username", "user", "msg_type", type, "version", "5.3", "date", date);
    struct jupyter_packed packed = {
        .header = json_dumps(header, JSON_COMPACT),
        .content = json_dumps(content, JSON_COMPACT),
    };
    if (!packed.header || !packed.content) {
        jupyter_packed_fini(&packed);
        return -ENOMEM;
    }
    *out = packed;
    out->frames[0] = DELIMITER;
    out->frames[2] = str_of(out->header);
    out->frames[3] = out->frames[4] = STR("{}");
    out->frames[5] = str_of(out->content);
    sign(key, &out->frames[2], out->signature);
    out->frames[1] = str_of(out->signature);
    return 0;
}

void jupyter_packed_fini(struct jupyter_packed *packed)
{
    free(packed->header);
    free(packed->content);
    *packed = (struct jupyter_packed){0};
}
