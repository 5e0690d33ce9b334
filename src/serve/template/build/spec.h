/* spec.h - the steps of a build as the client sent them, and the pure parts of carrying them out.
 *
 * Pure: no state, no loop. Also what the unit tests drive.
 */
#ifndef BUILD_SPEC_H
#define BUILD_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/encode.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    SPEC_STEPS_MAX = 500,
    SPEC_ARGS_MAX = 1024,             /* of one step */
    SPEC_TEXT_BYTES_MAX = 256 * 1024, /* of one argument, or of a command */
    SPEC_NAME_BYTES_MAX = 1024,       /* of an image or a template */
    SPEC_PATH_BYTES_MAX = 4095,
    SPEC_NESTING_MAX = 16,           /* of ${NAME:-${NAME:-...}} */
    SPEC_ENV_BYTES_MAX = 128 * 1024, /* of all variables of a template */
};

enum step_kind { STEP_RUN, STEP_COPY, STEP_ENV, STEP_WORKDIR, STEP_USER, STEP_UNKNOWN };

struct step {
    enum step_kind kind;
    const char *type;       /* as it was sent */
    const json_t *args;     /* array of strings */
    const char *files_hash; /* NULL: none */
    bool force;
};

struct spec {
    json_t *body;                           /* owns the borrowed texts */
    const char *from_image, *from_template; /* exactly one */
    const json_t *registry;                 /* credentials, or NULL */
    const char *start_cmd, *ready_cmd;      /* NULL: none */
    bool force;
    struct step *steps;
    size_t steps_n;
};

/* -EINVAL with the sentence for the client. Steps of an unknown type are taken: the build says so,
 * and names the step. */
must_check int spec_parse(const json_t *body, struct spec **out, struct err *err);
void spec_free(struct spec *spec);

/* -EINVAL when the step cannot be carried out as it is written, whatever the disk holds. */
must_check int step_check(const struct step *step, struct err *err);
const char *step_arg(const struct step *step, size_t i); /* "" when there is none */

/* "RUN apt-get update": as the log shows it. */
must_check int step_text(const struct step *step, struct buf *out);

/* ---- the chain of hashes ---- */

/* The hash that a build begins with: of its team, and of the base's name. */
void chain_begin(const char *team_id, const char *base, char out[SHA256_HEX_LEN + 1]);

/* The hash after a step. Each part is hashed with its length, so that no two lists give the
 * same. */
void chain_step(const char *before, const struct step *step, char out[SHA256_HEX_LEN + 1]);

/* ---- words ---- */

/* $NAME, ${NAME}, ${NAME:-word}, ${NAME:+word} become values of env (absent: empty); \$ is a
 * dollar. Commands are never run: $( and ` stay as they are. -EINVAL (also when words are nested
 * too deep), -ENOBUFS. */
must_check int expand(struct str text, const json_t *env, struct buf *out, struct err *err);

/* The part of the archive that a COPY means: `source` without "./", up to its first glob: the
 * client has packed the matching files. -EINVAL when it leads out of the context. */
must_check int copy_source(struct str source, struct buf *out, struct err *err);

/* path below dir unless it is absolute, without "." and "..", with the '/' at its end kept. */
must_check int path_join(struct str dir, struct str path, struct buf *out, struct err *err);

/* A name that useradd(8) takes, or a number. */
bool user_name_ok(struct str name);
bool owner_ok(struct str owner); /* user[:group], or user: */
bool mode_ok(struct str mode);   /* octal, up to 7777 */

#endif
