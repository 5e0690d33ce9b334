/* hosts.h - the names under which a daemon is reached.
 *
 * A page of another site can make its own name point at this machine (DNS rebinding). Its requests
 * are then same-origin for the browser, and only the name in Host or :authority tells them from
 * those of a user. So a request for a name that is not served here is refused.
 *
 * Owns:     nothing: the strings are the caller's.
 * Blocks:   never; pure. Any thread.
 */
#ifndef HTTP_HOSTS_H
#define HTTP_HOSTS_H

#include <stdbool.h>

#include "lib/base/str.h"

struct hosts {
    const char *domain;   /* it and all names below it, perhaps with a port; "": none */
    const char *allowed;  /* more names, separated by commas: NAME, *.NAME (all below it), or * */
    const char *issuer;   /* the URL whose name is served too; "": none */
    const char *machine;  /* this machine's own name; "": not known */
    bool beyond_loopback; /* it listens on an address that other machines reach */
};

/* Always served: no name at all (HTTP/1.0), addresses, which no DNS answer can change, `localhost`
 * and all names below it. Beyond loopback also the machine's own name and names without a dot,
 * which no other site can own. The port does not matter: a tunnel may change it. */
bool hosts_serve(const struct hosts *hosts, struct str authority);

/* Without the port, the brackets of an IPv6 address and the root's dot. */
struct str hosts_name(struct str authority);

/* Whether `text` is a list as hosts.allowed has it. */
bool hosts_list_ok(struct str text);

#endif
