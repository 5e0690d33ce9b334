/* serve.h - the program's two tasks: serving a configuration, and installing servers in advance.
 *
 * Owns:     the loop while it runs.
 * Blocks:   until it is over.
 * Threads:  the caller's.
 */
#ifndef GATEWAY_SERVE_H
#define GATEWAY_SERVE_H

#include "inside/gateway/plan.h"

struct serve_options {
    const char *listen;     /* "0.0.0.0:50005" */
    const char *root;       /* below which packages are installed */
    const char *user;       /* runs the servers, if there is such a user */
    const char *token_file; /* where the SDK looks for the token */
    const char *log;        /* in the background */
    long wait_s;            /* for the servers to be up */
    bool foreground;
};

/* Each returns the program's exit status; errors have been reported. */
int serve(const struct serve_options *options, const struct plans *plans);
int pull(const struct serve_options *options, const struct plans *plans);

#endif
