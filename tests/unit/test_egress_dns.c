/* Questions a sandbox may ask, and what its answers look like. */
#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "serve/egress/dns_message.h"

#define HEADER "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define A_TEST "\001a\x04test\x00"
#define TYPE_A "\x00\x01\x00\x01"

#define BYTES(literal) ((struct str){(literal), sizeof(literal) - 1})

static void a_question_is_read(void)
{
    struct dns_question question;

    CHECK_INT(dns_question_parse(BYTES(HEADER "\001A\x04tEst\x00\x00\x1c\x00\x01"), &question), 0);
    CHECK_STR(question.name, "A.tEst");
    CHECK_INT(question.id, 0x1234);
    CHECK_INT(question.type, DNS_TYPE_AAAA);
    CHECK_INT(question.class, DNS_CLASS_IN);
    CHECK(question.recursion);
    CHECK_INT(dns_question_parse(BYTES(HEADER "\x00" TYPE_A), &question), 0);
    CHECK_STR(question.name, "");
}

static void what_is_no_question_is_refused(void)
{
    static const struct {
        struct str bytes;
        int want;
    } rows[] = {
        {{"", 0}, -EINVAL},
        {BYTES("\x12\x34\x01"), -EINVAL},
        {BYTES("\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00" A_TEST TYPE_A), -EINVAL},
        {BYTES("\x12\x34\x29\x00\x00\x01\x00\x00\x00\x00\x00\x00" A_TEST TYPE_A), -ENOTSUP},
        {BYTES("\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00" A_TEST TYPE_A), -EBADMSG},
        {BYTES("\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00" A_TEST TYPE_A), -EBADMSG},
        {BYTES(HEADER), -EBADMSG},
        {BYTES(HEADER "\001a\x04tes"), -EBADMSG},
        {BYTES(HEADER A_TEST "\x00\x01\x00"), -EBADMSG},
        {BYTES(HEADER "\xc0\x0c" TYPE_A), -EBADMSG},      /* points at itself */
        {BYTES(HEADER "\003a.b\x00" TYPE_A), -EBADMSG},   /* a dot inside a label */
        {BYTES(HEADER "\002a\x00\x00" TYPE_A), -EBADMSG}, /* a NUL */
        {BYTES(HEADER "\002a\\\x00" TYPE_A), -EBADMSG},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        struct dns_question question;
        int r = dns_question_parse(rows[i].bytes, &question);
        CHECK_THAT(r == rows[i].want, "row %zu: %d, want %d", i, r, rows[i].want);
    }
}

static void names_end_at_their_limit(void)
{
    char message[DNS_HEADER_BYTES + 400] = HEADER;
    struct dns_question question;
    size_t at = DNS_HEADER_BYTES;

    for (int i = 0; i < 3; i++) {
        message[at] = 63;
        memset(message + at + 1, 'x', 63);
        at += 64;
    }
    message[at] = 61; /* 3 * 64 + 62 + 1 = 255 */
    memset(message + at + 1, 'y', 61);
    CHECK_INT(dns_question_parse((struct str){message, at + 62 + 5}, &question), 0);
    CHECK_INT(strlen(question.name), 253);
    message[at] = 62;
    memset(message + at + 1, 'y', 62);
    CHECK_INT(dns_question_parse((struct str){message, at + 63 + 5}, &question), -EBADMSG);
}

static struct dns_question asked(void)
{
    struct dns_question question;

    if (dns_question_parse(BYTES(HEADER "\001A\x04tEst\x00" TYPE_A), &question) < 0) {
        abort();
    }
    return question;
}

static void an_empty_answer(void)
{
    static const char want[] = "\x12\x34\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00"
                               "\001A\x04tEst\x00" TYPE_A;
    struct dns_question question = asked();
    scoped_buf(out, DNS_MESSAGE_BYTES_MAX);

    CHECK_INT(dns_answer_empty(&out, &question, DNS_NXDOMAIN), 0);
    CHECK(str_eq(buf_str(&out), BYTES(want)));
}

/* Id, flags and the spelling of the name are the asker's; the records are the resolver's. */
static void an_answer_is_the_resolvers(void)
{
#define RECORD "\xc0\x0c" TYPE_A "\x00\x00\x00\x3c\x00\x04\x01\x02\x03\x04"
    static const char returned[] =
        "\x99\x99\x85\x80\x00\x01\x00\x01\x00\x00\x00\x00" A_TEST TYPE_A RECORD;
    static const char want[] = "\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00"
                               "\001A\x04tEst\x00" TYPE_A RECORD;
    struct dns_question question = asked();
    scoped_buf(out, DNS_MESSAGE_BYTES_MAX);

    CHECK_INT(dns_answer_from(&out, &question, BYTES(returned)), 0);
    CHECK(str_eq(buf_str(&out), BYTES(want)));
}

static void an_answer_to_something_else_is_none(void)
{
    struct dns_question question = asked();
    scoped_buf(out, DNS_MESSAGE_BYTES_MAX);

    CHECK_INT(dns_answer_from(&out, &question, BYTES(HEADER "\001b\x04test\x00" TYPE_A)), -EBADMSG);
    CHECK_INT(dns_answer_from(&out, &question, BYTES(HEADER "\001a\x04test\x00\x00\x01")),
              -EBADMSG);
    CHECK_INT(dns_answer_from(&out, &question, BYTES(HEADER)), -EBADMSG);
    CHECK_INT(dns_answer_from(&out, &question, (struct str){0}), -EBADMSG);
    CHECK_INT(buf_len(&out), 0);
}

static void what_is_too_long_is_asked_for_again(void)
{
    static const char head[] = "\x12\x34\x81\x80\x00\x01\x00\x40\x00\x00\x00\x00"
                               "\001A\x04tEst\x00" TYPE_A;
    static const char want[] = "\x12\x34\x83\x80\x00\x01\x00\x00\x00\x00\x00\x00"
                               "\001A\x04tEst\x00" TYPE_A;
    struct dns_question question = asked();
    char more[DNS_UDP_BYTES_MAX] = {0};
    scoped_buf(out, DNS_MESSAGE_BYTES_MAX);

    CHECK_INT(buf_append(&out, head, sizeof(head) - 1), 0);
    dns_answer_fit_udp(&out, &question);
    CHECK(str_eq(buf_str(&out), BYTES(head)));
    CHECK_INT(buf_append(&out, more, sizeof(more)), 0);
    dns_answer_fit_udp(&out, &question);
    CHECK(str_eq(buf_str(&out), BYTES(want)));
}

static void addresses_of_an_answer_are_found(void)
{
#define ANSWERS(n) "\x12\x34\x81\x80\x00\x01\x00" n "\x00\x00\x00\x00" A_TEST TYPE_A
#define RECORD_OF(type, len) "\xc0\x0c\x00" type "\x00\x01\x00\x00\x00\x3c\x00" len
    static const char v6[] = "0123456789abcdef";
    uint8_t found[4][16];

    struct str both = BYTES(ANSWERS("\x03") RECORD_OF("\x05", "\x02") "\xc0\x0c" RECORD_OF(
        "\x01", "\x04") "\x01\x02\x03\x04" RECORD_OF("\x1c", "\x10") "0123456789abcdef");
    CHECK_INT(dns_answer_addresses(both, found, 4), 2);
    CHECK_INT(found[0][10] + found[0][11] + found[0][12] + found[0][15], 0xff + 0xff + 1 + 4);
    CHECK(memcmp(found[1], v6, 16) == 0);
    CHECK_INT(dns_answer_addresses(both, found, 1), 1);
    for (size_t cut = 0; cut < both.len; cut++) {
        CHECK(dns_answer_addresses((struct str){both.at, cut}, found, 4) <= 1);
    }
    /* A name that never ends, a length that lies. */
    CHECK_INT(dns_answer_addresses(BYTES(ANSWERS("\x01") "\x3f"
                                                         "abc"),
                                   found, 4),
              0);
    CHECK_INT(
        dns_answer_addresses(BYTES(ANSWERS("\x01") RECORD_OF("\x01", "\xff") "\x01\x02"), found, 4),
        0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a question is read", a_question_is_read},
        {"what is no question is refused", what_is_no_question_is_refused},
        {"names end at their limit", names_end_at_their_limit},
        {"an empty answer", an_empty_answer},
        {"an answer is the resolver's", an_answer_is_the_resolvers},
        {"an answer to something else is none", an_answer_to_something_else_is_none},
        {"what is too long is asked for again", what_is_too_long_is_asked_for_again},
        {"addresses of an answer are found", addresses_of_an_answer_are_found},
    };
    return check_run(tests, countof(tests));
}
