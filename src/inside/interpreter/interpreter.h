/* interpreter.h - the service on port 49999: contexts by id, defaults by language, routes.
 *
 * Owns:     the contexts.
 * Needs:    a libuv loop, an HTTP server that hands it requests.
 * Blocks:   on reading specifications of kernels.
 * Threads:  the loop's.
 */
#ifndef INTERPRETER_INTERPRETER_H
#define INTERPRETER_INTERPRETER_H

#include <uv.h>

#include "lib/http/http.h"

struct interpreter;

struct interpreter_options {
    uv_loop_t *loop;
    const char *kernels_dir;  /* this project's own */
    const char *run_dir;      /* for sockets; made when it is not there */
    const char *cwd;          /* of contexts that name none */
    const char *boot_id_file; /* tells one boot of the sandbox from another */
    int start_s_max;          /* for the start of a kernel that somebody waits for */
    int agent_port;           /* where the sandbox's variables are asked for */
    /* Languages whose kernels are started in advance; ends with NULL. */
    const char *const *warm_languages;
};

/* Borrows what the options point to. */
struct interpreter *interpreter_new(const struct interpreter_options *options);

/* The server's on_request. */
void interpreter_request(void *interpreter, struct http_exchange *ex);

/* Kills every kernel. Memory is given back as libuv closes the handles. */
void interpreter_free(struct interpreter *interpreter);

#endif
