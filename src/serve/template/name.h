/* name.h - a template's name as a client writes it: [namespace/]alias[:tag], or an id. */
#ifndef TEMPLATE_NAME_H
#define TEMPLATE_NAME_H

#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum {
    TEMPLATE_NAME_MAX = 128, /* of each part */
};

struct template_name {
    char space[TEMPLATE_NAME_MAX + 1]; /* "": none given */
    char alias[TEMPLATE_NAME_MAX + 1]; /* or an id */
    char tag[TEMPLATE_NAME_MAX + 1];   /* "default" when none was given */
};

#define TEMPLATE_TAG_DEFAULT "default"

/* Lower-cases and checks: [a-z0-9_-], and '.' in a tag. -EINVAL. */
must_check int template_name_parse(struct str text, struct template_name *out);

/* Whether it is the id of a build: such an id can stand in the place of a tag. */
bool template_tag_is_build(struct str tag);

/* A tag alone, to be set. False when no tag can have that spelling. */
bool template_tag_parse(struct str text, char out[TEMPLATE_NAME_MAX + 1]);

#endif
