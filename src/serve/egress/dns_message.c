#include "serve/egress/dns_message.h"

#include <errno.h>
#include <string.h>

enum {
    FLAG_RESPONSE = 0x8000,
    FLAG_OPCODE = 0x7800,
    FLAG_TRUNCATED = 0x0200,
    FLAG_RECURSION = 0x0100,
    FLAG_RECURSION_HAD = 0x0080,
    FLAG_CODE = 0x000f,
    LABEL_BYTES_MAX = 63,
    AT_FLAGS = 2,
    AT_QUESTIONS = 4,
};

static uint16_t get16(const char *at)
{
    return (uint16_t)((uint8_t)at[0] << 8 | (uint8_t)at[1]);
}

static void put16(char *at, uint16_t value)
{
    at[0] = (char)(value >> 8);
    at[1] = (char)value;
}

/* ---- questions ---- */

static bool label_ok(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_')) {
            return false;
        }
    }
    return true;
}

/* Bytes that the name takes on the wire, or -EBADMSG. A question has no compressed names. */
static int name_parse(struct str rest, char out[DNS_NAME_TEXT_BYTES])
{
    size_t at = 0, text = 0;

    for (;;) {
        if (at >= rest.len || at >= DNS_NAME_BYTES_MAX) {
            return -EBADMSG;
        }
        size_t len = (uint8_t)rest.at[at++];
        if (len == 0) {
            break;
        }
        if (len > LABEL_BYTES_MAX || len > rest.len - at || at + len >= DNS_NAME_BYTES_MAX ||
            !label_ok(rest.at + at, len)) {
            return -EBADMSG;
        }
        if (text) {
            out[text++] = '.';
        }
        memcpy(out + text, rest.at + at, len);
        text += len;
        at += len;
    }
    out[text] = '\0';
    return (int)at;
}

int dns_question_parse(struct str message, struct dns_question *out)
{
    *out = (struct dns_question){0};
    if (message.len < DNS_HEADER_BYTES) {
        return -EINVAL;
    }
    uint16_t flags = get16(message.at + AT_FLAGS);
    if (flags & FLAG_RESPONSE) {
        return -EINVAL; /* answering answers makes loops */
    }
    out->id = get16(message.at);
    out->recursion = flags & FLAG_RECURSION;
    if (flags & FLAG_OPCODE) {
        return -ENOTSUP;
    }
    struct str rest = str_skip(message, DNS_HEADER_BYTES);
    int name = name_parse(rest, out->name);
    if (get16(message.at + AT_QUESTIONS) != 1 || name < 0 || rest.len < (size_t)name + 4) {
        return -EBADMSG;
    }
    out->type = get16(rest.at + name);
    out->class = get16(rest.at + name + 2);
    out->raw_len = (size_t)name + 4;
    memcpy(out->raw, rest.at, out->raw_len);
    return 0;
}

/* ---- answers ---- */

static uint16_t answer_flags(const struct dns_question *question, int code)
{
    return (uint16_t)(FLAG_RESPONSE | FLAG_RECURSION_HAD |
                      (question->recursion ? FLAG_RECURSION : 0) | code);
}

int dns_answer_empty(struct buf *out, const struct dns_question *question, int code)
{
    char header[DNS_HEADER_BYTES] = {0};

    put16(header, question->id);
    put16(header + AT_FLAGS, answer_flags(question, code));
    put16(header + AT_QUESTIONS, question->raw_len ? 1 : 0);
    int r = buf_append(out, header, sizeof(header));
    return r < 0 ? r : buf_append(out, question->raw, question->raw_len);
}

int dns_answer_address(struct buf *out, const struct dns_question *question, const uint8_t v4[4])
{
    static const char name_of_question[] = {(char)0xc0, DNS_HEADER_BYTES};
    char header[DNS_HEADER_BYTES] = {0}, record[10] = {0};

    put16(header, question->id);
    put16(header + AT_FLAGS, answer_flags(question, DNS_NOERROR));
    put16(header + AT_QUESTIONS, 1);
    put16(header + AT_QUESTIONS + 2, 1);
    put16(record, DNS_TYPE_A);
    put16(record + 2, DNS_CLASS_IN);
    put16(record + 6, DNS_TTL_S);
    put16(record + 8, 4);
    if (buf_append(out, header, sizeof(header)) < 0 ||
        buf_append(out, question->raw, question->raw_len) < 0 ||
        buf_append(out, name_of_question, sizeof(name_of_question)) < 0 ||
        buf_append(out, record, sizeof(record)) < 0) {
        return -ENOBUFS;
    }
    return buf_append(out, v4, 4);
}

int dns_answer_from(struct buf *out, const struct dns_question *question, struct str returned)
{
    char echoed[DNS_NAME_TEXT_BYTES], header[DNS_HEADER_BYTES];

    if (returned.len < DNS_HEADER_BYTES || returned.len > DNS_MESSAGE_BYTES_MAX) {
        return -EBADMSG;
    }
    memcpy(header, returned.at, sizeof(header));
    int code = get16(header + AT_FLAGS) & FLAG_CODE;
    put16(header, question->id);
    struct str rest = str_skip(returned, DNS_HEADER_BYTES);
    if (get16(header + AT_QUESTIONS) != 1 || name_parse(rest, echoed) < 0 ||
        rest.len < question->raw_len || strcasecmp(echoed, question->name) != 0) {
        return -EBADMSG;
    }
    put16(header + AT_FLAGS, answer_flags(question, code));
    int r = buf_append(out, header, sizeof(header));
    if (r == 0) { /* the same name takes the same bytes, but for the case of its letters */
        r = buf_append(out, question->raw, question->raw_len);
    }
    rest = str_skip(rest, question->raw_len);
    return r < 0 ? r : buf_append(out, rest.at, rest.len);
}

void dns_answer_fit_udp(struct buf *answer, const struct dns_question *question)
{
    char header[DNS_HEADER_BYTES];

    if (buf_len(answer) <= DNS_UDP_BYTES_MAX) {
        return;
    }
    memcpy(header, buf_at(answer), sizeof(header));
    put16(header + AT_FLAGS, get16(header + AT_FLAGS) | FLAG_TRUNCATED);
    memset(header + AT_QUESTIONS + 2, 0, 6);
    buf_clear(answer);
    (void)!buf_append(answer, header, sizeof(header)); /* both fit where more was */
    (void)!buf_append(answer, question->raw, question->raw_len);
}

/* ---- addresses in answers ---- */

/* Bytes of a name that may be compressed; 0: it cannot be read. */
static size_t name_skip(struct str rest)
{
    size_t at = 0;

    while (at < rest.len) {
        size_t len = (uint8_t)rest.at[at];

        if (len >= 0xc0) {
            return at + 2 <= rest.len ? at + 2 : 0;
        }
        at += len + 1;
        if (len == 0) {
            return at;
        }
    }
    return 0;
}

static bool record_address(uint16_t type, struct str data, uint8_t out[16])
{
    static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff};

    if (type == DNS_TYPE_A && data.len == 4) {
        memcpy(out, mapped, sizeof(mapped));
        memcpy(out + 12, data.at, 4);
        return true;
    }
    if (type == DNS_TYPE_AAAA && data.len == 16) {
        memcpy(out, data.at, 16);
        return true;
    }
    return false;
}

/* A record behind its name: type, class, time, length, data. False: it cannot be read. */
static bool record_cut(struct str *rest, uint16_t *type, struct str *data)
{
    enum { RECORD_BYTES = 10, AT_LENGTH = 8 };
    size_t name = name_skip(*rest);

    if (name == 0 || rest->len - name < RECORD_BYTES) {
        return false;
    }
    struct str record = str_skip(*rest, name);
    size_t len = get16(record.at + AT_LENGTH);
    if (record.len - RECORD_BYTES < len) {
        return false;
    }
    *type = get16(record.at);
    *data = (struct str){record.at + RECORD_BYTES, len};
    *rest = str_skip(record, RECORD_BYTES + len);
    return true;
}

size_t dns_answer_addresses(struct str message, uint8_t (*out)[16], size_t max)
{
    enum { AT_ANSWERS = 6, QUESTION_TAIL = 4 };
    size_t n = 0, name;
    uint16_t type;
    struct str data;

    if (message.len < DNS_HEADER_BYTES || get16(message.at + AT_QUESTIONS) != 1) {
        return 0;
    }
    uint16_t answers = get16(message.at + AT_ANSWERS);
    struct str rest = str_skip(message, DNS_HEADER_BYTES);
    name = name_skip(rest);
    if (name == 0 || rest.len - name < QUESTION_TAIL) {
        return 0;
    }
    rest = str_skip(rest, name + QUESTION_TAIL);
    for (; answers > 0 && n < max && record_cut(&rest, &type, &data); answers--) {
        n += record_address(type, data, out[n]);
    }
    return n;
}
