/* internal.h - shared by automaton.c, which has the patterns, and stream.c, which matches a text
 * against them. */
#ifndef GUARD_INTERNAL_H
#define GUARD_INTERNAL_H

#include <stdint.h>

#include "lib/guard/guard.h"

/* A pattern that ends in a state. Base64 of a piece of a text shares its outermost characters with
 * what stands beside it: these are no part of the pattern, but hold some of its bits. */
struct ending {
    uint32_t len; /* 0: none ends here */
    bool lead;    /* the character before shares bits */
    bool tail;    /* the one behind does */
    uint16_t tag; /* of its secret */
};

struct state {
    int32_t child, sibling; /* -1: none */
    int32_t fail;           /* the state of the longest end of this one that is also a beginning */
    uint32_t depth;
    uint32_t held;         /* bytes that a stream keeps back here */
    struct ending longest; /* the longest pattern that ends here: the others lie inside of it */
    struct ending encoded; /* the longest whose secret is also looked for in other spellings */
    unsigned char c;
};

struct wanted; /* automaton.c */

struct guard {
    struct wanted *secrets; /* by their bytes */
    size_t secrets_bytes;

    struct state *states; /* NULL until it is ready */
    size_t n;
    size_t longest; /* pattern */
    bool spaces;    /* a secret has some: a plus may stand for one */
    int32_t first[256];
};

/* Where c leads from a state. */
int32_t guard_step(const struct guard *guard, int32_t at, unsigned char c);

#endif
