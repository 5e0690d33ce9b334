/* h1.h - splits a stream of bytes into HTTP/1.1 messages.
 *
 * llhttp reads the head and the chunk lines, strictly; the bytes of a body are passed through
 * uncopied. This file refuses more than llhttp does: other versions, conflicting or exotic framing,
 * and heads, chunk lines and trailers beyond a limit.
 *
 * Owns:     the head being gathered. Needs: lib/http/head.h. Blocks: never.
 * Threads:  any; objects are not shared.
 */
#ifndef HTTP_H1_H
#define HTTP_H1_H

#include <llhttp.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/http/head.h"

enum {
    H1_FRAMING_BYTES_MAX = 16 * 1024, /* chunk line with extensions, or trailers, at a time */
    H1_CHUNK_LINE_BYTES = 64,         /* read ahead of credit, to see where the next chunk ends */
};

enum h1_state {
    H1_HEAD, /* nothing or a part of the head */
    H1_BODY,
    H1_DONE,
};

struct h1 {
    llhttp_t parser;
    enum h1_state state;
    struct head head;
    size_t head_bytes; /* as they came, with line ends and spaces */
    size_t framing_bytes;
    uint64_t left; /* of the body, or of the chunk at hand */
    bool chunked;
    bool until_eof;     /* a response that ends with its connection */
    bool head_complete; /* set by llhttp's callback within h1_head() */
    bool keep_alive;
    int refused; /* -errno of the callback that made llhttp stop */
};

void h1_init(struct h1 *h1, bool response);
void h1_fini(struct h1 *h1);
void h1_reset(struct h1 *h1); /* for the next message */

/* Why a message was refused: what to answer and one sentence. */
struct h1_fault {
    int status;
    const char *why;
};

/* Takes a part of the head; returns how many bytes it used, or -EPROTO with *fault filled. When the
 * head is complete h1->state is no longer H1_HEAD and h1->head is sealed. no_body: it answers HEAD,
 * so whatever its header says there is none. */
must_check long h1_head(struct h1 *h1, const char *data, size_t len, bool no_body,
                        struct h1_fault *fault);

/* Takes a part of the body: returns how many bytes it used, of which *slice, at most `credit` long,
 * is body; -EPROTO when the framing is broken, -EMSGSIZE when it is too long. 0 when it needs
 * credit or bytes. */
must_check long h1_body(struct h1 *h1, const char *data, size_t len, size_t credit,
                        struct str *slice);

/* How much to read next, so that little is left over when `credit` is used up. */
size_t h1_want(const struct h1 *h1, size_t credit);

/* The connection ended: true when that was the proper end of the body. */
bool h1_eof(struct h1 *h1);

int64_t h1_content_length(const struct h1 *h1); /* -1: unknown; 0: no body */

#endif
