/* template.h - what the files of `atoll template` share. */
#ifndef CLI_TEMPLATE_H
#define CLI_TEMPLATE_H

#include "base/id.h"
#include "cli/cli.h"

enum {
    TEMPLATE_NAME_BYTES = 1024, /* escaped */
    TEMPLATE_PATH_BYTES = 2048,
};

struct build_place {
    char template_id[TEMPLATE_NAME_BYTES];
    char build_id[ID_UUID_LEN + 1];
};

/* Prints a build's log until it has ended, or, without `wait`, what there is of it. An error of the
 * build is an error here, with its reason. -EINTR: the user broke it off. Blocks. */
must_check int build_follow(const struct endpoint *endpoint, const struct build_place *place,
                            bool wait, struct err *err);

/* Whether the user has asked us to stop, since follow_begin(). */
void follow_begin(void);
bool follow_interrupted(void);

#endif
