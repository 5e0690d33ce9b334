/* names.h - addresses that stand for names, where the sandbox's proxy resolves the names.
 *
 * A sandbox behind a SOCKS5 proxy gets an address of 198.18.0.0/15 for each name it asks for, a
 * block that is not used on the internet. A connection to it goes to the name, through the proxy,
 * and this side never resolves the name.
 *
 * Owns:     the names.
 * Blocks:   never.
 * Threads:  any; objects are not shared.
 */
#ifndef EGRESS_NAMES_H
#define EGRESS_NAMES_H

#include "lib/base/str.h"
#include "serve/egress/address.h"

enum { NAMES_MAX = 4096 }; /* of one sandbox; one more takes the place of the oldest */

struct names;

struct names *names_new(void);
void names_free(struct names *names);

/* The address of a name: the one it has, or a new one. */
struct address names_address(struct names *names, struct str name);
/* NULL when it stands for none. */
const char *names_find(const struct names *names, const struct address *address);
bool names_has_block(const struct address *address); /* whether any name could have it */

/* Where API shells are asked, in every sandbox: 169.254.0.10. */
struct address names_shells(void);
bool names_is_shells(const struct address *address);

/* Where a program asks which sandbox it is in, as at E2B: 192.0.2.1, which no server has. */
#define SELF_HOST "events.e2b.local"
struct address names_self(void);
bool names_is_self(const struct address *address);

#endif
