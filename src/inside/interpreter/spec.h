/* spec.h - how a language's kernel is started: the kernel.json that Jupyter knows as well.
 *
 * Owns:     the specification it hands out.
 * Blocks:   on reading small files.
 *
 * They are looked for in this project's own directory first, then where Jupyter looks. Our own
 * settings are under metadata.atoll:
 *   transport  "ipc", "tcp" (the default) or "pipe"
 *   run        the line that asks a pipe kernel for a run: see pipe_wire.h
 *   waits      true: the kernel waits when its output is not taken, so nothing need be kept for it
 */
#ifndef INTERPRETER_SPEC_H
#define INTERPRETER_SPEC_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    SPEC_NAME_LEN_MAX = 64,
    SPEC_ARGS_MAX = 64,
    SPEC_BYTES_MAX = 256 * 1024,
};

enum spec_transport { SPEC_TCP, SPEC_IPC, SPEC_PIPE };

struct spec {
    char name[SPEC_NAME_LEN_MAX + 1];
    char *directory;                      /* {resource_dir} */
    char language[SPEC_NAME_LEN_MAX + 1]; /* the kernel's own word for it, lower case */
    json_t *argv;                         /* strings, at least one */
    json_t *env;                          /* strings by name; NULL: none */
    char *run;                            /* NULL: as every pipe kernel */
    enum spec_transport transport;
    bool waits;
    bool interrupts_by_message;
};

/* The language's name as contexts carry it: trimmed, lower case, "js" and "ts" spelled out; empty
 * becomes "python". -EINVAL when it cannot be the name of a kernel. */
must_check int spec_language(struct str text, char out[SPEC_NAME_LEN_MAX + 1]);

/* own_dir: this project's kernels. -ENOENT says which there are. */
must_check int spec_find(const char *own_dir, const char *language, struct spec **out,
                         struct err *err);
void spec_free(struct spec *spec);

#endif
