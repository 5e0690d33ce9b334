/* backend.h - one MCP server: its process, its tools, prompts and resources, the open questions.
 *
 * Owns:     the process, the lists of what it offers, a question until its answer.
 * Needs:    a plan and a place, which outlive it.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * The server speaks MCP over its standard input and output, a message per line. It is the same
 * process for all clients of the gateway. A server that ends after it was up is started again by
 * the next question; open questions are answered with an error. We offer a server nothing (no
 * roots, no sampling): every request of it except ping is refused.
 */
#ifndef GATEWAY_BACKEND_H
#define GATEWAY_BACKEND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "inside/gateway/install.h"
#include "inside/gateway/plan.h"
#include "lib/base/str.h"

enum backend_list {
    BACKEND_TOOLS,
    BACKEND_PROMPTS,
    BACKEND_RESOURCES,
    BACKEND_TEMPLATES, /* of addresses of resources */
    BACKEND_LISTS,
};

struct backend;

struct backend_events {
    void (*on_up)(void *ctx, struct backend *backend); /* the first time */
    /* It never was up. `said` is the end of what it wrote. */
    void (*on_failed)(void *ctx, struct backend *backend, const char *why, struct str said);
    void (*on_changed)(void *ctx, struct backend *backend, enum backend_list list);
    void (*on_notification)(void *ctx, struct backend *backend, const char *method, json_t *params);
};

/* The asker. A question is answered once: with a JSON-RPC message that has a result or an error. */
struct backend_asker {
    void (*on_answer)(void *ctx, json_t *message);
    void (*on_progress)(void *ctx, json_t *params); /* may be NULL */
};

struct backend *backend_new(const struct place *place, const struct plan *plan,
                            const struct backend_events *events, void *ctx);
void backend_start(struct backend *backend); /* once; on_up or on_failed follows, or comes inside */
void backend_free(struct backend *backend);  /* questions that are left are answered inside */

/* The parameters are stolen. *id is the question's, for backend_cancel(), set before an answer
 * comes; that may be inside, when the server cannot be started. */
void backend_ask(struct backend *backend, const char *method, json_t *params,
                 const struct backend_asker *asker, void *ctx, int64_t *id);
void backend_cancel(struct backend *backend, int64_t id, const char *reason);

const struct plan *backend_plan(const struct backend *backend);
json_t *backend_items(const struct backend *backend, enum backend_list list); /* borrowed */
bool backend_is_installing(const struct backend *backend);
bool backend_can(const struct backend *backend, const char *capability);
bool backend_can_subscribe(const struct backend *backend);
const char *backend_instructions(const struct backend *backend); /* "": none */
struct str backend_said(const struct backend *backend);          /* last, on standard error */

#endif
