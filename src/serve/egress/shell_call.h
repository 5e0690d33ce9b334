/* shell_call.h - one request to an API shell: checks it, makes the API's request, and guards the
 * answer.
 *
 * The program's side says http://shell.atoll.internal/NAME/PATH. The answer is searched for the key
 * (lib/guard/guard.h), head and body, as it passes; so the API is asked not to compress it, and to
 * send it whole.
 *
 * Owns:     the guard of its answer.
 * Needs:    its net.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef EGRESS_SHELL_CALL_H
#define EGRESS_SHELL_CALL_H

#include "serve/egress/internal.h"
#include "serve/egress/outgoing_head.h"
#include "serve/egress/shell.h"

struct shell_call;

/* Whether the sandbox may ask this. *shell is borrowed until the next return to the loop. */
must_check int shell_call_new(struct egress_net *net, const struct http_request *req,
                              struct shell_call **out, const struct shell **shell, struct err *err);
void shell_call_free(struct shell_call *call); /* NULL is fine */

uint64_t shell_call_ms(const struct shell_call *call); /* since it began */

/* The head for the server at host and port: the shell may have changed since it was looked at. */
struct shell_origin {
    const char *host;
    uint16_t port;
    bool secure;
};
must_check int shell_call_head(struct shell_call *call, const struct http_request *req,
                               struct shell_origin origin, struct outgoing_head *out,
                               struct buf *target, struct err *err);

/* The head of the answer, guarded; or why the program cannot be given it. */
must_check int shell_call_answer(struct shell_call *call, int status,
                                 const struct http_header *headers, size_t n,
                                 struct outgoing_head *out, struct err *err);

/* A piece of its body, guarded; at the end what was kept back. */
must_check int shell_call_body(struct shell_call *call, struct str data, struct buf *out);
must_check int shell_call_body_end(struct shell_call *call, struct buf *out);

#endif
