/* Questions and answers from arbitrary bytes: the first half (by a length byte) is what a sandbox
 * asks, the rest what a resolver returned. Whatever is made of them must be a message that reads.
 */
#include <stdint.h>
#include <stdlib.h>

#include "serve/egress/dns_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_question(const struct dns_question *question)
{
    size_t len = strlen(question->name);

    check(len < sizeof(question->name));
    check(question->raw_len >= len + 4 && question->raw_len <= sizeof(question->raw));
    check(len == 0 || (question->name[0] != '.' && question->name[len - 1] != '.'));
}

/* An answer has the id and the question of the one who asked. */
static void check_answer(struct buf *answer, const struct dns_question *question)
{
    struct str text = buf_str(answer);

    check(text.len >= DNS_HEADER_BYTES + question->raw_len);
    check((uint8_t)text.at[0] == question->id >> 8 && (uint8_t)text.at[1] == (question->id & 0xff));
    check((uint8_t)text.at[2] & 0x80);
    check(memcmp(text.at + DNS_HEADER_BYTES, question->raw, question->raw_len) == 0);
    dns_answer_fit_udp(answer, question);
    check(buf_len(answer) <= DNS_UDP_BYTES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dns_question question;
    scoped_buf(answer, DNS_MESSAGE_BYTES_MAX);

    if (size == 0) {
        return 0;
    }
    struct str all = {(const char *)data + 1, size - 1};
    size_t cut = data[0] < all.len ? data[0] : all.len;
    if (dns_question_parse((struct str){all.at, cut}, &question) < 0) {
        return 0;
    }
    check_question(&question);
    if (dns_answer_from(&answer, &question, str_skip(all, cut)) == 0) {
        check_answer(&answer, &question);
    }
    uint8_t found[4][16];
    check(dns_answer_addresses(str_skip(all, cut), found, 4) <= 4);
    buf_clear(&answer);
    check(dns_answer_empty(&answer, &question, DNS_NXDOMAIN) == 0);
    check_answer(&answer, &question);
    return 0;
}
