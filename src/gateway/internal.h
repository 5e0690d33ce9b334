/* internal.h - the gateway's own state, for the files that serve its methods. */
#ifndef GATEWAY_INTERNAL_H
#define GATEWAY_INTERNAL_H

#include <uv.h>

#include "gateway/backend.h"
#include "gateway/call.h"
#include "gateway/gateway.h"
#include "gateway/session.h"

struct gateway {
    struct gateway_options options;
    struct backend *backends[PLANS_MAX]; /* in the order of the configuration */
    bool is_up[PLANS_MAX];
    size_t n;
    size_t missing; /* not up yet */
    bool ended;     /* on_up or on_failed has been called */
    struct sessions sessions;
    struct calls calls;
    uv_timer_t tick;
};

/* A message of a client: answers, now or when a server has. */
void methods_serve(void *gateway, struct call *call);

#endif
