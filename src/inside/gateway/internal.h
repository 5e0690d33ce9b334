/* internal.h - the gateway's own state, for the files that serve its methods. */
#ifndef GATEWAY_INTERNAL_H
#define GATEWAY_INTERNAL_H

#include <uv.h>

#include "inside/gateway/gateway.h"
#include "inside/gateway/mcp_server.h"
#include "inside/gateway/post.h"
#include "inside/gateway/session.h"

struct gateway {
    struct gateway_options options;
    struct mcp_server *servers[PLANS_MAX]; /* in the order of the configuration */
    bool is_up[PLANS_MAX];
    size_t n;
    size_t missing; /* not up yet */
    bool ended;     /* on_up or on_failed has been called */
    struct session_table sessions;
    struct posts posts;
    uv_timer_t tick;
};

/* ---- methods.c ---- */

/* A message of a client: answers, now or when a server has. */
void methods_serve(void *gateway, struct post *post);

/* The method that a request names, if its revision has it. */
void methods_request(struct gateway *g, struct post *post);

/* {"capabilities", "instructions"} of all servers. */
json_t *methods_describe(const struct gateway *g);

/* A result, with what its revision wants besides; taken over. */
void methods_answer(struct post *post, json_t *result);

/* ---- stateless.c ---- */

void stateless_serve(struct gateway *g, struct post *post);
void stateless_discover(struct gateway *g, struct post *post, json_t *params);
void stateless_listen(struct gateway *g, struct post *post, json_t *params);

/* To all that listen and want it. */
void stateless_tell_changed(struct gateway *g, enum mcp_server_list list, const char *method);

#endif
