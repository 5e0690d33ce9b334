/* tunnel.h - GET /tcp/PORT with `Upgrade: tcp`: the bytes of one TCP connection to a port of the
 * jail.
 *
 * The request passes the access token like every other (request.c). The agent connects to the
 * jail's loopback, as any program of the jail could.
 *
 * Owns:     its sockets. Blocks: never. Threads: the loop's.
 */
#ifndef AGENT_TUNNEL_H
#define AGENT_TUNNEL_H

#include "inside/agent/internal.h"

enum { TUNNELS_MAX = 256 }; /* at the same time */

/* True when the path is one of these, and the exchange was taken. */
bool tunnel_handle(struct agent *agent, struct http_exchange *ex);

#endif
