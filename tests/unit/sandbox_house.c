#include "sandbox_house.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"
#include "tmpdir.h"
#include "wire/channel.h"

/* ---- the agent ---- */

struct house_agent agent = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void serve_init(int fd)
{
    static const char fine[] = "HTTP/1.1 204 No Content\r\n\r\n";
    static const char bad[] = "HTTP/1.1 500 Broken\r\nContent-Length: 21\r\n\r\n"
                              "{\"message\":\"no room\"}";
    char text[16384] = "";
    size_t len = 0;
    const char *end = NULL, *length = NULL;

    while (!(end = strstr(text, "\r\n\r\n")) || !(length = strcasestr(text, "content-length:")) ||
           strlen(end + 4) < (size_t)atol(length + 15)) {
        ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);
        if (n <= 0) {
            return;
        }
        len += (size_t)n;
    }
    pthread_mutex_lock(&agent.lock);
    (void)snprintf(agent.init, sizeof(agent.init), "%s", end + 4);
    agent.inits++;
    bool refuses = agent.refuses_init;
    pthread_mutex_unlock(&agent.lock);
    (void)!write(fd, refuses ? bad : fine, strlen(refuses ? bad : fine));
}

static void agent_connect(int channel, struct channel_message *message, int fd)
{
    (void)fcntl(fd, F_SETFL, 0);
    (void)send(channel, message, sizeof(*message), MSG_NOSIGNAL);
    if (agent.is_silent) {
        char byte;
        while (read(fd, &byte, 1) > 0) {
            ; /* until the daemon has had enough */
        }
    } else if (message->value == CHANNEL_PORT_CONTROL) {
        serve_init(fd);
    } else {
        (void)!write(fd, "service", 7);
    }
    (void)close(fd);
}

static void agent_alone(int channel, const struct channel_message *message)
{
    pthread_mutex_lock(&agent.lock);
    agent.alones++;
    const struct channel_message answer = {.op = CHANNEL_ALONE,
                                           .seq = message->seq,
                                           .status = agent.is_alone ? 0 : -EPROTONOSUPPORT,
                                           .value = agent.begins ? (uint32_t)agent.alones : 5};
    pthread_mutex_unlock(&agent.lock);
    (void)send(channel, &answer, sizeof(answer), MSG_NOSIGNAL);
}

static void agent_files(int channel, const struct channel_message *message, int fd)
{
    pthread_mutex_lock(&agent.lock);
    agent.files += fd >= 0;
    const struct channel_message answer = {
        .op = CHANNEL_FILES, .seq = message->seq, .status = agent.refuses_files ? -ENOSPC : 0};
    pthread_mutex_unlock(&agent.lock);
    (void)close(fd);
    (void)send(channel, &answer, sizeof(answer), MSG_NOSIGNAL);
}

static void *agent_run(void *ctx)
{
    int channel = *(int *)ctx;
    struct channel_message message;
    struct iovec iov = {&message, sizeof(message)};
    int fd = -1;

    free(ctx);
    while (fdpass_receive(channel, &iov, 1, &fd, 1, 0) == (ssize_t)sizeof(message)) {
        if (message.op == CHANNEL_HELLO) {
            pthread_mutex_lock(&agent.lock);
            agent.past = message.status;
            pthread_mutex_unlock(&agent.lock);
            (void)send(channel, &message, sizeof(message), MSG_NOSIGNAL);
            struct channel_message question = {.op = CHANNEL_OOM, .seq = 7};
            if (agent.asks_oom) {
                (void)send(channel, &question, sizeof(question), MSG_NOSIGNAL);
            }
        } else if (message.op == CHANNEL_OOM) {
            pthread_mutex_lock(&agent.lock);
            agent.oom_count = message.seq == 7 ? message.value : 0;
            pthread_mutex_unlock(&agent.lock);
        } else if (message.op == CHANNEL_QUIET) {
            pthread_mutex_lock(&agent.lock);
            agent.quiets++;
            agent.how_quiet = message.value;
            pthread_mutex_unlock(&agent.lock);
            (void)send(channel, &message, sizeof(message), MSG_NOSIGNAL);
            break;
        } else if (message.op == CHANNEL_ALONE) {
            agent_alone(channel, &message);
        } else if (message.op == CHANNEL_FILES) {
            agent_files(channel, &message, fd);
        } else if (message.value == CHANNEL_PORT_UNPACK) {
            (void)close(fd);
            break; /* drops the channel, and lives on */
        } else {
            agent_connect(channel, &message, fd);
        }
    }
    (void)shutdown(channel, SHUT_RDWR); /* its jail has the same one */
    (void)close(channel);
    return NULL;
}

/* The daemon's end of a channel to an agent of its own; *theirs is the other one, which the agent
 * closes itself. */
static int agent_start(int *theirs)
{
    int ends[2];
    int *own = malloc(sizeof(int));
    pthread_t thread;

    if (!own || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        abort();
    }
    *own = ends[1];
    *theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 0);
    if (pthread_create(&thread, NULL, agent_run, own) != 0) {
        abort();
    }
    (void)pthread_detach(thread);
    return ends[0];
}

/* ---- the keeper ---- */

struct keeper_client keeper;

struct jail *jail_find(const char *id)
{
    for (int i = 0; i < JAILS_MAX; i++) {
        if (keeper.jails[i].pid && strcmp(keeper.jails[i].id, id) == 0) {
            return &keeper.jails[i];
        }
    }
    return NULL;
}

struct jail *jail_start(const char *id)
{
    struct jail *jail = keeper.jails;

    while (jail->pid) {
        jail++;
    }
    pid_t parent = getpid();
    jail->pid = fork();
    if (jail->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close_range(3, ~0U, 0); /* the ends of channels, above all */
        while (getppid() == parent) {
            (void)pause();
        }
        _exit(0);
    }
    (void)snprintf(jail->id, sizeof(jail->id), "%s", id);
    return jail;
}

void jail_stop(struct jail *jail)
{
    (void)kill(jail->pid, SIGKILL);
    (void)waitpid(jail->pid, NULL, 0);
    jail->pid = 0;
    if (jail->agent > 0) { /* it was that process */
        (void)shutdown(jail->agent, SHUT_RDWR);
        (void)close(jail->agent);
        jail->agent = 0;
    }
}

static void hand_out(struct jail *jail, struct keeper_answer *answer, int *fds)
{
    answer->jail = (struct keeper_jail){.pid = jail->pid, .start_ticks = 1};
    fds[KEEPER_FD_PIDFD] = (int)syscall(SYS_pidfd_open, jail->pid, 0);
    if (jail->agent > 0) {
        (void)close(jail->agent);
    }
    fds[KEEPER_FD_CHANNEL] = agent_start(&jail->agent);
    answer->channel = CHANNEL_VERSION;
}

static int inward_socket(void)
{
    return socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

char *saved_slot(const char *name)
{
    for (int i = 0; i < SAVED_MAX; i++) {
        if (strcmp(keeper.saved[i], name) == 0) {
            return keeper.saved[i];
        }
    }
    return NULL;
}

static void keeper_save(const struct keeper_request *req, struct jail *jail,
                        struct keeper_answer *answer, int *fds)
{
    const bool alone = req->save.flags & KEEPER_SAVE_ALONE;

    keeper.saves++;
    keeper.save = req->save;
    if (alone && keeper.refuses_alone) {
        answer->status = err_set(&answer->err, EBUSY, "it has more than one process");
        return;
    }
    if (alone && jail && keeper.gives_disk) {
        fds[KEEPER_FD_FILES] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        fds[KEEPER_FD_DISK] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return;
    }
    if (!jail) {
        answer->status = err_set(&answer->err, ESRCH, "no such jail");
        return;
    }
    if (keeper.refuses_save && (req->save.flags & KEEPER_SAVE_MEMORY)) {
        answer->status = err_set(&answer->err, EOPNOTSUPP, "process 7 (gdb) traces another");
        return;
    }
    (void)snprintf(saved_slot(""), KEEPER_SAVED_BYTES, "%s", req->save.name);
    answer->saved.memory_bytes = 4096;
    answer->saved.disk_bytes = 8192;
    if (req->save.flags & KEEPER_SAVE_STOP) {
        jail_stop(jail);
    }
    if (keeper.dies_after_save) {
        keeper.dies_after_save = keeper.connected = false;
        answer->status = err_set(&answer->err, ECONNRESET, "the keeper is gone");
    }
}

/* The least of those behind `after`, of which this is one. */
static void name_after(const char *after, const char *name, char *best)
{
    if (strcmp(name, after) > 0 && (!best[0] || strcmp(name, best) < 0)) {
        strcpy(best, name);
    }
}

static void keeper_act(const struct keeper_request *req, struct keeper_answer *answer, int *fds)
{
    struct jail *jail = jail_find(req->id);

    switch ((enum keeper_op)req->op) {
    case KEEPER_CREATE:
        keeper.creates++;
        keeper.plan = req->plan;
        hand_out(jail_start(req->id), answer, fds);
        return;
    case KEEPER_ATTACH:
        keeper.attaches++;
        if (jail) {
            hand_out(jail, answer, fds);
        } else {
            answer->status = err_set(&answer->err, ESRCH, "no such jail");
        }
        return;
    case KEEPER_EXPORT:
    case KEEPER_IMPORT:
        answer->status = err_set(&answer->err, ENOTSUP, "this keeper has nothing that travels");
        return;
    case KEEPER_SOCKETS:
        for (uint32_t i = 0; i < req->sockets_n; i++) {
            fds[i] = inward_socket();
        }
        return;
    case KEEPER_DESTROY:
        keeper.destroys++;
        if (jail) {
            jail_stop(jail);
        }
        return;
    case KEEPER_USAGE:
        answer->usage.oom_kills = keeper.oom_kills;
        return;
    case KEEPER_LIST:
        for (int i = 0; i < JAILS_MAX; i++) {
            if (keeper.jails[i].pid) {
                name_after(req->id, keeper.jails[i].id, answer->id);
            }
        }
        answer->status = answer->id[0] ? 0 : err_set(&answer->err, ENOENT, "no more");
        return;
    case KEEPER_LIST_SAVED:
        for (int i = 0; i < SAVED_MAX; i++) {
            name_after(req->save.name, keeper.saved[i], answer->saved.name);
        }
        answer->status = answer->saved.name[0] ? 0 : err_set(&answer->err, ENOENT, "no more");
        return;
    case KEEPER_SAVE:
        if (req->save.flags & KEEPER_SAVE_LOOK) {
            return;
        }
        keeper_save(req, jail, answer, fds);
        return;
    case KEEPER_RESTORE:
        keeper.restores++;
        keeper.plan = req->plan;
        if (!saved_slot(req->plan.from)) {
            answer->status = err_set(&answer->err, ENOENT, "nothing was saved under that name");
        } else if (jail) {
            answer->status = err_set(&answer->err, EEXIST, "copy a saved disk: File exists");
        } else if (keeper.refuses_restore) {
            answer->status = err_set(&answer->err, EIO, "the image is damaged");
        } else {
            hand_out(jail_start(req->id), answer, fds);
        }
        return;
    case KEEPER_FORGET:
        keeper.forgets++;
        if (saved_slot(req->save.name)) {
            saved_slot(req->save.name)[0] = '\0';
        }
        return;
    case KEEPER_HELLO:
    case KEEPER_PACK:
    case KEEPER_USAGE_MANY:
    case KEEPER_VOLUME_MAKE:
    case KEEPER_VOLUME_REMOVE:
    case KEEPER_VOLUME_USAGE:
        return;
    }
}

struct asked {
    uv_timer_t timer;
    struct keeper_request req;
    keeper_done *done;
    void *ctx;
};

static void asked_free(uv_handle_t *handle)
{
    free(handle->data);
}

static void asked_answer(uv_timer_t *timer)
{
    struct asked *asked = timer->data;
    struct keeper_answer answer = {.op = asked->req.op};
    int fds[KEEPER_FDS_MAX] = KEEPER_FDS_NONE;

    if (keeper.connected) {
        keeper_act(&asked->req, &answer, fds);
    } else {
        answer.status = err_set(&answer.err, ENOTCONN, "away");
    }
    asked->done(asked->ctx, &answer, fds);
    fdpass_close(fds, KEEPER_FDS_MAX);
    uv_close((uv_handle_t *)timer, asked_free);
}

void keeper_client_ask(struct keeper_client *client, const struct keeper_request *req,
                       keeper_done *done, void *ctx)
{
    struct asked *asked = xnew(struct asked);

    *asked = (struct asked){.req = *req, .done = done, .ctx = ctx};
    (void)uv_timer_init(client->loop, &asked->timer);
    asked->timer.data = asked;
    (void)uv_timer_start(&asked->timer, asked_answer, 0, 0);
}

void keeper_client_ask_for(struct keeper_client *client, const char *owner,
                           const struct keeper_request *req, keeper_done *done, void *ctx)
{
    (void)owner;
    keeper_client_ask(client, req, done, ctx);
}

bool keeper_client_connected(const struct keeper_client *client)
{
    return client->connected;
}

/* ---- the house ---- */

uv_loop_t loop;
static struct tmpdir dir;
static char db_path[64];
static struct store *store;
struct templates *templates;
struct sandboxes *all;
int ready;

const struct template template = {.id = (char *)(uintptr_t) "templatetemplatetemp",
                                  .alias = (char *)(uintptr_t) "base",
                                  .layers = (char *)(uintptr_t) "top,middle,bottom",
                                  .user = (char *)(uintptr_t) "user",
                                  .workdir = (char *)(uintptr_t) "",
                                  .env_json = (char *)(uintptr_t) "{\"A\":\"t\",\"B\":\"t\"}",
                                  .cpu_count = 2,
                                  .memory_mb = 512,
                                  .disk_mb = 1024};

static void on_ready(void *ctx)
{
    (void)ctx;
    ready++;
}

void open_house(void)
{
    struct sandboxes_options options = {.loop = &loop, .keeper = &keeper};
    struct err err;

    ready = 0;
    if (store_open(&loop, db_path, &store, &err) < 0) {
        abort();
    }
    options.store = store;
    const struct team_row team = {.id = "team", .name = "team"};
    store_team_save(store, &team, NULL, NULL);
    if (templates_new(store, &templates, &err) < 0) {
        abort();
    }
    options.templates = templates;
    if (sandboxes_new(&options, on_ready, NULL, &all, &err) < 0) {
        abort();
    }
}

void close_house(void)
{
    sandboxes_free(all);
    for (int i = 0; i < 100; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    store_close(store);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    templates_free(templates);
}

void setup(void)
{
    dir = tmpdir_make();
    (void)snprintf(db_path, sizeof(db_path), "%s/db", dir.path);
    keeper = (struct keeper_client){.loop = &loop, .connected = true};
    agent.refuses_init = agent.asks_oom = false;
    agent.inits = agent.quiets = 0;
    agent.oom_count = 0;
    if (uv_loop_init(&loop) < 0) {
        abort();
    }
    open_house();
}

void teardown(void)
{
    close_house();
    for (int i = 0; i < JAILS_MAX; i++) {
        if (keeper.jails[i].pid) {
            jail_stop(&keeper.jails[i]);
        }
    }
    if (uv_loop_close(&loop) < 0) {
        abort(); /* a handle was left behind */
    }
    tmpdir_removep(&dir);
}

struct house_created created;

void on_created(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    (void)ctx;
    created.calls++;
    created.error = error;
    if (sb) {
        memcpy(created.id, sandbox_info(sb).id, sizeof(created.id));
    } else {
        (void)snprintf(created.message, sizeof(created.message), "%s", err->msg);
    }
}

void create(int64_t timeout_ms)
{
    json_t *env = json_pack("{ssss}", "B", "create", "C", "create");
    struct sandbox_params params = {.team_id = "team",
                                    .template = &template,
                                    .timeout_ms = timeout_ms,
                                    .secure = true,
                                    .env_vars = env};

    memset(&created, 0, sizeof(created));
    sandbox_create(all, &params, on_created, NULL);
    json_decref(env);
}

struct sandbox *find(const char *id)
{
    return sandboxes_find(all, str_of(id));
}

const char *recorded(const char *id)
{
    static char text[128];
    sqlite3 *db = NULL;
    sqlite3_stmt *query = NULL;

    text[0] = '\0';
    if (sqlite3_open_v2(db_path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db,
                           "SELECT state || '/' || coalesce(end_reason, '') FROM sandboxes "
                           "WHERE id = ?",
                           -1, &query, NULL) == SQLITE_OK &&
        sqlite3_bind_text(query, 1, id, -1, NULL) == SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW) {
        (void)snprintf(text, sizeof(text), "%s", (const char *)sqlite3_column_text(query, 0));
    }
    (void)sqlite3_finalize(query);
    (void)sqlite3_close(db);
    return text;
}
