/* layer.h - from a recipe to layers in the pool: TEMPLATES/<name>/recipe makes an archive in the
 * cache, which is unpacked into the pool.
 *
 * Blocks for as long as it takes (a recipe: minutes). Root's. The next process removes unfinished
 * work of one that was killed.
 */
#ifndef DAEMON_LAYER_H
#define DAEMON_LAYER_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "serve/daemon/config.h"
#include "serve/daemon/paths.h"
#include "serve/daemon/run.h"

/* Makes the layers of a template and of those it stands on, unless they are there, and writes the
 * notice that it is ready. `lines` gets the progress; NULL: stderr does. Holds the layers lock
 * while it unpacks. -EINTR when we are asked to end meanwhile. */
must_check int layer_prepare(const struct config *config, const struct paths *paths,
                             const char *name, const struct run_lines *lines, struct err *err);

/* How far the template's own layer is. */
enum layer_state {
    LAYER_NONE,    /* the recipe must make it */
    LAYER_ARCHIVE, /* made: it is to be unpacked */
    LAYER_READY,
};
enum layer_state layer_look(const struct config *config, const struct paths *paths,
                            const char *name);

#endif
