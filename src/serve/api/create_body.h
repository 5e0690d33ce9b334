/* create_body.h - reads the body of POST /sandboxes and POST /v2/sandboxes.
 *
 * Pure: also what the fuzzer drives. */
#ifndef API_CREATE_BODY_H
#define API_CREATE_BODY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    CREATE_METADATA_ENTRIES_MAX = 256,
    CREATE_METADATA_BYTES_MAX = 64 * 1024,
    CREATE_ENV_ENTRIES_MAX = 1024,
    CREATE_ENV_BYTES_MAX = 128 * 1024,
    CREATE_IAM_TOKENS_MAX = 5,
    CREATE_V2_TIMEOUT_S_DEFAULT = 300,
};

enum create_version {
    CREATE_V1,
    CREATE_V2, /* always secure, and a longer default timeout */
};

struct create_body {
    const char *template_name; /* borrowed from the body, like the next three */
    const json_t *metadata;    /* NULL: none */
    const json_t *env_vars;
    int64_t timeout_ms;
    bool secure;
    json_t *options; /* owned: what is stored besides */
};

/* -EINVAL with the sentence for the client. The body must outlive *out. */
must_check int create_body_parse(const json_t *body, enum create_version version,
                                 int64_t timeout_s_max, struct create_body *out, struct err *err);
void create_body_fini(struct create_body *create);
#define scoped_create_body scoped(create_body_fini) struct create_body

/* A timeout in seconds as a client gives it, 0 to the most a sandbox may live. */
must_check int timeout_field(const json_t *body, const char *name, int64_t timeout_s_max,
                             int64_t *seconds, struct err *err);

#endif
