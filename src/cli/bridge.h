/* bridge.h - `atoll mcp`, between mcp.c (stdin, the session) and bridge_request.c (one request to
 * /mcp).
 *
 * Owns:     the requests under way.
 * Needs:    a daemon.
 * Blocks:   on writes to stdout; there is nothing else to do meanwhile.
 * Threads:  the loop's.
 */
#ifndef CLI_BRIDGE_H
#define CLI_BRIDGE_H

#include <jansson.h>
#include <uv.h>

#include "cli/cli.h"
#include "lib/base/buf.h"
#include "tools/tools.h"

enum {
    BRIDGE_LINE_BYTES_MAX = TOOLS_BODY_BYTES_MAX,
    BRIDGE_ANSWER_BYTES_MAX = 2 * TOOLS_BODY_BYTES_MAX,
    BRIDGE_PATH_BYTES = 512,
    BRIDGE_SESSION_BYTES = 128,
    BRIDGE_VERSION_BYTES = 32,
};

enum bridge_request_kind {
    BRIDGE_REQUEST_MESSAGE,    /* a line of the client's */
    BRIDGE_REQUEST_INITIALIZE, /* the same, which begins the session */
    BRIDGE_REQUEST_OPEN,       /* our own initialize, for a client without sessions */
    BRIDGE_REQUEST_LISTEN,     /* GET */
    BRIDGE_REQUEST_END,        /* DELETE */
};

struct bridge_request;

struct bridge {
    uv_loop_t loop;
    struct multi *multi;
    struct endpoint endpoint;
    char path[BRIDGE_PATH_BYTES];
    char session[BRIDGE_SESSION_BYTES]; /* "": there is none */
    char version[BRIDGE_VERSION_BYTES]; /* that was negotiated */
    struct buf input;                   /* of stdin, not taken yet */
    struct bridge_request *requests;
    struct bridge_request *lost; /* the daemon did not know their session: sent again later */
    bool opening;                /* a session is being begun: lines wait */
    bool refused;                /* the daemon gave none: lines go without */
    bool eof, ending;
    uv_fs_t read;
    char chunk[64 * 1024];
    uv_signal_t on_term, on_int;
    uv_timer_t grace, again;
};

/* Sends a request. Takes over `line`; NULL: no body. */
void bridge_request_start(struct bridge *bridge, enum bridge_request_kind kind, json_t *message,
                          char *line);

/* Sends the requests again whose session had expired. */
void bridge_requests_resend(struct bridge *bridge);

/* A line of the client's is under way. */
bool bridge_requests_busy(const struct bridge *bridge);

/* ---- called by bridge_request.c ---- */

void bridge_write(struct str message);
/* An error in place of an answer; id NULL: the request's could not be read. */
void bridge_fail(json_t *id, int code, const char *sentence);
/* The daemon answered a request that begins a session. */
void bridge_opened(struct bridge *bridge, enum bridge_request_kind kind, const json_t *answer);
/* The session has expired. */
void bridge_lost(struct bridge *bridge);
void bridge_ended(struct bridge *bridge, enum bridge_request_kind kind);

#endif
