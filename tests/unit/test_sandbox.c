/* Sandboxes from create to their end, with the real store, real processes as jails, and an agent
 * and a keeper that are played here: the keeper's requests are answered from the loop, the agent is
 * a thread on the other end of the channel. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/channel.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "check.h"
#include "sandbox/internal.h"
#include "tmpdir.h"

enum { JAILS_MAX = 16, PATIENCE_MS = 20 * 1000 };

/* ---- the agent ---- */

static struct {
    pthread_mutex_t lock;
    char init[8192]; /* the last body of /init */
    int inits;
    bool refuses_init;
    bool asks_oom;
    uint32_t oom_count;
} agent = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void serve_init(int fd)
{
    static const char fine[] = "HTTP/1.1 204 No Content\r\n\r\n";
    static const char bad[] = "HTTP/1.1 500 Broken\r\nContent-Length: 7\r\n\r\nno room";
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

static void send_fd(int to, const struct channel_message *message, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct channel_message copy = *message;
    struct iovec iov = {&copy, sizeof(copy)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    (void)sendmsg(to, &msg, MSG_NOSIGNAL);
}

static void agent_connect(int channel, struct channel_message *message)
{
    int pair[2];

    if (message->value == 81) {
        message->status = -ECONNREFUSED;
        (void)send(channel, message, sizeof(*message), MSG_NOSIGNAL);
        return;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        abort();
    }
    send_fd(channel, message, pair[0]);
    (void)close(pair[0]);
    if (message->value == CHANNEL_PORT_CONTROL) {
        serve_init(pair[1]);
    } else {
        (void)!write(pair[1], "service", 7);
    }
    (void)close(pair[1]);
}

static void *agent_run(void *ctx)
{
    int channel = *(int *)ctx;
    struct channel_message message;

    free(ctx);
    while (recv(channel, &message, sizeof(message), 0) == (ssize_t)sizeof(message)) {
        if (message.op == CHANNEL_HELLO) {
            (void)send(channel, &message, sizeof(message), MSG_NOSIGNAL);
            struct channel_message question = {.op = CHANNEL_OOM, .seq = 7};
            if (agent.asks_oom) {
                (void)send(channel, &question, sizeof(question), MSG_NOSIGNAL);
            }
        } else if (message.op == CHANNEL_OOM) {
            pthread_mutex_lock(&agent.lock);
            agent.oom_count = message.seq == 7 ? message.value : 0;
            pthread_mutex_unlock(&agent.lock);
        } else if (message.value == 99) {
            break; /* drops the channel, and lives on */
        } else {
            agent_connect(channel, &message);
        }
    }
    (void)close(channel);
    return NULL;
}

/* The daemon's end of a channel to an agent of its own. */
static int agent_start(void)
{
    int ends[2];
    int *own = malloc(sizeof(int));
    pthread_t thread;

    if (!own || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        abort();
    }
    *own = ends[1];
    if (pthread_create(&thread, NULL, agent_run, own) != 0) {
        abort();
    }
    (void)pthread_detach(thread);
    return ends[0];
}

/* ---- the keeper ---- */

struct jail {
    char id[KEEPER_ID_BYTES];
    pid_t pid; /* 0: free */
};

struct keeper_client {
    uv_loop_t *loop;
    bool connected;
    struct jail jails[JAILS_MAX];
    uint32_t oom_kills;
    int creates, attaches, destroys;
    struct keeper_plan plan; /* the last */
};

static struct keeper_client keeper;

static struct jail *jail_find(const char *id)
{
    for (int i = 0; i < JAILS_MAX; i++) {
        if (keeper.jails[i].pid && strcmp(keeper.jails[i].id, id) == 0) {
            return &keeper.jails[i];
        }
    }
    return NULL;
}

static struct jail *jail_start(const char *id)
{
    struct jail *jail = keeper.jails;

    while (jail->pid) {
        jail++;
    }
    pid_t parent = getpid();
    jail->pid = fork();
    if (jail->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent) {
            (void)pause();
        }
        _exit(0);
    }
    (void)snprintf(jail->id, sizeof(jail->id), "%s", id);
    return jail;
}

static void jail_stop(struct jail *jail)
{
    (void)kill(jail->pid, SIGKILL);
    (void)waitpid(jail->pid, NULL, 0);
    jail->pid = 0;
}

static void hand_out(const struct jail *jail, struct keeper_answer *answer, int *fds)
{
    answer->jail = (struct keeper_jail){.pid = jail->pid, .start_ticks = 1};
    fds[KEEPER_FD_PIDFD] = (int)syscall(SYS_pidfd_open, jail->pid, 0);
    fds[KEEPER_FD_CHANNEL] = agent_start();
}

static void keeper_act(const struct keeper_request *req, struct keeper_answer *answer, int *fds)
{
    struct jail *jail = jail_find(req->id);
    uint32_t seen = 0;

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
            if (keeper.jails[i].pid && seen++ == req->index) {
                memcpy(answer->id, keeper.jails[i].id, sizeof(answer->id));
                return;
            }
        }
        answer->status = err_set(&answer->err, ENOENT, "no more");
        return;
    case KEEPER_LIST_SAVED:
        answer->status = err_set(&answer->err, ENOENT, "no more");
        return;
    case KEEPER_HELLO:
    case KEEPER_USAGE_MANY:
    case KEEPER_SAVE:
    case KEEPER_RESTORE:
    case KEEPER_FORGET:
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
    fd_closep(&fds[0]);
    fd_closep(&fds[1]);
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

bool keeper_client_connected(const struct keeper_client *client)
{
    return client->connected;
}

/* ---- the house ---- */

static uv_loop_t loop;
static struct tmpdir dir;
static char db_path[64];
static struct store *store;
static struct sandboxes *all;
static int ready;

static const struct template template = {.id = (char *)(uintptr_t) "templatetemplatetemp",
                                         .alias = (char *)(uintptr_t) "base",
                                         .layers = (char *)(uintptr_t) "top,middle,bottom",
                                         .user = (char *)(uintptr_t) "user",
                                         .workdir = (char *)(uintptr_t) "",
                                         .env_json =
                                             (char *)(uintptr_t) "{\"A\":\"t\",\"B\":\"t\"}",
                                         .cpu_count = 2,
                                         .memory_mb = 512,
                                         .disk_mb = 1024};

static void on_ready(void *ctx)
{
    (void)ctx;
    ready++;
}

static void open_house(void)
{
    struct sandboxes_options options = {.loop = &loop, .keeper = &keeper};
    struct err err;

    ready = 0;
    if (store_open(&loop, db_path, &store, &err) < 0) {
        abort();
    }
    options.store = store;
    if (sandboxes_new(&options, on_ready, NULL, &all, &err) < 0) {
        abort();
    }
}

static void close_house(void)
{
    sandboxes_free(all);
    for (int i = 0; i < 100; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    store_close(store);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
}

static void setup(void)
{
    dir = tmpdir_make();
    (void)snprintf(db_path, sizeof(db_path), "%s/db", dir.path);
    keeper = (struct keeper_client){.loop = &loop, .connected = true};
    agent.refuses_init = agent.asks_oom = false;
    agent.inits = 0;
    agent.oom_count = 0;
    if (uv_loop_init(&loop) < 0) {
        abort();
    }
    open_house();
}

static void teardown(void)
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

/* Turns the loop until the condition holds; bounded, for a test that fails. */
#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        int64_t until_ = clock_mono_ms() + PATIENCE_MS;                                            \
        while (!(condition) && clock_mono_ms() < until_) {                                         \
            (void)uv_run(&loop, UV_RUN_NOWAIT);                                                    \
            (void)poll(NULL, 0, 1);                                                                \
        }                                                                                          \
        CHECK(condition);                                                                          \
    } while (0)

static struct {
    int calls, error;
    char id[ID_SANDBOX_LEN + 1];
    char message[256];
} created;

static void on_created(void *ctx, struct sandbox *sb, int error, const struct err *err)
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

static void create(int64_t timeout_ms)
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

static struct sandbox *find(const char *id)
{
    return sandboxes_find(all, str_of(id));
}

/* "state/reason" of a row. */
static const char *recorded(const char *id)
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

/* ---- tests ---- */

static void a_create_runs(void)
{
    setup();
    create(60000);
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, 0);
    CHECK_STR(recorded(created.id), "running/");
    struct sandbox *sb = find(created.id);
    CHECK(sb);
    struct sandbox_info info = sandbox_info(sb);
    CHECK_INT(info.state, SANDBOX_RUNNING);
    CHECK_INT(info.end_ms - info.started_ms, 60000);
    CHECK_INT(strlen(info.access_token), 44);
    CHECK_INT(sandboxes_figures(all).running, 1);
    CHECK_INT(sandboxes_figures(all).starting, 0);
    CHECK_INT(keeper.plan.layers_n, 3);
    CHECK_STR(keeper.plan.layers[0], "top");
    CHECK_STR(keeper.plan.layers[2], "bottom");
    CHECK_INT(keeper.plan.cpu_millis, 2000);
    CHECK_STR(keeper.plan.hostname, created.id);

    json_t *init = json_loads(agent.init, 0, NULL);
    const json_t *env = json_object_get(init, "envVars");
    CHECK_STR(json_string_value(json_object_get(init, "accessToken")), info.access_token);
    CHECK_STR(json_string_value(json_object_get(init, "defaultUser")), "user");
    CHECK_STR(json_string_value(json_object_get(init, "sandboxID")), created.id);
    CHECK_INT(json_integer_value(json_object_get(init, "memoryMB")), 512);
    CHECK_STR(json_string_value(json_object_get(env, "A")), "t");
    CHECK_STR(json_string_value(json_object_get(env, "B")), "create");
    CHECK_STR(json_string_value(json_object_get(env, "C")), "create");
    json_decref(init);
    teardown();
}

static int gone, killed;

static void on_gone(struct sandbox_watch *watch)
{
    gone += watch->sandbox == NULL;
}

static void on_killed(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)error, (void)err;
    killed++;
}

static void a_kill_is_at_once_and_on_record(void)
{
    struct sandbox_watch watch = {.gone = on_gone};

    setup();
    create(60000);
    UNTIL(created.calls == 1);
    gone = killed = 0;
    sandbox_watch_set(&watch, find(created.id));
    sandbox_kill(find(created.id), "request", on_killed, NULL);
    CHECK_INT(gone, 1);
    CHECK(!find(created.id));
    UNTIL(killed == 1 && keeper.destroys == 1);
    CHECK(!jail_find(created.id));
    CHECK_STR(recorded(created.id), "killed/request");
    teardown();
}

static void time_ends_it(void)
{
    setup();
    create(200);
    UNTIL(created.calls == 1);
    char id[ID_SANDBOX_LEN + 1];
    memcpy(id, created.id, sizeof(id));
    CHECK_INT(created.error, 0);
    UNTIL(!find(id) && keeper.destroys == 1);
    UNTIL(strcmp(recorded(id), "killed/timeout") == 0);
    teardown();
}

static int moved;

static void on_moved(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)err;
    moved += error == 0;
}

static void the_end_can_be_moved(void)
{
    setup();
    moved = 0;
    create(60000);
    UNTIL(created.calls == 1);
    struct sandbox *sb = find(created.id);
    int64_t end_ms = sandbox_info(sb).end_ms;
    sandbox_set_end(sb, end_ms - 1000, true, on_moved, NULL);
    CHECK_INT(moved, 1);
    CHECK_INT(sandbox_info(sb).end_ms, end_ms);
    sandbox_set_end(sb, end_ms + 1000, true, on_moved, NULL);
    CHECK_INT(sandbox_info(sb).end_ms, end_ms + 1000);
    sandbox_set_end(sb, clock_wall_ms(), false, on_moved, NULL);
    UNTIL(!find(created.id) && moved == 3);
    teardown();
}

static void a_death_is_noticed(void)
{
    static const char *const reasons[] = {"killed/the sandbox's first process ended",
                                          "killed/out of memory"};

    for (uint32_t oom = 0; oom < 2; oom++) {
        setup();
        keeper.oom_kills = oom;
        create(60000);
        UNTIL(created.calls == 1);
        struct jail *jail = jail_find(created.id);
        CHECK(jail);
        (void)kill(jail->pid, SIGKILL);
        UNTIL(!find(created.id));
        UNTIL(strcmp(recorded(created.id), reasons[oom]) == 0);
        UNTIL(keeper.destroys == 1);
        teardown();
    }
}

static void a_start_that_fails_leaves_nothing(void)
{
    setup();
    agent.refuses_init = true;
    create(60000);
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, -EIO);
    CHECK_THAT(strstr(created.message, "no room"), "message is '%s'", created.message);
    UNTIL(keeper.destroys == 1);
    CHECK_INT(sandboxes_figures(all).starting, 0);
    CHECK(all->slots.used[0] == 0);
    teardown();
}

static void a_kill_while_starting_works(void)
{
    setup();
    UNTIL(ready);
    create(60000);
    CHECK_INT(sandboxes_figures(all).starting, 1);
    sandbox_kill(all->table.by_id, "request", NULL, NULL);
    CHECK_INT(created.calls, 1);
    CHECK_INT(created.error, -EIO);
    UNTIL(keeper.creates == 1 && keeper.destroys == 1);
    UNTIL(all->slots.used[0] == 0);
    teardown();
}

static void several_start_at_once(void)
{
    setup();
    for (int i = 0; i < 8; i++) {
        create(60000);
    }
    created.calls = 0;
    UNTIL(created.calls == 8);
    CHECK_INT(sandboxes_figures(all).running, 8);
    CHECK_INT(all->slots.used[0], 0xff);
    teardown();
}

static void without_the_keeper(void)
{
    setup();
    create(60000);
    UNTIL(created.calls == 1);
    char id[ID_SANDBOX_LEN + 1];
    memcpy(id, created.id, sizeof(id));
    keeper.connected = false;
    sandboxes_keeper_changed(all, false);
    create(60000); /* waits, in vain */
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, -EAGAIN);
    CHECK_STR(created.message, "the keeper is not running; try again");
    CHECK_INT(keeper.creates, 1);

    killed = 0;
    sandbox_kill(find(id), "request", on_killed, NULL);
    UNTIL(killed == 1);
    CHECK(jail_find(id)); /* nobody could */
    keeper.connected = true;
    sandboxes_keeper_changed(all, true);
    UNTIL(!jail_find(id));
    UNTIL(all->slots.used[0] == 0);
    teardown();
}

/* A keeper that was started again loses no create. */
static void a_create_waits_for_the_keeper(void)
{
    setup();
    UNTIL(ready);
    keeper.connected = false;
    sandboxes_keeper_changed(all, false);
    create(60000);
    for (int i = 0; i < 20; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    CHECK_INT(created.calls, 0);
    keeper.connected = true;
    sandboxes_keeper_changed(all, true);
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, 0);
    CHECK(find(created.id));
    teardown();
}

/* Whether it waits still or has been asked for: whoever asked is told, once. */
static void a_stop_answers_creates(void)
{
    for (int connected = 0; connected < 2; connected++) {
        setup();
        UNTIL(ready);
        keeper.connected = connected;
        create(60000);
        sandboxes_free(all);
        CHECK_INT(created.calls, 1);
        CHECK_INT(created.error, -EAGAIN);
        CHECK_STR(created.message, "the daemon is stopping; try again");
        all = NULL;
        teardown();
        CHECK_INT(created.calls, 1);
    }
}

static int dialed;

static void on_dialed(void *ctx, int fd_or_error)
{
    (void)ctx;
    dialed = fd_or_error;
}

static void dials_and_mends_the_channel(void)
{
    char text[8] = "";

    setup();
    create(60000);
    UNTIL(created.calls == 1);
    dialed = 0;
    sandbox_dial(find(created.id), 8080, on_dialed, NULL);
    UNTIL(dialed != 0);
    CHECK(dialed > 0);
    struct pollfd readable = {.fd = dialed, .events = POLLIN};
    CHECK_INT(poll(&readable, 1, PATIENCE_MS), 1);
    CHECK_INT(read(dialed, text, 7), 7);
    CHECK_STR(text, "service");
    (void)close(dialed);

    dialed = 0;
    sandbox_dial(find(created.id), 81, on_dialed, NULL);
    UNTIL(dialed == -ECONNREFUSED);

    /* Port 99 makes this agent drop its channel each time: asked twice, then given up. */
    dialed = 0;
    sandbox_dial(find(created.id), 99, on_dialed, NULL);
    UNTIL(dialed == -ETIMEDOUT);
    CHECK_INT(keeper.attaches, 1);
    CHECK(find(created.id));
    dialed = 0;
    sandbox_dial(find(created.id), 8080, on_dialed, NULL);
    UNTIL(dialed > 0);
    (void)close(dialed);
    CHECK_INT(keeper.attaches, 2);
    teardown();
}

static uint32_t oom_told(void)
{
    pthread_mutex_lock(&agent.lock);
    uint32_t count = agent.oom_count;
    pthread_mutex_unlock(&agent.lock);
    return count;
}

static void tells_the_agent_of_oom_kills(void)
{
    setup();
    agent.asks_oom = true;
    keeper.oom_kills = 5;
    create(60000);
    UNTIL(created.calls == 1);
    UNTIL(oom_told() == 5);
    teardown();
}

static void a_restart_adopts(void)
{
    char ids[3][ID_SANDBOX_LEN + 1];

    setup();
    for (int i = 0; i < 3; i++) {
        create(i == 2 ? 400 : 60000);
        UNTIL(created.calls == 1);
        memcpy(ids[i], created.id, sizeof(ids[i]));
    }
    int64_t end_ms = sandbox_info(find(ids[0])).end_ms;
    int64_t third_ms = sandbox_info(find(ids[2])).end_ms;
    close_house();
    CHECK(jail_find(ids[0]));

    struct jail *second = jail_find(ids[1]);
    CHECK(second);
    jail_stop(second);
    (void)jail_start("iorphan");
    while (clock_wall_ms() <= third_ms) {
        (void)poll(NULL, 0, 10);
    }
    open_house();
    CHECK(find(ids[0])); /* found from the first moment */
    CHECK(!find(ids[2]));
    create(60000);
    UNTIL(ready == 1);
    UNTIL(!jail_find("iorphan") && !jail_find(ids[2]));
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, 0);
    CHECK(find(ids[0]) && !find(ids[1]));
    CHECK_INT(sandbox_info(find(ids[0])).end_ms, end_ms);
    UNTIL(strcmp(recorded(ids[1]), "killed/it was gone when the daemon looked for it") == 0);
    UNTIL(strcmp(recorded(ids[2]), "killed/timeout") == 0);
    dialed = 0;
    sandbox_dial(find(ids[0]), 8080, on_dialed, NULL);
    UNTIL(dialed > 0);
    (void)close(dialed);
    UNTIL(agent.inits >= 5); /* three creates, one adoption, one create */
    teardown();
}

static void adoption_waits_for_the_keeper(void)
{
    setup();
    create(60000);
    UNTIL(created.calls == 1);
    char id[ID_SANDBOX_LEN + 1];
    memcpy(id, created.id, sizeof(id));
    close_house();
    keeper.connected = false;
    open_house();
    create(60000);
    dialed = 0;
    sandbox_dial(find(id), 8080, on_dialed, NULL);
    for (int i = 0; i < 20; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    CHECK_INT(ready, 0);
    CHECK_INT(created.calls, 0);
    CHECK_INT(dialed, 0);
    keeper.connected = true;
    sandboxes_keeper_changed(all, true);
    UNTIL(created.calls == 1 && ready == 1 && dialed != 0);
    CHECK(dialed > 0);
    (void)close(dialed);
    CHECK_INT(created.error, 0);
    CHECK(find(id));
    teardown();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a create runs", a_create_runs},
        {"a kill is at once, and on record", a_kill_is_at_once_and_on_record},
        {"time ends it", time_ends_it},
        {"the end can be moved", the_end_can_be_moved},
        {"a death is noticed", a_death_is_noticed},
        {"a start that fails leaves nothing", a_start_that_fails_leaves_nothing},
        {"a kill while starting works", a_kill_while_starting_works},
        {"several start at once", several_start_at_once},
        {"without the keeper", without_the_keeper},
        {"a create waits for the keeper", a_create_waits_for_the_keeper},
        {"a stop answers creates", a_stop_answers_creates},
        {"dials, and mends the channel", dials_and_mends_the_channel},
        {"tells the agent of out-of-memory kills", tells_the_agent_of_oom_kills},
        {"a restart adopts", a_restart_adopts},
        {"adoption waits for the keeper", adoption_waits_for_the_keeper},
    };

    log_init("test", LOG_ERROR);
    return check_run(tests, countof(tests));
}
