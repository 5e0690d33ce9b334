#include "inside/interpreter/globals.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "inside/interpreter/json_read.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/http/upstream.h"

enum {
    ENVS_BYTES_MAX = 4 * 1024 * 1024,
    ANSWER_MS_MAX = 2000, /* an agent that does not answer keeps no cell waiting */
    BOOT_ID_BYTES = 64,
};

struct globals {
    uv_loop_t *loop;
    uv_timer_t timer;
    int agent_port;
    const char *boot_id_file;
    void (*on_known)(void *ctx);
    void *ctx;
    struct upstream *agent; /* while it is being asked */
    struct buf answer;
    int status;
    char boot_id[BOOT_ID_BYTES]; /* the last one seen */
    bool asked;                  /* in this boot */
    uint64_t boots;
    uint64_t generation;
    json_t *envs;
};

static void boot_id_check(struct globals *g)
{
    char boot_id[BOOT_ID_BYTES] = "";
    scoped_fd fd = open(g->boot_id_file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, boot_id, sizeof(boot_id) - 1);

    boot_id[n > 0 ? n : 0] = '\0';
    if (g->boots == 0 || strcmp(boot_id, g->boot_id) != 0) {
        memcpy(g->boot_id, boot_id, sizeof(boot_id));
        g->boots++;
        g->asked = false;
    }
}

/* Whatever came: an agent that has no variables is not asked for each cell. */
static void asked(struct globals *g)
{
    json_t *envs = g->status == 200 ? json_read(buf_str(&g->answer)) : NULL;

    g->asked = g->status != 401;
    (void)uv_timer_stop(&g->timer);
    upstream_close(g->agent);
    g->agent = NULL;
    if (!json_is_object(envs)) {
        log_warn("the agent gave no variables (status %d)", g->status);
        json_decref(envs);
        envs = json_object();
    }
    for (void *at = json_object_iter(envs), *next; at; at = next) {
        next = json_object_iter_next(envs, at);
        if (!json_is_string(json_object_iter_value(at))) {
            (void)json_object_del(envs, json_object_iter_key(at));
        }
    }
    json_decref(g->envs);
    g->envs = envs;
    g->generation++;
    buf_clear(&g->answer);
    g->on_known(g->ctx);
}

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct globals *g = ctx;

    (void)headers, (void)n, (void)content_length;
    g->status = status;
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct globals *g = ctx;

    if (buf_append(&g->answer, data, len) < 0) {
        g->status = -ENOBUFS;
    }
    upstream_credit(g->agent, len);
}

static void on_end(void *ctx, int error)
{
    struct globals *g = ctx;

    if (error < 0) {
        g->status = error;
    }
    asked(g);
}

static void on_late(uv_timer_t *timer)
{
    struct globals *g = container_of(timer, struct globals, timer);

    g->status = -ETIMEDOUT;
    asked(g);
}

static const struct upstream_handler handler = {
    .on_response = on_response, .on_body = on_body, .on_end = on_end};

/* A connection on loopback that is still being made takes what is written to it. */
static int agent_connect(int port, struct err *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    scoped_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 ||
        (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno != EINPROGRESS)) {
        return err_sys(err, "connect to the agent at port %d", port);
    }
    return move_fd(&fd);
}

static int agent_ask(struct globals *g, struct str token)
{
    struct err err;
    struct http_header headers[] = {{STR("host"), STR("localhost")},
                                    {STR("x-access-token"), token}};
    int fd = agent_connect(g->agent_port, &err);

    if (fd < 0 || upstream_new(g->loop, fd, &g->agent, &err) < 0) {
        log_warn("%s", err.msg);
        return -err.code;
    }
    upstream_send(g->agent, STR("GET"), STR("/envs"), headers, token.len ? 2 : 1, 0, false,
                  &handler, g);
    upstream_finish(g->agent);
    upstream_credit(g->agent, HTTP_WINDOW_BYTES);
    return 0;
}

bool globals_ask(struct globals *g, struct str token)
{
    if (g->agent || uv_is_active((uv_handle_t *)&g->timer)) {
        return false;
    }
    boot_id_check(g);
    if (g->asked) {
        return true;
    }
    g->status = 0;
    if (agent_ask(g, token) < 0) {
        (void)uv_timer_start(&g->timer, on_late, 0, 0);
    } else {
        (void)uv_timer_start(&g->timer, on_late, ANSWER_MS_MAX, 0);
    }
    return false;
}

struct globals *globals_new(uv_loop_t *loop, int agent_port, const char *boot_id_file,
                            void (*on_known)(void *ctx), void *ctx)
{
    struct globals *g = xnew(struct globals);

    *g = (struct globals){
        .loop = loop,
        .agent_port = agent_port,
        .boot_id_file = boot_id_file,
        .on_known = on_known,
        .ctx = ctx,
    };
    buf_init(&g->answer, ENVS_BYTES_MAX);
    (void)uv_timer_init(loop, &g->timer);
    return g;
}

uint64_t globals_boots(const struct globals *g)
{
    return g->boots;
}

uint64_t globals_generation(const struct globals *g)
{
    return g->generation;
}

json_t *globals_envs(const struct globals *g)
{
    return g->envs;
}

static void on_closed(uv_handle_t *handle)
{
    struct globals *g = container_of((uv_timer_t *)handle, struct globals, timer);

    buf_fini(&g->answer);
    json_decref(g->envs);
    free(g);
}

void globals_free(struct globals *g)
{
    upstream_close(g->agent);
    uv_close((uv_handle_t *)&g->timer, on_closed);
}
