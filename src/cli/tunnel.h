/* tunnel.h - one TCP connection into a sandbox, through its agent.
 *
 * The agent answers `GET /tcp/PORT` with `Upgrade: tcp` by the bytes of a connection to that port.
 *
 * Owns:     its two sockets, in a thread of its own that ends with them.
 * Blocks:   never the caller.
 * Threads:  any.
 */
#ifndef CLI_TUNNEL_H
#define CLI_TUNNEL_H

#include "cli/link.h"

/* Takes over `fd`, a connected socket that blocks. A failure is told on stderr, and the socket is
 * reset. The link must stay. */
void tunnel_start(const struct link *link, uint16_t port, int fd);

#endif
