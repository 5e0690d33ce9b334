/* trust.h - certificate authorities that this sandbox trusts besides those of its image.
 *
 * Blocks:   for a few files.
 * Threads:  the loop's.
 */
#ifndef AGENT_TRUST_H
#define AGENT_TRUST_H

#include <stddef.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    TRUST_PEM_BYTES_MAX = 256 * 1024,
    TRUST_BUNDLE_BYTES_MAX = 8 * 1024 * 1024, /* of a file that is added to */
};

/* The bundle for programs that do not use the system's store. */
struct trust_variable {
    const char *name, *value;
};
extern const struct trust_variable trust_variables[];
extern const size_t trust_variables_n;

/* Adds to every bundle there is, and makes one where there is none. `hash`: the name by which
 * OpenSSL finds it in a directory; "" when that is unknown. Adding it twice changes nothing. */
must_check int trust_add(const char *pem, const char *hash, struct err *err);

/* The same below a directory other than /, for tests. */
must_check int trust_add_below(const char *root, const char *pem, const char *hash,
                               struct err *err);

#endif
