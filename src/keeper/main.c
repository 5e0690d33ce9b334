/* `atoll keeper`: a socket, a poll() loop, and one request at a time. Workers (worker.h) start and
 * end jails beside it.
 *
 * It keeps no state that could be lost: the kernel and the pool know which jails exist. So it can
 * be killed at any moment and started again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "keeper/checkpoint/criu.h"
#include "keeper/checkpoint/fill.h"
#include "keeper/checkpoint/lazyfill_wire.h"
#include "keeper/checkpoint/manifest.h"
#include "keeper/checkpoint/restore.h"
#include "keeper/checkpoint/zygote.h"
#include "keeper/disk/saved.h"
#include "keeper/handle.h"
#include "keeper/jail/first_release.h"
#include "keeper/jail/host.h"
#include "keeper/jail/keeper_root.h"
#include "keeper/worker.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

enum {
    CLIENTS_MAX = 8,
    INSTANCE_LEN_MAX = 64,
    WORK_PATIENCE_MS = 20 * 1000, /* for processes that an earlier keeper started */
    LOCK_TRIES = 100,
    LOCK_POLL_MS = 10,
    POLL_FIXED = 2 + CLIENTS_MAX, /* signals, listener, clients */
    CLOSE_PATIENCE_US = 50 * 1000,
};

struct client {
    int fd;          /* -1: free */
    uint64_t number; /* never reused: a late answer finds its client or none */
    bool choked;     /* must read its answers before more requests are taken */
};

struct keeper {
    const struct keeper_options *options;
    struct criu_program criu;
    struct criu_program criu_zygote;
    struct jail_shared shared;
    struct handler *handler;
    struct client clients[CLIENTS_MAX];
    uint64_t numbers;
    uint32_t refused_version; /* the latest client version that this keeper does not speak */
    int signals_fd;
    int listen_fd;
    int socket_dir_fd; /* for removing the socket when the host's paths are out of reach */
    char socket_name[NAME_MAX + 1];
    struct pollfd *polled;
    size_t polled_cap;
};

/* ---- clients ---- */

/* A client may send descriptors, which are not wanted here: the kernel closes them on this thread,
 * with the message or with the socket that holds it. Closing a connection may block for as long as
 * its owner has set (SO_LINGER). A signal interrupts the wait: a timer sends one soon, and again,
 * until patience_over(). */
static void patience_begin(void)
{
    const struct timeval soon = {.tv_usec = CLOSE_PATIENCE_US};

    (void)setitimer(ITIMER_REAL, &(struct itimerval){soon, soon}, NULL);
}

static void patience_over(void)
{
    (void)setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
}

static void on_impatience(int signal_number)
{
    (void)signal_number;
}

static void client_close(struct client *client)
{
    patience_begin();
    fd_closep(&client->fd);
    patience_over();
}

static void client_drop(struct client *client, const char *why)
{
    if (why) {
        log_warn("client dropped: %s", why);
    }
    client_close(client);
}

static struct client *client_find(struct keeper *keeper, uint64_t number)
{
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        if (keeper->clients[i].fd >= 0 && keeper->clients[i].number == number) {
            return &keeper->clients[i];
        }
    }
    return NULL;
}

static void client_accept(struct keeper *keeper)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    scoped_fd fd = accept4(keeper->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
        (peer.uid != 0 && peer.uid != keeper->options->client_uid)) {
        log_warn("connection of uid %u refused", peer.uid);
        return;
    }
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        if (keeper->clients[i].fd < 0) {
            keeper->clients[i] = (struct client){.fd = move_fd(&fd), .number = ++keeper->numbers};
            return;
        }
    }
    log_warn("connection refused: there are %d already", CLIENTS_MAX);
}

/* A client that does not read its answers is dropped; it can connect and ask again by id.
 * client_serve() stops reading from it long before. */
static void answer_send(void *ctx, uint64_t number, const struct keeper_answer *answer,
                        const int *fds, size_t fds_n)
{
    struct client *client = client_find(ctx, number);

    if (!client) {
        return;
    }
    ssize_t n = fdpass_send(client->fd, answer, sizeof(*answer), fds, fds_n, MSG_DONTWAIT);
    if (n < 0) {
        client_drop(client, strerrordesc_np((int)-n));
    }
}

/* In a process forked for work: clients must see the end of the keeper, not of this process, and
 * the next keeper must not have to wait for it. */
static void clients_leave(void *ctx)
{
    struct keeper *keeper = ctx;

    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        fd_closep(&keeper->clients[i].fd);
    }
    fd_closep(&keeper->listen_fd);
    fd_closep(&keeper->signals_fd);
    fd_closep(&keeper->socket_dir_fd);
    fd_closep(&keeper->shared.lock_fd);
    merge_leave(&keeper->shared.merge);
}

static bool client_can_take(const struct client *client)
{
    struct pollfd ready = {.fd = client->fd, .events = POLLOUT};

    return poll(&ready, 1, 0) == 1 && ready.revents & POLLOUT;
}

/* Receives one message. */
static ssize_t client_receive(const struct client *client, struct keeper_request *out)
{
    patience_begin();
    ssize_t n = recv(client->fd, out, sizeof(*out), MSG_TRUNC | MSG_DONTWAIT);
    int saved = errno;
    patience_over();
    errno = saved;
    return n;
}

/* A server of another version sends requests of another size. It gets our version, and tries again
 * until it or this keeper is replaced: the log has that once. */
static void client_refuse(struct keeper *keeper, struct client *client,
                          const struct keeper_request *req, size_t len)
{
    const struct keeper_answer answer = {.version = KEEPER_VERSION, .status = -EPROTO};

    if (len < sizeof(req->version) || req->version == KEEPER_VERSION) {
        client_drop(client, "it sent a message that is no request");
        return;
    }
    (void)send(client->fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (keeper->refused_version != req->version) {
        log_warn("the server speaks version %" PRIu32 " of the keeper's protocol, this keeper %d: "
                 "start both from one release",
                 req->version, KEEPER_VERSION);
        keeper->refused_version = req->version;
    }
    client_drop(client, NULL);
}

/* Reads and handles one request. */
static void client_serve(struct keeper *keeper, struct client *client)
{
    struct keeper_request req;

    client->choked = !client_can_take(client);
    if (client->choked) {
        return;
    }
    ssize_t n = client_receive(client, &req);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        client_drop(client, NULL);
        return;
    }
    if (n != (ssize_t)sizeof(req)) {
        client_refuse(keeper, client, &req, (size_t)n);
        return;
    }
    handler_request(keeper->handler, client->number, &req);
}

static void client_ready(struct keeper *keeper, struct client *client, short events)
{
    if (client->fd < 0 || !events) {
        return;
    }
    if (events & (POLLHUP | POLLERR) && !(events & POLLIN)) {
        client_drop(client, NULL);
        return;
    }
    client_serve(keeper, client);
}

/* ---- the loop ---- */

static size_t poll_fill(struct keeper *keeper)
{
    size_t n = POLL_FIXED + handler_poll_n(keeper->handler);

    if (n > keeper->polled_cap) {
        free(keeper->polled);
        keeper->polled_cap = n * 2;
        keeper->polled = xcalloc(keeper->polled_cap, sizeof(struct pollfd));
    }
    keeper->polled[0] = (struct pollfd){.fd = keeper->signals_fd, .events = POLLIN};
    keeper->polled[1] = (struct pollfd){.fd = keeper->listen_fd, .events = POLLIN};
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        keeper->polled[2 + i] = (struct pollfd){
            .fd = keeper->clients[i].fd,
            .events = keeper->clients[i].choked ? POLLOUT : POLLIN,
        };
    }
    handler_poll(keeper->handler, keeper->polled + POLL_FIXED);
    return n;
}

/* Serves until SIGTERM or SIGINT. */
static int loop_run(struct keeper *keeper)
{
    for (;;) {
        size_t n = poll_fill(keeper);
        int timeout_us = handler_timeout_us(keeper->handler);
        struct timespec timeout = {.tv_nsec = timeout_us * 1000L};
        int ready = ppoll(keeper->polled, n, timeout_us < 0 ? NULL : &timeout, NULL);

        if (ready < 0 && errno != EINTR) {
            log_error("poll: %s", strerrordesc_np(errno));
            return 1;
        }
        if (ready > 0 && keeper->polled[0].revents) {
            return 0;
        }
        handler_settle(keeper->handler, keeper->polled + POLL_FIXED);
        for (size_t i = 0; ready > 0 && i < CLIENTS_MAX; i++) {
            client_ready(keeper, &keeper->clients[i], keeper->polled[2 + i].revents);
        }
        if (ready > 0 && keeper->polled[1].revents) {
            client_accept(keeper);
        }
    }
}

/* ---- start and end ---- */

static int options_check(const struct keeper_options *options, struct err *err)
{
    size_t len = strlen(options->instance);

    if (len == 0 || len > INSTANCE_LEN_MAX ||
        strspn(options->instance, "abcdefghijklmnopqrstuvwxyz0123456789-") != len) {
        return err_set(err, EINVAL, "instance '%s' is not 1 to %d of a-z 0-9 -", options->instance,
                       INSTANCE_LEN_MAX);
    }
    if (geteuid() != 0) {
        return err_set(err, EPERM, "the keeper needs root: start it as such");
    }
    return 0;
}

static int signals_open(struct keeper *keeper, struct err *err)
{
    const struct sigaction impatience = {.sa_handler = on_impatience};
    sigset_t set;

    (void)sigaction(SIGALRM, &impatience, NULL);
    /* The keeper does not wait for a jail's first process: it may be the child of an earlier
     * keeper. */
    (void)signal(SIGCHLD, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
        (keeper->signals_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0) {
        return err_sys(err, "watch for signals");
    }
    return 0;
}

/* Two keepers on one pool would destroy each other's work. The lock ends with the process. A child
 * that a killed keeper was just starting releases it in a moment. */
static int pool_lock(struct keeper *keeper, struct err *err)
{
    int r = flock(pool_fd(keeper->shared.pool), LOCK_EX | LOCK_NB);

    for (int i = 0; r < 0 && errno == EWOULDBLOCK && i < LOCK_TRIES; i++) {
        (void)poll(NULL, 0, LOCK_POLL_MS);
        r = flock(pool_fd(keeper->shared.pool), LOCK_EX | LOCK_NB);
    }
    if (r < 0) {
        return errno == EWOULDBLOCK
                   ? err_set(err, EBUSY, "another keeper serves %s", keeper->options->pool_path)
                   : err_sys(err, "lock %s", keeper->options->pool_path);
    }
    return 0;
}

static int socket_dir_open(struct keeper *keeper, struct err *err)
{
    char path[PATH_MAX], name[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s", keeper->options->socket_path);
    (void)snprintf(name, sizeof(name), "%s", keeper->options->socket_path);
    (void)snprintf(keeper->socket_name, sizeof(keeper->socket_name), "%.*s", NAME_MAX,
                   basename(name));
    keeper->socket_dir_fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return keeper->socket_dir_fd < 0 ? err_sys(err, "open the directory of the socket") : 0;
}

static int socket_open(struct keeper *keeper, struct err *err)
{
    const char *path = keeper->options->socket_path;
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (!str_copy(address.sun_path, sizeof(address.sun_path), str_of(path))) {
        return err_set(err, ENAMETOOLONG, "the socket's path %s is too long", path);
    }
    int r = socket_dir_open(keeper, err);
    if (r < 0) {
        return r;
    }
    keeper->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)unlinkat(keeper->socket_dir_fd, keeper->socket_name, 0);

    /* Accessible to root only from the start, then to the group as well. */
    mode_t mask = umask(0177);
    r = bind(keeper->listen_fd, (struct sockaddr *)&address, sizeof(address));
    (void)umask(mask);
    if (r < 0 || chown(path, 0, keeper->options->client_gid) < 0 || chmod(path, 0660) < 0 ||
        listen(keeper->listen_fd, CLIENTS_MAX) < 0) {
        return err_sys(err, "listen on %s", path);
    }
    return 0;
}

/* While the host's /dev can be reached. Without it, restores wait for their memory. */
static void lazy_ready(struct keeper *keeper)
{
    struct jail_shared *shared = &keeper->shared;

    shared->lazy_mb = keeper->options->lazy_mb;
    shared->userfault_fd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (keeper->criu_zygote.lazyfill == LAZYFILL_VERSION && shared->userfault_fd >= 0) {
        shared->criu_lazy = &keeper->criu_zygote;
    }
}

/* Before SIGCHLD is ignored: this runs CRIU to ask for its version. */
static int memory_ready(struct keeper *keeper, struct err *err)
{
    struct jail_shared *shared = &keeper->shared;
    struct err err_zygote;

    if (criu_find(&keeper->criu, &shared->criu_why) < 0) {
        return 0;
    }
    shared->criu = &keeper->criu;
    if (criu_find_zygote(&keeper->criu_zygote, &err_zygote) < 0) {
        log_info("each sandbox that starts from memory has a copy of its own: %s", err_zygote.msg);
    } else {
        shared->zygotes = zygotes_new(&keeper->criu_zygote);
        lazy_ready(keeper);
    }
    return manifest_agent_keep(shared->pool, keeper->options->agent_path, shared->agent_hash, err);
}

/* Sandboxes work without it, so a failure does not stop the start. */
static void merging_start(struct keeper *keeper)
{
    struct jail_shared *shared = &keeper->shared;
    struct err err;

    if (!keeper->options->merge_pages) {
        merge_sweep();
        return;
    }
    shared->merges = merge_start(&shared->merge, &err) == 0;
    if (!shared->merges) {
        log_warn("merge_pages: equal pages are not merged: %s", err.msg);
    } else {
        log_info("merge_pages: sandboxes hold equal pages once, and can guess at each other's");
    }
}

/* A failure of this does not stop the start either. */
static void size_bpf_start(struct keeper *keeper)
{
    struct err err;

    if (!keeper->options->bpf_figures) {
        return;
    }
    if (size_bpf_open(&keeper->shared.size_bpf, &err) < 0) {
        log_warn("bpf_figures: df and sysinfo() in sandboxes tell the host's figures: %s", err.msg);
    }
}

static void jail_found(void *ctx, const char *id)
{
    struct jail_shared *shared = ctx;

    size_bpf_found(shared->size_bpf, shared->groups, shared->pool, id);
}

static void jail_thaw(void *ctx, const char *id)
{
    struct jail_shared *shared = ctx;

    cgroups_thaw(shared->groups, id);
}

/* Cleans up after a keeper that was killed. Its tasks must end first, so that none of them
 * continues with something that is repaired here. */
static void leftovers_mend(struct jail_shared *shared)
{
    struct err err;

    zygotes_sweep(shared->groups);
    fill_sweep(shared);
    cgroups_task_sweep(shared->groups, WORK_PATIENCE_MS);
    if (cgroups_each(shared->groups, jail_thaw, shared, &err) < 0 ||
        cgroups_each(shared->groups, jail_found, shared, &err) < 0) {
        log_warn("%s", err.msg);
    }
    restore_sweep(shared);
    saved_sweep(shared->pool);
    manifest_agents_sweep(shared->pool);
    pool_sweep(shared->pool);
}

static int keeper_open(struct keeper *keeper, struct err *err)
{
    const struct keeper_options *options = keeper->options;
    int r = options_check(options, err);

    if (r == 0) {
        r = pool_open(options->pool_path, 0, &keeper->shared.pool, err);
    }
    if (r == 0) {
        r = pool_lock(keeper, err);
    }
    if (r == 0) {
        host_limits_raise();
        r = cgroups_open(options->instance, &keeper->shared.groups, err);
    }
    if (r == 0) {
        r = first_release_open(keeper->shared.pool, keeper->shared.groups, err);
    }
    if (r == 0) {
        r = filters_compile(&keeper->shared.filters, err);
    }
    if (r == 0) {
        r = network_new(&keeper->shared.network, err);
    }
    if (r == 0) {
        r = size_files_new(&keeper->shared.size_files, err);
    }
    if (r == 0) {
        size_bpf_start(keeper); /* while /sys can be reached */
    }
    if (r == 0) {
        r = memory_ready(keeper, err);
    }
    if (r == 0) {
        r = signals_open(keeper, err);
    }
    if (r == 0) {
        r = socket_open(keeper, err);
    }
    if (r == 0) {
        (void)fd_allow_most(); /* each jail that is being removed needs a descriptor */
        leftovers_mend(&keeper->shared);
        (void)umask(022);
        merging_start(keeper);
        r = keeper_root_enter(pool_fd(keeper->shared.pool), options->agent_path,
                              &keeper->shared.keeper_root_ns, err);
    }
    if (r == 0) {
        keeper->handler = handler_new(&keeper->shared, answer_send, clients_leave, keeper);
        handler_workers(keeper->handler, workers_count(options->workers));
    }
    return r;
}

static void keeper_close(struct keeper *keeper)
{
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        client_close(&keeper->clients[i]);
    }
    if (keeper->listen_fd >= 0) {
        (void)unlinkat(keeper->socket_dir_fd, keeper->socket_name, 0);
    }
    handler_free(keeper->handler);
    zygotes_free(&keeper->shared);
    merge_stop(&keeper->shared.merge);
    fd_closep(&keeper->shared.keeper_root_ns);
    fd_closep(&keeper->shared.userfault_fd);
    network_free(keeper->shared.network);
    size_files_free(keeper->shared.size_files);
    size_bpf_close(keeper->shared.size_bpf);
    filters_free(keeper->shared.filters);
    cgroups_close(keeper->shared.groups);
    pool_close(keeper->shared.pool);
    fd_closep(&keeper->listen_fd);
    fd_closep(&keeper->socket_dir_fd);
    fd_closep(&keeper->signals_fd);
    free(keeper->polled);
}

int keeper_main(const struct keeper_options *options)
{
    struct keeper keeper = {
        .options = options,
        .shared = {.keeper_root_ns = -1,
                   .lock_fd = options->lock_fd,
                   .userfault_fd = -1,
                   .task_timeout_ms =
                       options->task_timeout_ms ? options->task_timeout_ms : HANDLE_TASK_TIMEOUT_MS,
                   .merge = MERGE_NONE},
        .signals_fd = -1,
        .listen_fd = -1,
        .socket_dir_fd = -1,
    };
    struct err err = {0};
    int code = 1;

    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        keeper.clients[i].fd = -1;
    }
    if (keeper_open(&keeper, &err) < 0) {
        log_error("cannot start: %s", err.msg);
    } else {
        if (!pool_limits_disk(keeper.shared.pool)) {
            log_warn("sandboxes have no disk limit: %s", pool_limits_why(keeper.shared.pool));
        }
        if (!keeper.shared.criu) {
            log_warn("sandboxes are paused without their memory: %s", keeper.shared.criu_why.msg);
        }
        log_info("ready");
        code = loop_run(&keeper);
    }
    keeper_close(&keeper);
    return code;
}
