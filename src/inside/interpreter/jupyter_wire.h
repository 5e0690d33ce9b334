/* jupyter_wire.h - messages of the Jupyter protocol 5.3 as frames: packing, signing, reading.
 *
 * Owns:     nothing but the messages it hands out.
 * Blocks:   never.
 *
 * On the wire a message is: routing ids, the delimiter, the signature in hex, then four JSON texts:
 * header, parent header, metadata, content; binary buffers may follow. The signature is HMAC-SHA256
 * over the four, with the key that the kernel was given.
 */
#ifndef INTERPRETER_JUPYTER_WIRE_H
#define INTERPRETER_JUPYTER_WIRE_H

#include <jansson.h>

#include "lib/base/encode.h"
#include "lib/base/err.h"
#include "lib/base/id.h"
#include "lib/base/str.h"

enum {
    JUPYTER_KEY_LEN = 64,
    JUPYTER_FRAMES_MAX = 256,                      /* of one message that is received */
    JUPYTER_MESSAGE_BYTES_MAX = 256 * 1024 * 1024, /* of one message, all frames together */
    JUPYTER_PACKED_FRAMES = 6,
};

struct jupyter_message {
    json_t *header;
    json_t *parent;
    json_t *content;
};

/* -EBADMSG: no message, -EPERM: not signed with this key. */
must_check int jupyter_read(const char *key, const struct str *frames, size_t n,
                            struct jupyter_message *out, struct err *err);
void jupyter_message_fini(struct jupyter_message *message);
#define scoped_message scoped(jupyter_message_fini) struct jupyter_message

struct jupyter_packed {
    struct str frames[JUPYTER_PACKED_FRAMES];
    char signature[SHA256_HEX_LEN + 1];
    char *header;
    char *content;
};

/* Writes a message that asks for `content` under `msg_id`. */
must_check int jupyter_pack(const char *key, const char *session, const char *msg_id,
                            const char *type, const json_t *content, struct jupyter_packed *out);
void jupyter_packed_fini(struct jupyter_packed *packed);
#define scoped_packed(name) scoped(jupyter_packed_fini) struct jupyter_packed name = {0}

#endif
