/* client.h - the daemon's end of the keeper's socket, on a libuv loop.
 *
 * Requests are pipelined; each is answered by exactly one call of its `done`, with -ECONNRESET
 * when the keeper went away in between (it may or may not have acted: ask again by id). The client
 * connects again by itself, every KEEPER_RETRY_MS, and tells on_state.
 */
#ifndef KEEPER_CLIENT_H
#define KEEPER_CLIENT_H

#include <stdbool.h>
#include <uv.h>

#include "lib/base/histogram.h"
#include "wire/keeper.h"

enum {
    KEEPER_RETRY_MS = 200,
};

struct keeper_client;

/* fds hold -1 where the answer brought none; done owns what it moves out (move_fd), the rest are
 * closed after it returns. */
typedef void keeper_done(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX]);

struct keeper_client *keeper_client_new(uv_loop_t *loop, const char *socket_path,
                                        void (*on_state)(void *ctx, bool connected), void *ctx);

/* While not connected: done is called from the loop with -ENOTCONN. seq and version are filled in.
 */
void keeper_client_ask(struct keeper_client *client, const struct keeper_request *req,
                       keeper_done *done, void *ctx);
/* The same for requests that take the keeper long: a create, a save, a restore. The request waits
 * until it is its owner's turn (turns.h). */
void keeper_client_ask_for(struct keeper_client *client, const char *owner,
                           const struct keeper_request *req, keeper_done *done, void *ctx);
/* Lists the names of all saves, in their order. A save that is made or removed meanwhile may be
 * listed or not. `each` returns whether to go on. `end` is called once: with 0, also when `each`
 * stopped the walk, or with -errno. */
struct keeper_saved_walk {
    bool (*each)(void *ctx, const char *name);
    void (*end)(void *ctx, int error, const struct err *err);
    void *ctx;
};
void keeper_client_saved_each(struct keeper_client *client, const struct keeper_saved_walk *walk);
bool keeper_client_connected(const struct keeper_client *client);
/* The status in the latest answer to HELLO or USAGE_MANY. */
const struct keeper_status *keeper_client_status(const struct keeper_client *client);

struct keeper_client_figures {
    struct histogram latency; /* of answered requests, from the asking */
    uint64_t lost;            /* requests that the keeper never answered */
    uint64_t waiting;         /* asked and not answered, now */
    uint64_t queued;          /* of those: not sent yet, because it is not their turn */
};
struct keeper_client_figures keeper_client_figures(const struct keeper_client *client);
void keeper_client_free(struct keeper_client *client);

#endif
