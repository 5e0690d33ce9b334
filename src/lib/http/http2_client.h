/* http2_client.h - the client's half of HTTP/2: many exchanges on one connection.
 *
 * Owns:     the connection and its streams. Needs: lib/http/client_conn.h. Blocks: never. Threads:
 *           the loop's.
 */
#ifndef HTTP_HTTP2_CLIENT_H
#define HTTP_HTTP2_CLIENT_H

#include "lib/http/client_conn.h"
#include "lib/http/upstream.h"

struct http2_client;

/* Takes the connection over. `gone` is called once, when no new stream can be opened any more: the
 * connection broke, or the server sent GOAWAY. Streams that are under way go on or get their
 * on_end. */
struct http2_client *http2_client_new(struct client_conn *conn, void (*gone)(void *ctx), void *ctx);

/* Opens a stream for one upstream_send(); upstream_close() gives it back. NULL when the server
 * takes no more at this time. */
struct upstream *http2_client_open(struct http2_client *client);

/* No stream is under way. */
bool http2_client_idle(const struct http2_client *client);

/* Opens no new streams, and closes the client when the last stream has been given back. `gone` is
 * not called any more. */
void http2_client_leave(struct http2_client *client);

/* Its streams get no on_end; their owners give them back before they return to the loop. `gone` is
 * not called any more. Accepts NULL. */
void http2_client_close(struct http2_client *client);

#endif
