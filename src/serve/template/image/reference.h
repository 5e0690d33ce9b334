/* reference.h - the names of images, and the operator's map of them. Pure. */
#ifndef IMAGE_REFERENCE_H
#define IMAGE_REFERENCE_H

#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "serve/template/image/image.h"

enum {
    REFERENCE_HOST_BYTES = 256,
    REFERENCE_REPOSITORY_BYTES = 256,
    REFERENCE_TAG_BYTES = 129,
    REFERENCE_DIGEST_BYTES = 72, /* "sha256:", 64 digits and NUL */
};

enum reference_kind { REFERENCE_REGISTRY, REFERENCE_OCI, REFERENCE_DOCKER_ARCHIVE };

struct reference {
    enum reference_kind kind;
    char host[REFERENCE_HOST_BYTES]; /* with the port; "docker.io" when the name has none */
    char repository[REFERENCE_REPOSITORY_BYTES]; /* with "library/" where Docker's registry has it;
                                                    a path in the two other kinds */
    char tag[REFERENCE_TAG_BYTES];               /* "latest" when there is neither tag nor digest */
    char digest[REFERENCE_DIGEST_BYTES];         /* "": none */
};

must_check int reference_parse(struct str text, struct reference *out, struct err *err);

/* "sha256:" and 64 lower-case hex digits. */
bool reference_is_digest(struct str text);

/* The value behind the first pattern of "pattern=value,..." that the name matches; false: none. In
 * a pattern '*' stands for anything; a name is compared as it is written and, when it has no tag,
 * with ":latest" behind it; "docker.io/" and "library/" before it do not count. */
bool reference_map(struct str map, struct str name, struct str *value);

/* 0, or -EINVAL with a sentence, when the map cannot be read. */
must_check int reference_map_check(struct str map, struct err *err);

#endif
