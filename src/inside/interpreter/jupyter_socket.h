/* jupyter_socket.h - ZeroMQ sockets on a libuv loop.
 *
 * Owns:     the socket and its handles.
 * Needs:    a libuv loop.
 * Blocks:   never.
 * Threads:  the loop's; ZeroMQ has one of its own beneath.
 *
 * ZeroMQ's descriptor tells edges, not levels: one event may stand for many messages, and sending
 * may swallow the event of a message that came. So a socket is read until it is empty, and looked
 * at again after every send.
 */
#ifndef INTERPRETER_JUPYTER_SOCKET_H
#define INTERPRETER_JUPYTER_SOCKET_H

#include <stdbool.h>
#include <uv.h>

#include "lib/base/err.h"
#include "lib/base/str.h"

enum jupyter_channel { JUPYTER_SHELL, JUPYTER_CONTROL, JUPYTER_IOPUB };

struct jupyter_socket;

struct jupyter_socket_options {
    uv_loop_t *loop;
    enum jupyter_channel channel;
    const char *endpoint; /* "ipc:///path" or "tcp://127.0.0.1:port"; need not exist yet */
    int queue_max;        /* messages kept before the sender must wait; 0: no bound */
    void (*on_message)(void *ctx, enum jupyter_channel channel, const struct str *frames, size_t n);
    void *ctx;
};

must_check int jupyter_socket_open(const struct jupyter_socket_options *options,
                                   struct jupyter_socket **out, struct err *err);
void jupyter_socket_send(struct jupyter_socket *socket, const struct str *frames, size_t n);
void jupyter_socket_flow(struct jupyter_socket *socket, bool flows);

/* May be called inside on_message. Accepts NULL. */
void jupyter_socket_close(struct jupyter_socket *socket);

#endif
