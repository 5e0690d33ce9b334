/* flow.h - what is done with sandboxes, one after the other or many at once, and how long each step
 * took.
 *
 * A flow is one sandbox on its way through the steps of a plan: create, run a command, kill. Lanes
 * carry the flows, each over one connection at a time; connections are kept from plan to plan, as
 * SDKs keep theirs.
 */
#ifndef BENCH_FLOW_H
#define BENCH_FLOW_H

#include <stdbool.h>
#include <stddef.h>

#include "client.h"

enum flow_step { FLOW_CREATE, FLOW_RUN, FLOW_KILL, FLOW_STEPS };

struct flow {
    struct client_box box; /* the caller's, unless the plan creates */
    double took_ms[FLOW_STEPS];
    double total_ms; /* from the begin of its first step to the end of its last */
    bool begun;
    bool failed; /* after a sentence on stderr */
};

struct flow_plan {
    bool steps[FLOW_STEPS];
    const char *template; /* of a create */
    const char *command;  /* of a run: a line for bash, sent as SDKs send it */
    size_t lanes;
    double stagger_ms; /* between the begins of two flows */
    double span_ms;    /* none begins after that; 0: all do */
};

/* Returns when every flow that began has ended. -1: they cannot be driven, after a sentence on
 * stderr. */
int flows_run(struct client *c, struct flow *flows, size_t n, const struct flow_plan *plan);

#endif
