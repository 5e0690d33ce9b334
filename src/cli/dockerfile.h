/* dockerfile.h - a Dockerfile as the steps of a template build. Pure: reads a text, touches no
 * file.
 *
 * Variables of ARG and ENV are put in where Docker does it; those that only the image knows stay in
 * ENV for the build to resolve. An instruction that cannot be built is refused with a sentence that
 * names its line; EXPOSE, VOLUME, LABEL and the like have no effect on a template and are noted.
 */
#ifndef CLI_DOCKERFILE_H
#define CLI_DOCKERFILE_H

#include <jansson.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    DOCKERFILE_BYTES_MAX = 1024 * 1024,
    DOCKERFILE_STEPS_MAX = 1000, /* of a stage */
    DOCKERFILE_STAGES_MAX = 50,
};

/* A stage before the last one is an object:
 *   "from", "steps"    as of the file
 *   "name"             of AS; "" without
 *   "number"           its place in the file, from 0 on; -1 for an image that COPY --from named
 *   "copies"           array of the sources that later stages take from it
 *   "base"             true when a later stage begins with it
 */
struct dockerfile {
    char *from;     /* an image, "template:NAME", or "stage:N" for stages[N] */
    json_t *steps;  /* [{"type", "args"}, ...]; of COPY: [source, target, owner, mode]; of COPY
                     * --from also "stage": N, and "copy": which of that stage's copies */
    json_t *stages; /* those before the last */
    char *start;    /* of ENTRYPOINT and CMD; NULL: neither */
    char *ready;    /* of HEALTHCHECK; NULL: none */
    json_t *notes;  /* sentences about ignored instructions */
};

/* `args`: object of strings that --build-arg gave, or NULL. Begins as root in /, and ends as `user`
 * in /home/user unless the file says otherwise: what official clients make of a Dockerfile. */
must_check int dockerfile_parse(struct str text, const json_t *args, struct dockerfile *out,
                                struct err *err);
void dockerfile_fini(struct dockerfile *file);

#endif
