#include "lib/http/h1.h"

#include <assert.h>
#include <errno.h>

#include "lib/base/compiler.h"

enum {
    HEAD_RAW_BYTES_MAX = HTTP_HEADER_BYTES_MAX + HTTP_TARGET_BYTES_MAX,
};

static struct h1 *h1_of(llhttp_t *parser)
{
    return container_of(parser, struct h1, parser);
}

/* llhttp stops where a callback fails; why is kept beside it. */
static int outcome(struct h1 *h1, int r)
{
    h1->refused = r;
    return r < 0 ? HPE_USER : 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct h1 *h1 = h1_of(parser);

    return outcome(h1, head_target(&h1->head, at, len));
}

/* Fields after the head are trailers: they are not used, and h1_body() limits them. */
static int on_header_field(llhttp_t *parser, const char *at, size_t len)
{
    struct h1 *h1 = h1_of(parser);

    return h1->state == H1_HEAD ? outcome(h1, head_name(&h1->head, at, len)) : 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len)
{
    struct h1 *h1 = h1_of(parser);

    return h1->state == H1_HEAD ? outcome(h1, head_value(&h1->head, at, len)) : 0;
}

/* An empty value has no span: the next name must still begin a field of its own. */
static int on_header_value_complete(llhttp_t *parser)
{
    struct h1 *h1 = h1_of(parser);

    if (h1->state == H1_HEAD) {
        h1->head.in_value = true;
    }
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    h1_of(parser)->head_complete = true;
    return HPE_PAUSED;
}

/* Stops before the first byte of a chunk, so that body and framing never share one call. */
static int on_chunk_header(llhttp_t *parser)
{
    struct h1 *h1 = h1_of(parser);

    h1->left = parser->content_length;
    return h1->left > 0 ? HPE_PAUSED : 0;
}

static int on_chunk_complete(llhttp_t *parser)
{
    h1_of(parser)->framing_bytes = 0;
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    h1_of(parser)->state = H1_DONE;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_chunk_header = on_chunk_header,
    .on_chunk_complete = on_chunk_complete,
    .on_message_complete = on_message_complete,
};

void h1_init(struct h1 *h1, bool response)
{
    *h1 = (struct h1){.state = H1_HEAD};
    head_init(&h1->head);
    llhttp_init(&h1->parser, response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
}

void h1_fini(struct h1 *h1)
{
    head_fini(&h1->head);
}

void h1_reset(struct h1 *h1)
{
    bool response = h1->parser.type == HTTP_RESPONSE;

    h1_fini(h1);
    h1_init(h1, response);
}

static struct h1_fault fault_of(const struct h1 *h1, llhttp_errno_t code)
{
    if (h1->refused == -ENAMETOOLONG) {
        return (struct h1_fault){414, "the request target is too long"};
    }
    if (h1->refused == -EMSGSIZE) {
        return (struct h1_fault){431, "the header fields are too many or too long"};
    }
    switch ((int)code) {
    case HPE_INVALID_METHOD:
        return (struct h1_fault){400, "the request method is not known"};
    case HPE_INVALID_URL:
        return (struct h1_fault){400, "the request target is malformed"};
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
        return (struct h1_fault){400, "only HTTP/1.0 and HTTP/1.1 are supported"};
    case HPE_INVALID_CONTENT_LENGTH:
    case HPE_UNEXPECTED_CONTENT_LENGTH:
    case HPE_INVALID_TRANSFER_ENCODING:
        return (struct h1_fault){400, "the length of the body is ambiguous"};
    default:
        return (struct h1_fault){400, "the head of the message is malformed"};
    }
}

/* Heads that llhttp accepts and we refuse. */
static const char *objection(const struct h1 *h1)
{
    struct head_fields fields = head_fields(&h1->head);
    struct str coding = {NULL, 0};
    size_t codings = head_count(fields, STR("transfer-encoding"), &coding);
    unsigned minor = h1->parser.http_minor;

    if (h1->parser.http_major != 1 || minor > 1) {
        return "only HTTP/1.0 and HTTP/1.1 are supported";
    }
    if (codings > 0 && minor == 0) {
        return "HTTP/1.0 has no Transfer-Encoding";
    }
    if (codings > 1 || (codings == 1 && !str_ieq(coding, STR("chunked")))) {
        return "chunked is the only supported transfer coding";
    }
    if (h1->parser.content_length > INT64_MAX) {
        return "the length of the body is out of range";
    }
    return NULL;
}

static bool status_has_no_body(unsigned status)
{
    return status < 200 || status == 204 || status == 304;
}

/* Decides how the body is framed, from the header as llhttp read it. */
static void h1_frame(struct h1 *h1, bool no_body)
{
    bool response = h1->parser.type == HTTP_RESPONSE;
    bool has_length = h1->parser.flags & F_CONTENT_LENGTH;

    h1->keep_alive = llhttp_should_keep_alive(&h1->parser);
    if (response && (no_body || status_has_no_body(h1->parser.status_code))) {
        h1->state = H1_DONE;
        return;
    }
    h1->chunked = h1->parser.flags & F_CHUNKED;
    h1->until_eof = response && !h1->chunked && !has_length;
    h1->left = has_length ? h1->parser.content_length : 0;
    h1->state = h1->chunked || h1->until_eof || h1->left > 0 ? H1_BODY : H1_DONE;
    h1->keep_alive = h1->keep_alive && !h1->until_eof;
}

static long h1_seal(struct h1 *h1, size_t used, bool no_body, struct h1_fault *fault)
{
    head_seal(&h1->head);
    const char *why = objection(h1);
    if (why) {
        *fault = (struct h1_fault){400, why};
        return -EPROTO;
    }
    llhttp_resume(&h1->parser);
    h1_frame(h1, no_body);
    return (long)used;
}

static size_t used_until_pause(const struct h1 *h1, const char *data)
{
    return (size_t)(llhttp_get_error_pos(&h1->parser) - data);
}

long h1_head(struct h1 *h1, const char *data, size_t len, bool no_body, struct h1_fault *fault)
{
    llhttp_errno_t code = llhttp_execute(&h1->parser, data, len);
    bool complete = code == HPE_PAUSED && h1->head_complete;
    size_t used = complete ? used_until_pause(h1, data) : len;

    assert(h1->state == H1_HEAD);
    h1->head_bytes += used;
    if (code != HPE_OK && !complete) {
        *fault = fault_of(h1, code);
        return -EPROTO;
    }
    if (h1->head_bytes > HEAD_RAW_BYTES_MAX) {
        *fault = (struct h1_fault){431, "the head of the message is too long"};
        return -EPROTO;
    }
    return complete ? h1_seal(h1, used, no_body, fault) : (long)len;
}

/* Chunk lines and trailers: no body comes out of them. */
static long h1_framing(struct h1 *h1, const char *data, size_t len)
{
    llhttp_errno_t code = llhttp_execute(&h1->parser, data, len);
    size_t used = len;

    if (code == HPE_PAUSED) {
        used = used_until_pause(h1, data);
        llhttp_resume(&h1->parser);
    } else if (code != HPE_OK) {
        return -EPROTO;
    }
    h1->framing_bytes += used;
    return h1->framing_bytes > H1_FRAMING_BYTES_MAX ? -EMSGSIZE : (long)used;
}

long h1_body(struct h1 *h1, const char *data, size_t len, size_t credit, struct str *slice)
{
    assert(h1->state == H1_BODY);
    *slice = (struct str){data, 0};
    if (h1->chunked && h1->left == 0) {
        return len ? h1_framing(h1, data, len) : 0;
    }
    len = len < credit ? len : credit;
    if (!h1->until_eof) {
        len = len < h1->left ? len : (size_t)h1->left;
        h1->left -= len;
    }
    /* Only chunked bodies go through llhttp: it counts their bytes itself. */
    if (h1->chunked && len && llhttp_execute(&h1->parser, data, len) != HPE_OK) {
        return -EPROTO;
    }
    if (!h1->chunked && !h1->until_eof && h1->left == 0) {
        h1->state = H1_DONE;
    }
    slice->len = len;
    return (long)len;
}

size_t h1_want(const struct h1 *h1, size_t credit)
{
    bool between_chunks = h1->chunked && h1->left == 0;

    return credit + (between_chunks ? (size_t)H1_CHUNK_LINE_BYTES : 0);
}

bool h1_eof(struct h1 *h1)
{
    if (h1->state == H1_BODY && h1->until_eof) {
        h1->state = H1_DONE;
    }
    return h1->state == H1_DONE;
}

int64_t h1_content_length(const struct h1 *h1)
{
    if (h1->state == H1_DONE) {
        return 0;
    }
    return h1->chunked || h1->until_eof ? -1 : (int64_t)h1->left;
}
