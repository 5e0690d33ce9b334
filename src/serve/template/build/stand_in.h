/* stand_in.h - a template of this machine in the place of an image: what is added to it, and what
 * is said about it.
 *
 * Owns nothing, never blocks, any thread.
 *
 * A map's value is `template` or `template+node`: with the latter the version of Node that the
 * image's tag names is installed from npm's package `node`, unless the template has it. */
#ifndef BUILD_STAND_IN_H
#define BUILD_STAND_IN_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "serve/template/name.h"

enum {
    STAND_IN_NAME_BYTES = 128,
    STAND_IN_VERSION_BYTES = 32,
};

struct stand_in {
    char template[STAND_IN_NAME_BYTES];
    char node[STAND_IN_VERSION_BYTES]; /* "22", "22.5.1", "latest"; "": nothing is added */
};

/* `mapped` is the map's value for the image. */
must_check int stand_in_read(const char *mapped, const char *image, struct stand_in *out,
                             struct err *err);

/* Installs Node: run as root with the version as $1. */
extern const char stand_in_node_script[];

/* The image that a machine without a registry builds from instead of this one; NULL: there is none.
 * For the sentence that says why an image is not available. */
const char *stand_in_instead(const char *image);

#endif
