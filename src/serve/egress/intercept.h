/* intercept.h - connections to names that have a rule: TLS ends here, requests are given their
 * headers, and go on to a server whose certificate has been verified.
 *
 *      program ── TLS by the sandbox's authority ──┤ headers ├── TLS, verified ── server
 *
 * HTTP/1.1 and HTTP/2 on either side; WebSockets pass. A program that speaks HTTP/1.1 gets a server
 * connection that does. Plain HTTP is given headers as well, but none with a placeholder.
 *
 * A connection to the shells (shell_call.h) is of the same kind; but each of its requests may be
 * for another server, so it has a child intercept for each server.
 *
 * Owns:     the connections that were handed over, and those that it opens.
 * Needs:    the egress.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef EGRESS_INTERCEPT_H
#define EGRESS_INTERCEPT_H

#include "serve/egress/internal.h"

enum {
    INTERCEPT_DIALS_MAX = 8, /* connections to a server that one connection opens at one time */
};

struct intercept_start {
    int fd;           /* of the program's connection; taken over */
    struct str first; /* the bytes read so far */
    const char *name; /* the name that it asks for */
    struct endpoint asked, to;
    bool secure; /* it speaks TLS */
    bool shells; /* it is to the shells: `to` means nothing */
    bool self;   /* it asks which sandbox this is: likewise */
};

void intercept_start(struct egress_net *net, const struct intercept_start *start);
void intercepts_check(struct egress_net *net); /* policy or rules have changed */
void intercepts_close(struct egress_net *net);

must_check int intercept_open(struct egress *egress, const char *extra_ca, struct err *err);
void intercept_stop(struct egress *egress); /* then frees the egress */

#endif
