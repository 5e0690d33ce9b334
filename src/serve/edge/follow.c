/* follow.c - how far an answer that can be continued over a pause has come. Pure; the answers are
 * those of programs in a jail, which are hostile.
 *
 * A command's stream is a row of envelopes (lib/rpc/frame.h). The first names the process, the last
 * says how the stream ended. These two are gathered here, all others pass through untouched. Of the
 * answer to a cell only the bytes are counted.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/rpc/frame.h"
#include "serve/edge/internal.h"
#include "wire/channel.h"

/* ---- which answers ---- */

static bool is_post(const struct http_request *req)
{
    return str_eq(req->method, STR("POST")) && req->query.len == 0 && !req->upgrade;
}

/* The codec of a stream of envelopes; false: the request is for none. */
static bool codec_of(const struct http_request *req, bool *json)
{
    struct str rest = http_header_get(req, "content-type"), type = {NULL, 0};

    if (!rest.at || !str_split(&rest, ';', &type)) {
        return false;
    }
    *json = str_ieq(str_trim(type), STR("application/connect+json"));
    return *json || str_ieq(str_trim(type), STR("application/connect+proto"));
}

struct follow *follow_new(const struct http_request *req, uint16_t port)
{
    bool command = port == AGENT_PORT && (str_eq(req->path, STR("/process.Process/Start")) ||
                                          str_eq(req->path, STR(FOLLOW_CONNECT)));
    bool cell = port == EDGE_INTERPRETER_PORT && str_eq(req->path, STR("/execute"));
    bool json = false;

    if (!is_post(req) || !(cell || (command && codec_of(req, &json)))) {
        return NULL;
    }
    struct follow *f = xnew(struct follow);
    f->is_cell = cell;
    f->json = json;
    f->first = true;
    if (cell) {
        id_hex(f->id, EXECUTION_ID_LEN / 2);
    }
    return f;
}

bool follow_named(struct follow *f, const struct http_header *headers, size_t n)
{
    f->named = false;
    for (size_t i = 0; i < n && !f->named; i++) {
        f->named = str_ieq(headers[i].name, STR(EXECUTION_HEADER)) &&
                   str_eq(headers[i].value, str_of(f->id));
    }
    return f->named;
}

/* ---- what the two envelopes say ---- */

static json_t *payload_json(struct str payload)
{
    return json_loadb(payload.at, payload.len, JSON_REJECT_DUPLICATES, NULL);
}

static uint32_t pid_of_json(struct str payload)
{
    json_auto_t *message = payload_json(payload);
    const json_t *start = json_object_get(json_object_get(message, "event"), "start");
    json_int_t pid = json_integer_value(json_object_get(start, "pid"));

    return pid > 0 && pid <= INT32_MAX ? (uint32_t)pid : 0;
}

/* Goes into a field of a message that has no other field; false when it is not so. */
static bool proto_enter(struct str *in, char key)
{
    if (in->len < 2 || in->at[0] != key || in->len - 2 != (unsigned char)in->at[1]) {
        return false;
    }
    *in = str_skip(*in, 2);
    return true;
}

/* event (1), start (1), pid (1): each within the other, and nothing beside them. */
static uint32_t pid_of_proto(struct str payload)
{
    uint64_t pid = 0;

    if (!proto_enter(&payload, 0x0a) || !proto_enter(&payload, 0x0a) || payload.len < 2 ||
        payload.len > 6 || payload.at[0] != 0x08) {
        return 0;
    }
    for (size_t i = 1; i < payload.len; i++) {
        bool more = payload.at[i] & 0x80;
        if (more != (i + 1 < payload.len)) {
            return 0;
        }
        pid |= (uint64_t)(payload.at[i] & 0x7f) << 7 * (i - 1);
    }
    return pid <= INT32_MAX ? (uint32_t)pid : 0;
}

/* The end that a pause makes of a stream. It is JSON with either codec. */
static bool is_aborted(struct str payload)
{
    json_auto_t *message = payload_json(payload);
    const char *code =
        json_string_value(json_object_get(json_object_get(message, "error"), "code"));

    return code && strcmp(code, "aborted") == 0;
}

/* ---- envelopes ---- */

static size_t envelope_len(const char *head)
{
    size_t len = 0;

    for (int i = 1; i < FRAME_HEAD_BYTES; i++) {
        len = len << 8 | (unsigned char)head[i];
    }
    return len;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many bytes at the front pass on as they are. */
static size_t plain_run(struct follow *f, struct str in)
{
    size_t n = least(f->left, in.len);

    f->left -= n;
    while (f->left == 0 && !f->first && in.len - n >= FRAME_HEAD_BYTES && !(in.at[n] & FRAME_END)) {
        size_t len = envelope_len(in.at + n);
        n += FRAME_HEAD_BYTES;
        size_t here = least(len, in.len - n);
        n += here;
        f->left = len - here;
    }
    return n;
}

static enum follow_news kept_pass(struct follow *f, struct str *pass)
{
    *pass = (struct str){f->kept, f->kept_n};
    f->kept_n = 0;
    return FOLLOW_NOTHING;
}

/* The envelope that was gathered is whole. */
static enum follow_news kept_take(struct follow *f, bool pauses, struct str *pass)
{
    struct str payload = {f->kept + FRAME_HEAD_BYTES, f->kept_n - FRAME_HEAD_BYTES};
    bool again = f->again, first = f->first, end = f->kept[0] & FRAME_END;

    f->first = f->again = false;
    if (first && !end && f->kept[0] == 0) {
        uint32_t pid = f->json ? pid_of_json(payload) : pid_of_proto(payload);
        if (again) {
            f->kept_n = 0;
            return pid == f->pid ? FOLLOW_JOINED : FOLLOW_FAILED;
        }
        f->pid = pid;
    } else if (again) {
        return FOLLOW_FAILED;
    } else if (end && pauses && f->pid && is_aborted(payload)) {
        memcpy(f->end, f->kept, f->kept_n);
        f->end_n = f->kept_n;
        f->kept_n = 0;
        return FOLLOW_WITHHELD;
    }
    return kept_pass(f, pass);
}

/* Takes bytes of an envelope, or of a head that came in pieces. Returns how many. */
static size_t gather(struct follow *f, struct str in, bool pauses, struct str *pass,
                     enum follow_news *news)
{
    size_t want = FRAME_HEAD_BYTES, taken = 0;

    for (int part = 0; part < 2; part++) {
        size_t n = least(want - f->kept_n, in.len - taken);
        memcpy(f->kept + f->kept_n, in.at + taken, n);
        f->kept_n += n;
        taken += n;
        if (f->kept_n < want) {
            return taken;
        }
        if (part == 0) {
            size_t len = envelope_len(f->kept);
            bool matters = f->first || f->kept[0] & FRAME_END;
            if (!matters || len > FOLLOW_ENVELOPE_MAX - FRAME_HEAD_BYTES) {
                f->left = len;
                *news = f->again ? FOLLOW_FAILED : kept_pass(f, pass);
                f->first = false;
                return taken;
            }
            want += len;
        }
    }
    *news = kept_take(f, pauses, pass);
    return taken;
}

enum follow_news follow_next(struct follow *f, struct str *in, bool pauses, struct str *pass)
{
    enum follow_news news = FOLLOW_NOTHING;

    *pass = (struct str){NULL, 0};
    if (f->is_cell) {
        f->passed += in->len;
        *pass = *in;
        *in = (struct str){NULL, 0};
        return news;
    }
    size_t n = f->kept_n == 0 ? plain_run(f, *in) : 0;
    if (n > 0) {
        *pass = (struct str){in->at, n};
        *in = str_skip(*in, n);
        return news;
    }
    *in = str_skip(*in, gather(f, *in, pauses, pass, &news));
    return news;
}

void follow_again(struct follow *f)
{
    f->first = f->again = true;
    f->kept_n = f->left = 0;
}

/* ---- asking for the rest ---- */

static size_t varint(char *at, uint32_t n)
{
    size_t len = 0;

    do {
        at[len++] = (char)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
        n >>= 7;
    } while (n > 0);
    return len;
}

size_t follow_request(const struct follow *f, char out[FOLLOW_REQUEST_MAX])
{
    char *at = out + FRAME_HEAD_BYTES;
    size_t len = 0;

    if (f->json) {
        len = (size_t)snprintf(at, FOLLOW_REQUEST_MAX - FRAME_HEAD_BYTES,
                               "{\"process\":{\"pid\":%u}}", f->pid);
    } else { /* process (1), pid (1) */
        at[0] = 0x0a;
        at[2] = 0x08;
        len = 3 + varint(at + 3, f->pid);
        at[1] = (char)(len - 2);
    }
    frame_head(out, 0, len);
    return FRAME_HEAD_BYTES + len;
}
