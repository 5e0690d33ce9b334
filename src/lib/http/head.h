/* head.h - the head of a message: gathers the pieces that a parser brings, within limits, and
 * writes heads.
 *
 * Owns:     the text of one head. The request made from it points into it.
 * Blocks:   never.
 * Threads:  any; objects are not shared.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/http/http.h"

enum {
    HEAD_DATE_BYTES = 30, /* "Sun, 06 Nov 1994 08:49:37 GMT" */
};

struct head {
    struct buf text;   /* the target, then name, value, name, value... */
    struct buf fields; /* struct http_header[]; their `at` is set by head_seal() */
    size_t target_len;
    bool in_value; /* the last field has begun its value */
};

void head_init(struct head *head);
void head_fini(struct head *head);

/* Each is 0, -EMSGSIZE when the header fields are too many or too long, or -ENAMETOOLONG when the
 * target is. Names are lowered. A name after a value begins the next field. */
must_check int head_target(struct head *head, const char *data, size_t len);
must_check int head_name(struct head *head, const char *data, size_t len);
must_check int head_value(struct head *head, const char *data, size_t len);

/* Ends the gathering: from here on the fields point into the text, and neither moves. */
void head_seal(struct head *head);

struct head_fields {
    const struct http_header *at;
    size_t n;
};
struct head_fields head_fields(const struct head *head);
struct str head_target_text(const struct head *head);

/* HTTP/2 may send one cookie header as several fields: makes them one again, its text in `store`.
 * After head_seal(). */
must_check int head_join_cookies(struct head *head, struct buf *store);

/* How often a name occurs, and its first value. */
size_t head_count(struct head_fields fields, struct str name, struct str *first);

/* Splits a request target into authority (absolute form only), path and query. False when it is
 * none that a server answers: not a path, "*" without OPTIONS, or with a fragment. */
must_check bool head_split_target(struct str target, struct http_request *req);

/* Could stand in a Host header: neither spaces, control characters, slashes nor an "@". */
bool head_authority_ok(struct str authority);

/* Could stand in a request line: not empty, no spaces, no control characters. */
bool head_word_ok(struct str word);

/* Whether a field that a handler or a service gave may be sent: a token as its name, no control
 * character in its value, and none of those that frame the message. */
bool head_may_send(const struct http_header *field);

/* Writes those that may be sent, as HTTP/1.1 has them. */
must_check int head_put_fields(struct buf *out, const struct http_header *fields, size_t n);

/* The time now, as the `date` header has it; made once a second. */
const char *head_date(void);

#endif
