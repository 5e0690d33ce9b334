/* builtin.h - the built-in templates, and the notices by which root tells the server of them.
 *
 * The settings of a template are beside its recipe, in TEMPLATES/<name>/settings.json:
 *
 *   from                     the template whose layers lie below its own; none: it is a whole root
 *   layerOnly                true: others are made from it, sandboxes are not
 *   cpuCount, memoryMB, diskSizeMB, user, workdir, env, startCmd, readyCmd
 *
 * A notice is RUN/notices/<name>.json: these settings and the layers once the template is in the
 * pool, {"awaited": sentence} before. Root writes it, by a rename; the server, which may be unable
 * to read the recipes, only reads.
 */
#ifndef DAEMON_BUILTIN_H
#define DAEMON_BUILTIN_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "serve/daemon/paths.h"
#include "serve/template/template.h"

#define BUILTIN_BASE TEMPLATE_BASE /* the one that serving waits for */

enum { BUILTIN_NAME_BYTES = 48 }; /* a template's, [a-z0-9-], and NUL */

/* Reads and checks the settings of one; *out is the caller's. -EINVAL names the field. */
must_check int builtin_read(const struct paths *paths, const char *name, json_t **out,
                            struct err *err);

const char *builtin_from(const json_t *settings); /* NULL: it stands on nothing */
bool builtin_is_layer(const json_t *settings);    /* and nothing else */

/* ---- notices ---- */

must_check int notice_ready(const struct paths *paths, const char *name, const json_t *settings,
                            const char *layers, struct err *err);

/* Replaces a notice that it is ready, too. A failed write is logged. */
void notice_awaited(const struct paths *paths, const char *name, const char *sentence);

/* For the start of a daemon: removes the notices of templates that are awaited. */
void notices_forget_awaited(const struct paths *paths);

/* The layers of a template that is ready: topmost first, separated by ','. -ENOENT when it is not.
 */
must_check int notice_layers(const struct paths *paths, const char *name, char *out, size_t size,
                             struct err *err);

/* Puts every notice into the table, as ready or awaited. A notice that cannot be read is logged and
 * left out. */
void notices_take(const struct paths *paths, struct templates *templates);

#endif
