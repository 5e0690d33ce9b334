/* dockerfile.h - a Dockerfile as the steps of a template build. Pure: reads a text, touches no
 * file.
 *
 * One stage. Variables of ARG and ENV are put in where Docker does it; those that only the image
 * knows stay in ENV for the build to resolve. What cannot be built is refused with a sentence that
 * names the line; what means nothing to a template (EXPOSE, VOLUME, LABEL, ...) is noted.
 */
#ifndef CLI_DOCKERFILE_H
#define CLI_DOCKERFILE_H

#include <jansson.h>

#include "base/compiler.h"
#include "base/err.h"
#include "base/str.h"

enum {
    DOCKERFILE_BYTES_MAX = 1024 * 1024,
    DOCKERFILE_STEPS_MAX = 1000,
};

struct dockerfile {
    char *from;
    json_t *steps; /* [{"type", "args"}, ...]; of COPY: [source, target, owner, mode] */
    char *start;   /* of ENTRYPOINT and CMD; NULL: neither */
    json_t *notes; /* sentences about what was left out */
};

/* `args`: object of strings that --build-arg gave, or NULL. Begins as root in /, and ends as `user`
 * in /home/user unless the file says otherwise: what official clients make of a Dockerfile. */
must_check int dockerfile_parse(struct str text, const json_t *args, struct dockerfile *out,
                                struct err *err);
void dockerfile_fini(struct dockerfile *file);

#endif
