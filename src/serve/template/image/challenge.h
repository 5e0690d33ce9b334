/* challenge.h - reads the authentication that a registry requires: the header WWW-Authenticate.
 * Pure. */
#ifndef IMAGE_CHALLENGE_H
#define IMAGE_CHALLENGE_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum { CHALLENGE_TEXT_BYTES = 1024 };

enum challenge_kind { CHALLENGE_BASIC, CHALLENGE_BEARER };

struct challenge {
    enum challenge_kind kind;
    char realm[CHALLENGE_TEXT_BYTES]; /* BEARER: the URL that gives tokens */
    char service[CHALLENGE_TEXT_BYTES];
    char scope[CHALLENGE_TEXT_BYTES];
};

/* Takes the first challenge of the two kinds; others are passed over. -EINVAL: there is none. */
must_check int challenge_parse(struct str header, struct challenge *out, struct err *err);

#endif
