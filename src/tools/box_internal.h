/* box_internal.h - what box.c, box_run.c and box_files.c share: requests to a sandbox's agent. */
#ifndef TOOLS_BOX_INTERNAL_H
#define TOOLS_BOX_INTERNAL_H

#include "tools/box.h"
#include "tools/client.h"

enum {
    BOX_AGENT_PORT = 49983,
    BOX_PORT_BYTES = 8,
    BOX_HEADERS_MAX = 8,
    BOX_TARGET_BYTES_MAX = 16 * 1024,
};

/* The headers by which the edge and the agent know where a request goes and who sends it. */
struct box_headers {
    struct http_header at[BOX_HEADERS_MAX];
    size_t n;
    char port[BOX_PORT_BYTES];
};
void box_headers(struct box_headers *headers, const struct box *box, uint32_t port);
void box_header(struct box_headers *headers, const char *name, const char *value);

/* The failure that an answer of the edge's or the agent's tells; the rest of it is read. */
int box_refused(struct ask *ask, const char *what, struct err *err);

#endif
