/* signature.h - the two ways to be allowed to use /files: the access token in a header, or a
 * signature in the query.
 *
 * signature = "v1_" + base64 without padding of SHA-256("<path>:<read|write>:<user>:<token>") with
 * ":<expiry>" after the token when there is one. The path and user are as the query has them.
 */
#ifndef AGENT_SIGNATURE_H
#define AGENT_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    SIGNATURE_BYTES = 64, /* "v1_" and 43 characters */
};

struct signature_claim {
    struct str path;
    struct str operation; /* "read" or "write" */
    struct str username;  /* empty when the query names none */
    bool has_expiry;
    int64_t expiry_s;
};

void signature_make(const struct signature_claim *claim, struct str token,
                    char out[SIGNATURE_BYTES]);

/* token: the sandbox's. header: X-Access-Token as sent; signature: as in the query. at == NULL:
 * absent. -EACCES with the sentence to answer. */
must_check int signature_check(const struct signature_claim *claim, struct str token,
                               struct str header, struct str signature, int64_t now_s,
                               struct err *err);

#endif
