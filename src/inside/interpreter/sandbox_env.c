#include "inside/interpreter/sandbox_env.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "inside/interpreter/json_read.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"
#include "lib/http/connector.h"
#include "lib/http/fetch.h"

enum {
    ENVS_BYTES_MAX = 4 * 1024 * 1024,
    ANSWER_MS_MAX = 2000, /* an agent that does not answer keeps no cell waiting */
    BOOT_ID_BYTES = 64,
};

struct sandbox_env {
    uv_loop_t *loop;
    int agent_port;
    const char *boot_id_file;
    void (*on_known)(void *ctx);
    void *ctx;
    struct connector *connector; /* these two are set while the agent is asked */
    struct fetch *fetch;
    struct buf token;
    char boot_id[BOOT_ID_BYTES]; /* the last one seen */
    bool asked;                  /* in this boot */
    uint64_t boots;
    uint64_t generation;
    json_t *envs;
};

static void boot_id_check(struct sandbox_env *g)
{
    char boot_id[BOOT_ID_BYTES] = "";

    (void)small_file_read(AT_FDCWD, g->boot_id_file, boot_id, sizeof(boot_id));
    if (g->boots == 0 || strcmp(boot_id, g->boot_id) != 0) {
        memcpy(g->boot_id, boot_id, sizeof(boot_id));
        g->boots++;
        g->asked = false;
    }
}

/* Also called after a failure: the agent is not asked again for each cell. */
static void asked(struct sandbox_env *g, int status, struct str answer)
{
    json_t *envs = status == 200 ? json_read(answer) : NULL;

    g->asked = status != 401;
    if (!json_is_object(envs)) {
        log_warn("the agent gave no variables (status %d)", status);
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
    g->on_known(g->ctx);
}

static void on_answer(void *ctx, const struct fetch_answer *answer)
{
    struct sandbox_env *g = ctx;

    g->fetch = NULL;
    asked(g, answer->error < 0 ? answer->error : answer->status, answer->body);
}

static int agent_ask(struct sandbox_env *g, int fd, struct err *err)
{
    const struct http_header headers[] = {{STR("host"), STR("localhost")},
                                          {STR("x-access-token"), buf_str(&g->token)}};
    const struct fetch_request request = {.method = STR("GET"),
                                          .target = STR("/envs"),
                                          .headers = headers,
                                          .headers_n = buf_len(&g->token) ? 2 : 1,
                                          .answer_bytes_max = ENVS_BYTES_MAX,
                                          .timeout_ms = ANSWER_MS_MAX};

    return fetch_start(g->loop, fd, &request, on_answer, g, &g->fetch, err);
}

static void on_connected(void *ctx, int fd_or_error)
{
    struct sandbox_env *g = ctx;
    struct err err;
    int r = fd_or_error;

    g->connector = NULL;
    if (r >= 0) {
        r = agent_ask(g, fd_or_error, &err);
    }
    if (r < 0) {
        asked(g, r, (struct str){0});
    }
}

bool sandbox_env_ask(struct sandbox_env *g, struct str token)
{
    struct sockaddr_in agent = {.sin_family = AF_INET, .sin_port = htons((uint16_t)g->agent_port)};

    if (g->connector || g->fetch) {
        return false;
    }
    boot_id_check(g);
    if (g->asked) {
        return true;
    }
    buf_clear(&g->token);
    if (buf_append(&g->token, token.at, token.len) < 0) {
        buf_clear(&g->token); /* the agent will say that it is missing */
    }
    agent.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    g->connector =
        connector_start(g->loop, (struct sockaddr *)&agent, ANSWER_MS_MAX, on_connected, g);
    return false;
}

struct sandbox_env *sandbox_env_new(uv_loop_t *loop, int agent_port, const char *boot_id_file,
                                    void (*on_known)(void *ctx), void *ctx)
{
    struct sandbox_env *g = xnew(struct sandbox_env);

    *g = (struct sandbox_env){
        .loop = loop,
        .agent_port = agent_port,
        .boot_id_file = boot_id_file,
        .on_known = on_known,
        .ctx = ctx,
    };
    buf_init(&g->token, HTTP_HEADER_BYTES_MAX);
    return g;
}

uint64_t sandbox_env_boots(const struct sandbox_env *g)
{
    return g->boots;
}

uint64_t sandbox_env_generation(const struct sandbox_env *g)
{
    return g->generation;
}

json_t *sandbox_env_envs(const struct sandbox_env *g)
{
    return g->envs;
}

void sandbox_env_free(struct sandbox_env *g)
{
    connector_cancel(g->connector);
    fetch_cancel(g->fetch);
    buf_fini(&g->token);
    json_decref(g->envs);
    free(g);
}
