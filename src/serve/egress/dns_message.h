/* dns_message.h - questions that a sandbox asks, and the answers it is given. Pure.
 *
 * Of a sandbox's message only the header and the first question are read. An answer is the
 * resolver's, with the asker's header and spelling.
 */
#ifndef EGRESS_DNS_MESSAGE_H
#define EGRESS_DNS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"

enum {
    DNS_HEADER_BYTES = 12,
    DNS_UDP_BYTES_MAX = 512, /* of an answer over UDP; a longer one is asked for over TCP */
    DNS_NAME_BYTES_MAX = 255,
    DNS_NAME_TEXT_BYTES = DNS_NAME_BYTES_MAX,
    DNS_QUESTION_BYTES_MAX = DNS_NAME_BYTES_MAX + 4,
    DNS_MESSAGE_BYTES_MAX = 65535,
    DNS_TTL_S = 60, /* of answers of our own */
};

enum { DNS_NOERROR = 0, DNS_FORMERR = 1, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4 };

enum { DNS_TYPE_A = 1, DNS_TYPE_PTR = 12, DNS_TYPE_AAAA = 28, DNS_TYPE_ANY = 255 };

enum { DNS_CLASS_IN = 1 };

struct dns_question {
    uint16_t id, type, class;
    bool recursion;                 /* was asked for */
    char name[DNS_NAME_TEXT_BYTES]; /* as a.b.c, without the last dot; the root is "" */
    uint8_t raw[DNS_QUESTION_BYTES_MAX];
    size_t raw_len;
};

/* 0; -EINVAL: no question, to be dropped; -EBADMSG: out has an id and may be told DNS_FORMERR;
 * -ENOTSUP: likewise DNS_NOTIMP. Names with other bytes than letters, digits, "-" and "_" are bad:
 * no host has one, and every program in between would have to agree on how they are written. */
must_check int dns_question_parse(struct str message, struct dns_question *out);

/* An answer without records. */
must_check int dns_answer_empty(struct buf *out, const struct dns_question *question, int code);

/* Makes an answer with one IPv4 address (DNS_TYPE_A). */
must_check int dns_answer_address(struct buf *out, const struct dns_question *question,
                                  const uint8_t v4[4]);

/* Makes the resolver's message an answer to this question; -EBADMSG when it is none. */
must_check int dns_answer_from(struct buf *out, const struct dns_question *question,
                               struct str returned);

/* The addresses in the resolver's message, IPv4 in their mapped form: at most `max`, and as far as
 * it can be read. */
size_t dns_answer_addresses(struct str message, uint8_t (*out)[16], size_t max);

/* Replaces an answer that is too long for UDP by "ask over TCP". */
void dns_answer_fit_udp(struct buf *answer, const struct dns_question *question);

#endif
