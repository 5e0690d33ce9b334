/* fuzz_jupyter.c - a kernel's message, frame by frame, and the result that its bundle becomes.
 *
 * Lines are frames; "*" as the signature stands for the right one, so that what is behind it is
 * reached. A message that is read must consist of objects, and its result must be one line of JSON.
 */
#include <sha2.h>
#include <stdlib.h>

#include "inside/interpreter/json_read.h"
#include "inside/interpreter/jupyter_wire.h"
#include "inside/interpreter/result.h"
#include "lib/base/buf.h"

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

enum {
    FRAMES_MAX = 16,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void line_check(json_t *value)
{
    char *line = json_dumps(value, JSON_COMPACT);

    check(value && line && !strchr(line, '\n'));
    json_auto_t *again = json_loads(line, JSON_ALLOW_NUL, NULL);
    check(json_equal(value, again));
    free(line);
    json_decref(value);
}

static void message_check(const struct jupyter_message *message)
{
    json_t *bundle = json_object_get(message->content, "data");
    struct str text = {json_text(message->content, "text"),
                       strlen(json_text(message->content, "text"))};

    check(json_is_object(message->header) && json_is_object(message->parent));
    if (json_is_object(bundle)) {
        line_check(result_make(bundle, true));
    }
    line_check(text_make(false, text, NULL));
}

/* The right signature, by the packer: HMAC as RFC 2104 has it. */
static void sign(const struct str *parts, char out[SHA256_HEX_LEN + 1])
{
    uint8_t pad[64], digest[SHA256_BYTES];
    SHA2_CTX sha;

    for (int outer = 0; outer < 2; outer++) {
        for (size_t i = 0; i < sizeof(pad); i++) {
            pad[i] = (uint8_t)(KEY[i] ^ (outer ? 0x5c : 0x36));
        }
        SHA256Init(&sha);
        SHA256Update(&sha, pad, sizeof(pad));
        for (int i = 0; i < 4 && !outer; i++) {
            SHA256Update(&sha, (const uint8_t *)parts[i].at, parts[i].len);
        }
        if (outer) {
            SHA256Update(&sha, digest, sizeof(digest));
        }
        SHA256Final(digest, &sha);
    }
    hex_encode(out, digest, sizeof(digest));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, frames[FRAMES_MAX];
    char signature[SHA256_HEX_LEN + 1];
    scoped_message message = {NULL, NULL, NULL};
    struct err err;
    size_t n = 0;

    while (n < FRAMES_MAX && str_split(&rest, '\n', &frames[n])) {
        n++;
    }
    for (size_t i = 0; i + 5 <= n; i++) {
        if (str_eq(frames[i], STR("*"))) {
            sign(&frames[i + 1], signature);
            frames[i] = str_of(signature);
            break;
        }
    }
    if (jupyter_read(KEY, frames, n, &message, &err) == 0) {
        message_check(&message);
    }
    return 0;
}
