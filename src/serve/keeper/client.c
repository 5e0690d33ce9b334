#include "serve/keeper/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/foreign.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "serve/keeper/turns.h"

/* A question from the asking until its answer. Unsent ones come first in the order of the asking,
 * which is the order of sending. */
struct question {
    struct question *prev, *next;
    struct turn turn; /* while it has none of the lists below; and its slot */
    struct keeper_request req;
    keeper_done *done;
    void *ctx;
    int64_t asked_us;
};

struct keeper_client {
    uv_loop_t *loop;
    char *path;
    void (*on_state)(void *ctx, bool connected);
    void *ctx;

    int fd;             /* -1: not connected */
    uv_poll_t *poll;    /* of fd; its own allocation: closing it outlives the connection */
    uv_timer_t retry;   /* every KEEPER_RETRY_MS while there is no connection */
    uv_idle_t refusals; /* runs while `refused` is not empty: done is never called from ask() */
    bool connected;     /* the keeper has answered the hello */
    uint32_t refused_version; /* of the keeper, the latest that is not ours */
    bool freed;
    unsigned handles; /* that must close before the memory goes */
    uint32_t seq;
    struct keeper_status status;
    struct keeper_client_figures figures;

    struct question *unsent;
    struct question *sent;
    struct question *refused;
    struct turns turns;
};

static void client_lose(struct keeper_client *client, int status, const char *why);
static void poll_update(struct keeper_client *client);

/* ---- questions ---- */

/* Messages of a jail's may wait in its channel, with descriptors. */
static void answer_close(int fds[KEEPER_FDS_MAX])
{
    for (size_t i = 0; i < KEEPER_FDS_MAX; i++) {
        foreign_closep(&fds[i]);
    }
}

static void question_answer(struct question *question, const struct keeper_answer *answer,
                            int fds[KEEPER_FDS_MAX])
{
    question->done(question->ctx, answer, fds);
    answer_close(fds);
    free(question);
}

static void question_fail(struct question *question, int status, const char *why)
{
    int fds[KEEPER_FDS_MAX] = KEEPER_FDS_NONE;
    struct keeper_answer answer = {
        .version = KEEPER_VERSION,
        .op = question->req.op,
        .seq = question->req.seq,
        .status = status,
    };

    (void)err_set(&answer.err, -status, "%s", why);
    question_answer(question, &answer, fds);
}

static void questions_fail(struct question **list, int status, const char *why)
{
    struct question *mine = *list; /* those asked by a callback are not of this round */

    *list = NULL;
    while (mine) {
        struct question *question = mine;
        DL_DELETE(mine, question);
        question_fail(question, status, why);
    }
}

static uint64_t questions_count(const struct question *list)
{
    const struct question *question;
    uint64_t n = 0;

    DL_COUNT(list, question, n);
    return n;
}

static void refusals_run(uv_idle_t *idle)
{
    struct keeper_client *client = idle->data;

    (void)uv_idle_stop(idle);
    questions_fail(&client->refused, -ENOTCONN, "the keeper cannot be reached");
}

static struct question *question_new(struct keeper_client *client, const struct keeper_request *req,
                                     keeper_done *done, void *ctx)
{
    struct question *question = xnew(struct question);

    question->req = *req;
    question->req.version = KEEPER_VERSION;
    question->req.seq = ++client->seq;
    question->done = done;
    question->ctx = ctx;
    question->asked_us = clock_mono_us();
    return question;
}

static void question_add(struct keeper_client *client, struct question **list,
                         const struct keeper_request *req, keeper_done *done, void *ctx)
{
    struct question *question = question_new(client, req, done, ctx);

    DL_APPEND(*list, question);
}

/* ---- turns ---- */

static struct question *question_of(struct turn *turn)
{
    return container_of(turn, struct question, turn);
}

static void turns_pump(struct keeper_client *client)
{
    struct turn *turn;

    while (client->connected && (turn = turns_next(&client->turns))) {
        struct question *question = question_of(turn);
        DL_APPEND(client->unsent, question);
    }
    if (client->connected) {
        poll_update(client);
    }
}

/* Nobody will answer those either. */
static void turns_lose(struct keeper_client *client, struct question **lost)
{
    struct question *question;
    struct turn *turn;

    DL_FOREACH (*lost, question) {
        turn_over(&question->turn);
    }
    while ((turn = turns_drop(&client->turns))) {
        question = question_of(turn);
        DL_APPEND(*lost, question);
    }
}

/* ---- the connection ---- */

static void unsent_send(struct keeper_client *client)
{
    while (client->unsent) {
        struct question *question = client->unsent;
        ssize_t n = send(client->fd, &question->req, sizeof(question->req), MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            break;
        }
        if (n < 0) {
            client_lose(client, -ECONNRESET, "the keeper went away");
            return;
        }
        DL_DELETE(client->unsent, question);
        DL_APPEND(client->sent, question);
    }
    poll_update(client);
}

/* 1: an answer; 0: none yet; -errno: the connection is over. An answer whose descriptors this
 * process has no room for comes without any: whoever asked sees what is missing. */
static int answer_receive(int fd, struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct iovec iov = {answer, sizeof(*answer)};
    ssize_t n = fdpass_receive(fd, &iov, 1, fds, KEEPER_FDS_MAX, MSG_DONTWAIT);

    if (n == -EAGAIN || n == -EINTR) {
        return 0;
    }
    bool any = n >= (ssize_t)sizeof(answer->version) || n == -EMSGSIZE;
    if (any && answer->version != KEEPER_VERSION) {
        return -EPROTO; /* its answers may have another size */
    }
    return n == (ssize_t)sizeof(*answer) || n == -ETOOMANYREFS ? 1 : -ECONNRESET;
}

static void answer_note(struct keeper_client *client, const struct question *question,
                        const struct keeper_answer *answer)
{
    histogram_add(&client->figures.latency, clock_mono_us() - question->asked_us);
    if (answer->op == KEEPER_USAGE_MANY && answer->status == 0) {
        uint32_t jails = client->status.jails;

        client->status = answer->state;
        client->status.jails = jails;
    }
}

/* It is tried again until one of the two is replaced: the log has it once. */
static void version_tell(struct keeper_client *client, uint32_t version)
{
    if (version != KEEPER_VERSION && version != client->refused_version) {
        log_warn("the keeper speaks version %" PRIu32 " of its protocol, this server %d: start "
                 "both from one release (systemctl restart atoll-keeper atoll)",
                 version, KEEPER_VERSION);
    }
    client->refused_version = version;
}

static void answers_take(struct keeper_client *client)
{
    while (client->fd >= 0) {
        struct keeper_answer answer = {0};
        int fds[KEEPER_FDS_MAX];
        struct question *question;

        int r = answer_receive(client->fd, &answer, fds);
        if (r == 0) {
            return;
        }
        if (r < 0) {
            answer_close(fds);
            version_tell(client, r == -EPROTO ? answer.version : KEEPER_VERSION);
            client_lose(client, -ECONNRESET, "the keeper went away");
            return;
        }
        DL_SEARCH_SCALAR(client->sent, question, req.seq, answer.seq);
        if (question) {
            DL_DELETE(client->sent, question);
            answer_note(client, question, &answer);
            turn_over(&question->turn);
            turns_pump(client);
            question_answer(question, &answer, fds);
        } else {
            answer_close(fds); /* nobody asked */
        }
    }
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct keeper_client *client = poll->data;

    busy("answers of the keeper");
    if (status < 0) {
        client_lose(client, -ECONNRESET, "the keeper went away");
        return;
    }
    if (events & UV_WRITABLE) {
        unsent_send(client);
    }
    if (events & UV_READABLE && client->fd >= 0) {
        answers_take(client);
    }
}

static void poll_update(struct keeper_client *client)
{
    int events = UV_READABLE | (client->unsent ? UV_WRITABLE : 0);

    (void)uv_poll_start(client->poll, events, on_ready);
}

static void poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_hello(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct keeper_client *client = ctx;

    (void)fds;
    if (answer->status < 0) {
        return; /* the connection was lost, or the keeper speaks another version and drops us */
    }
    client->status = answer->state;
    client->connected = true;
    client->on_state(client->ctx, true);
}

static int connection_open(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    scoped_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || !str_copy(address.sun_path, sizeof(address.sun_path), str_of(path)) ||
        connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        return -1;
    }
    return move_fd(&fd);
}

static void on_retry(uv_timer_t *timer)
{
    struct keeper_client *client = timer->data;

    client->fd = connection_open(client->path);
    if (client->fd < 0) {
        return; /* the timer comes again */
    }
    (void)uv_timer_stop(timer);
    client->poll = xnew(uv_poll_t);
    client->poll->data = client;
    if (uv_poll_init(client->loop, client->poll, client->fd) < 0) {
        abort(); /* a fresh descriptor can always be polled */
    }
    question_add(client, &client->unsent, &(struct keeper_request){.op = KEEPER_HELLO}, on_hello,
                 client);
    unsent_send(client);
}

/* Callbacks run last, when the client is in order again: they may ask, or free it. */
static void client_lose(struct keeper_client *client, int status, const char *why)
{
    bool was_connected = client->connected;
    struct question *lost = client->sent;

    if (client->fd < 0) {
        return;
    }
    DL_CONCAT(lost, client->unsent);
    turns_lose(client, &lost);
    client->figures.lost += questions_count(lost);
    client->sent = client->unsent = NULL;
    client->connected = false;
    (void)uv_poll_stop(client->poll);
    uv_close((uv_handle_t *)client->poll, poll_closed);
    client->poll = NULL;
    fd_closep(&client->fd);
    if (!client->freed) {
        (void)uv_timer_start(&client->retry, on_retry, KEEPER_RETRY_MS, KEEPER_RETRY_MS);
    }
    questions_fail(&lost, status, why);
    if (was_connected && !client->freed) {
        client->on_state(client->ctx, false);
    }
}

/* ---- the interface ---- */

struct keeper_client *keeper_client_new(uv_loop_t *loop, const char *socket_path,
                                        void (*on_state)(void *ctx, bool connected), void *ctx)
{
    struct keeper_client *client = xnew(struct keeper_client);

    client->loop = loop;
    client->path = xstrdup(socket_path);
    client->on_state = on_state;
    client->ctx = ctx;
    client->fd = -1;
    turns_init(&client->turns);
    (void)uv_timer_init(loop, &client->retry);
    (void)uv_idle_init(loop, &client->refusals);
    client->retry.data = client->refusals.data = client;
    client->handles = 2;
    (void)uv_timer_start(&client->retry, on_retry, 0, KEEPER_RETRY_MS);
    return client;
}

void keeper_client_ask(struct keeper_client *client, const struct keeper_request *req,
                       keeper_done *done, void *ctx)
{
    if (!client->connected) {
        question_add(client, &client->refused, req, done, ctx);
        (void)uv_idle_start(&client->refusals, refusals_run);
        return;
    }
    question_add(client, &client->unsent, req, done, ctx);
    poll_update(
        client); /* sent from the loop: losing the connection must not call back from here */
}

void keeper_client_ask_for(struct keeper_client *client, const char *owner,
                           const struct keeper_request *req, keeper_done *done, void *ctx)
{
    if (!client->connected) {
        keeper_client_ask(client, req, done, ctx);
        return;
    }
    struct question *question = question_new(client, req, done, ctx);
    turns_add(&client->turns, owner, &question->turn);
    turns_pump(client);
}

bool keeper_client_connected(const struct keeper_client *client)
{
    return client->connected;
}

const struct keeper_status *keeper_client_status(const struct keeper_client *client)
{
    return &client->status;
}

struct keeper_client_figures keeper_client_figures(const struct keeper_client *client)
{
    struct keeper_client_figures figures = client->figures;

    figures.queued = client->turns.waiting_n;
    figures.waiting =
        questions_count(client->unsent) + questions_count(client->sent) + figures.queued;
    return figures;
}

static void handle_closed(uv_handle_t *handle)
{
    struct keeper_client *client = handle->data;

    if (--client->handles == 0) {
        free(client->path);
        free(client);
    }
}

void keeper_client_free(struct keeper_client *client)
{
    if (!client) {
        return;
    }
    client->freed = true;
    if (client->connected) {
        unsent_send(client); /* the keeper does what it is told also when nobody hears of it */
    }
    client_lose(client, -ECONNRESET, "the client is closing");
    questions_fail(&client->refused, -ENOTCONN, "the client is closing");
    uv_close((uv_handle_t *)&client->retry, handle_closed);
    uv_close((uv_handle_t *)&client->refusals, handle_closed);
}
