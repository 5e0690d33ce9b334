/* shell.h - API shells: a program uses an API without holding its key.
 *
 *   {"baseUrl": "https://api.example.com/v1", "methods": ["GET"], "paths": [...],
 *    "header": {"name": "Authorization", "value": "Bearer ${e2b.secrets.example}"}}
 *
 * A program asks http://shell.atoll.internal/NAME/PATH. The path is read as a strict server would
 * read it, and anything that two servers might read differently is refused; so the API sees exactly
 * the path that is checked here. In a pattern "*" stands for any text without a slash, "**" for any
 * text. The key is in a header or in a field of the query; its value has placeholders
 * (transform.h), or is stored sealed, outside of the definition.
 *
 * Pure.
 */
#ifndef EGRESS_SHELL_H
#define EGRESS_SHELL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/guard/said.h"
#include "lib/http/http.h"
#include "serve/egress/policy.h"
#include "serve/egress/transform.h"

#define SHELL_HOST "shell.atoll.internal"
#define SHELL_SEALED "atoll.shells." /* and a name: what the sealed value of a shell is called */

enum {
    SHELL_NAME_BYTES_MAX = 64,
    SHELL_URL_BYTES_MAX = 2048,
    SHELL_METHODS_MAX = 8,
    SHELL_PATTERNS_MAX = 64,
    SHELL_PATTERN_BYTES_MAX = 512,
    SHELL_PATH_BYTES_MAX = 4096, /* of a request */
    SHELL_FIELD_BYTES_MAX = 64,  /* the name of a header or of a field of the query */
    SHELL_VALUE_BYTES_MAX = 8 * 1024,
    SHELL_DESCRIPTION_BYTES_MAX = 1024,
};

enum shell_place { SHELL_HEADER, SHELL_QUERY };

struct shell {
    char name[SHELL_NAME_BYTES_MAX + 1];
    json_t *definition; /* as above; without the value where that is sealed */
    bool secure;        /* https */
    char host[POLICY_NAME_BYTES];
    uint16_t port;
    char authority[POLICY_NAME_BYTES + 8]; /* for Host: without a port that says nothing */
    char *base;                            /* the base URL's path, without a slash at its end */
    enum shell_place place;
    struct transform_header key;
    bool sealed;
};

/* Lower-case letters, digits, "-" and "_". */
must_check int shell_name_check(const char *name, struct err *err);

/* Reads a definition, or says which field is wrong with it. */
must_check int shell_new(const char *name, const json_t *definition, struct shell **out,
                         struct err *err);
void shell_free(struct shell *shell); /* NULL is fine */

/* Cuts "/NAME/PATH" into its parts: PATH begins with a slash, or is empty. */
void shell_cut(struct str path, struct str *name, struct str *rest);

/* Whether that may be asked: 0, or -EPERM (not allowed by the shell) or -EINVAL (allowed by no
 * shell) with a sentence for the program. */
must_check int shell_allows(const struct shell *shell, struct str method, struct str path,
                            struct err *err);

/* Whether the request also names another method or path than its own, for servers that believe it:
 * 0, or -EINVAL with a sentence. The method and path that were checked must be those that the
 * server uses. */
must_check int shell_overrides(const struct http_header *headers, size_t n, struct str query,
                               struct err *err);

/* Whether two names of headers are one for a server that hands headers on as variables, where "-"
 * becomes "_". */
bool shell_same_header(struct str given, const char *name);

/* Path and query as they go to the API. `value` is the key's, used where the query carries it. */
must_check int shell_target(const struct shell *shell, struct str path, struct str query,
                            struct str value, struct buf *out);

/* Where a redirect leads, as the program is to see it. -EPERM with a sentence when that is outside
 * of what the base URL covers. The guard has the key: an API may redirect to what it was asked. */
must_check int shell_location(const struct shell *shell, const struct guard *guard,
                              struct str location, struct buf *out, struct err *err);

/* Whether a pattern has that path, both in plain text. */
bool shell_pattern_has(struct str pattern, struct str path);

#endif
