#include "cli/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/entry.h"
#include "cli/progress.h"
#include "cli/remote.h"
#include "cli/sandboxes.h"
#include "cli/session.h"
#include "cli/tar_count.h"
#include "lib/base/fd.h"

enum { TICK_MS = 200, RELAY_BYTES = 64 * 1024 };

#define VOLUME_PREFIX "vol:"

/* ---- places ---- */

static int place_sandbox(const struct endpoint *endpoint, const char *id, struct place *out,
                         struct err *err)
{
    char full[ID_SANDBOX_LEN + 1];
    int r = sandbox_find(endpoint, id, full, err);

    return r < 0 ? r : link_open(endpoint, full, LINK_RESUMED_S, &out->link, &out->resumed, err);
}

static int path_set(struct place *place, const char *path, struct err *err)
{
    return str_copy(place->path, sizeof(place->path), str_of(path))
               ? 0
               : err_set(err, ENAMETOOLONG, "the path %.60s... is too long", path);
}

static int place_volume(const struct endpoint *endpoint, const char *text, struct place *out,
                        struct err *err)
{
    const char *slash = strchr(text, '/');
    char name[LINK_ID_BYTES * 2];
    struct str part = {text, slash ? (size_t)(slash - text) : strlen(text)};

    out->kind = PLACE_VOLUME;
    out->link.endpoint = *endpoint;
    if (part.len == 0 || !str_copy(name, sizeof(name), part)) {
        return err_set(err, EINVAL, "name a volume as vol:NAME/PATH");
    }
    int r = path_set(out, slash ? slash : "/", err);
    return r < 0 ? r : volume_open(out, name, err);
}

/* "ID:PATH", where the id has the letters and digits of one; "./a:b" is a file here. */
int place_open(const struct endpoint *endpoint, const char *text, const char *user,
               struct place *out, struct err *err)
{
    const char *colon = strchr(text, ':'), *slash = strchr(text, '/');
    char id[LINK_ID_BYTES];

    *out = (struct place){.kind = PLACE_LOCAL, .user = user, .bytes = -1};
    if (strcmp(text, "-") == 0) {
        out->kind = PLACE_PIPE;
        return 0;
    }
    if (strncmp(text, VOLUME_PREFIX, strlen(VOLUME_PREFIX)) == 0) {
        return place_volume(endpoint, text + strlen(VOLUME_PREFIX), out, err);
    }
    if (!colon || (slash && slash < colon) ||
        !str_copy(id, sizeof(id), (struct str){text, (size_t)(colon - text)}) || !entry_id_ok(id)) {
        return path_set(out, text, err);
    }
    out->kind = PLACE_SANDBOX;
    int r = path_set(out, colon[1] ? colon + 1 : ".", err);
    return r < 0 ? r : place_sandbox(endpoint, id, out, err);
}

static int local_look(struct place *place, struct err *err)
{
    struct stat st;

    place->type = PLACE_MISSING;
    if (stat(place->path, &st) < 0) {
        return errno == ENOENT ? 0 : err_sys(err, "look at %s", place->path);
    }
    place->type = S_ISDIR(st.st_mode)   ? PLACE_DIRECTORY
                  : S_ISREG(st.st_mode) ? PLACE_FILE
                                        : PLACE_SPECIAL;
    place->mode = st.st_mode & 0777;
    place->bytes = S_ISREG(st.st_mode) ? st.st_size : -1;
    return 0;
}

int place_look(struct place *place, struct err *err)
{
    switch (place->kind) {
    case PLACE_LOCAL:
        return local_look(place, err);
    case PLACE_SANDBOX:
        return sandbox_look(place, err);
    case PLACE_VOLUME:
        return volume_look(place, err);
    case PLACE_PIPE:
        place->type = PLACE_SPECIAL;
        return 0;
    }
    return -EINVAL;
}

/* ---- where to ---- */

static bool ends_with_dot(const char *path)
{
    struct str text = str_of(path);

    return str_eq(text, STR(".")) || str_ends(text, STR("/."));
}

static const char *name_of(const struct place *place, char out[COPY_PATH_BYTES])
{
    (void)snprintf(out, COPY_PATH_BYTES, "%s", place->path);
    size_t len = strlen(out);
    while (len > 1 && out[len - 1] == '/') {
        out[--len] = '\0';
    }
    const char *slash = strrchr(out, '/');
    return slash ? slash + 1 : out;
}

/* Into a directory that is there, under the source's own name. "DIR/." means what is in it. */
static int target_find(const struct place *from, bool contents, struct place *to, struct err *err)
{
    char name[COPY_PATH_BYTES], joined[COPY_PATH_BYTES];
    bool slash_last = str_ends(str_of(to->path), STR("/"));

    if (to->kind == PLACE_PIPE || contents) {
        return 0;
    }
    if (to->type != PLACE_DIRECTORY) {
        return slash_last && from->type != PLACE_DIRECTORY
                   ? err_set(err, ENOENT, "there is no directory %.150s", to->path)
                   : 0;
    }
    if (from->kind == PLACE_PIPE) {
        return err_set(err, EISDIR, "%.150s is a directory: name the file that is to be written",
                       to->path);
    }
    const char *last = name_of(from, name);
    int n = snprintf(joined, sizeof(joined), "%s%s%s", to->path, slash_last ? "" : "/", last);
    if (n >= (int)sizeof(joined) || !last[0] || strcmp(last, "..") == 0) {
        return err_set(err, EINVAL, "no name for the copy follows from '%.100s'", from->path);
    }
    memcpy(to->path, joined, sizeof(joined));
    return place_look(to, err);
}

static int check(const struct place *from, const struct place *to, struct err *err)
{
    if (from->type == PLACE_MISSING) {
        return err_set(err, CALL_NOT_FOUND, "there is no %.200s", from->path);
    }
    if (from->type == PLACE_DIRECTORY && (to->type == PLACE_FILE)) {
        return err_set(err, ENOTDIR, "%.100s is a directory, and %.100s is a file", from->path,
                       to->path);
    }
    if (from->type != PLACE_DIRECTORY && to->type == PLACE_DIRECTORY) {
        return err_set(err, EISDIR, "%.200s is a directory", to->path);
    }
    return 0;
}

/* ---- the copy ---- */

static int dispatch_send(struct copy *copy, int out, struct err *err)
{
    switch (copy->from->kind) {
    case PLACE_LOCAL:
        return local_send(copy, out, err);
    case PLACE_PIPE:
        return pipe_send(copy, out, err);
    case PLACE_SANDBOX:
        return sandbox_send(copy, out, err);
    case PLACE_VOLUME:
        return volume_send(copy, out, err);
    }
    return -EINVAL;
}

static int dispatch_receive(struct copy *copy, int in, struct err *err)
{
    switch (copy->to->kind) {
    case PLACE_LOCAL:
        return local_receive(copy, in, err);
    case PLACE_PIPE:
        return pipe_receive(copy, in, err);
    case PLACE_SANDBOX:
        return sandbox_receive(copy, in, err);
    case PLACE_VOLUME:
        return volume_receive(copy, in, err);
    }
    return -EINVAL;
}

struct sender {
    struct copy *copy;
    int fd;
    int r;
    struct err err;
};

static void *sender_run(void *ctx)
{
    struct sender *sender = ctx;

    sender->r = dispatch_send(sender->copy, sender->fd, &sender->err);
    if (sender->r < 0) {
        atomic_store(&sender->copy->spoilt, true);
    }
    fd_closep(&sender->fd);
    return NULL;
}

/* Stands between the two sides and counts what passes. Neither side sees a difference: an end, or a
 * side that gave up, is passed on to the other. */
struct relay {
    int in, out; /* closed by its thread */
    int64_t passed;
    struct tar_count tar;
};

static void *relay_run(void *ctx)
{
    struct relay *relay = ctx;
    char piece[RELAY_BYTES];
    ssize_t n;

    while ((n = read(relay->in, piece, sizeof(piece))) != 0) {
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 || remote_write(relay->out, (struct str){piece, (size_t)n}) < 0) {
            break;
        }
        relay->passed += n;
        tar_count_feed(&relay->tar, piece, (size_t)n);
    }
    fd_closep(&relay->in);
    fd_closep(&relay->out);
    return NULL;
}

/* The sender then writes to the relay; *fd is the sender's end before and afterwards. */
static int relay_start(struct relay *relay, int *fd, pthread_t *thread, struct err *err)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return err_sys(err, "make a socket");
    }
    relay->in = ends[0];
    relay->out = *fd;
    *fd = ends[1];
    return pthread_create(thread, NULL, relay_run, relay) == 0
               ? 0
               : err_set(err, EAGAIN, "start a thread");
}

/* Signals and progress. Shutting the socket down wakes whichever side waits for the other. */
struct watcher {
    struct copy *copy;
    int signals, stop, socket;
    struct progress progress;
};

static void *watcher_run(void *ctx)
{
    struct watcher *watcher = ctx;
    struct pollfd fds[2] = {{.fd = watcher->signals, .events = POLLIN},
                            {.fd = watcher->stop, .events = POLLIN}};

    while (poll(fds, 2, TICK_MS) >= 0 || errno == EINTR) {
        struct signalfd_siginfo info;
        if (fds[1].revents) {
            break;
        }
        if (read(watcher->signals, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
            info.ssi_signo != SIGWINCH) {
            atomic_store(&watcher->copy->cancelled, true);
            atomic_store(&watcher->copy->spoilt, true);
            (void)shutdown(watcher->socket, SHUT_RDWR);
        }
        progress_tell(&watcher->progress, atomic_load(&watcher->copy->moved),
                      watcher->copy->tree ? -1 : watcher->copy->bytes);
    }
    progress_end(&watcher->progress);
    return NULL;
}

/* The side that failed first has the reason; here it is the sender, or none. */
static int outcome(const struct copy *copy, const struct sender *sender, int received,
                   struct err *err)
{
    if (atomic_load(&copy->cancelled)) {
        return err_set(err, EINTR, "interrupted");
    }
    if (sender->r < 0) {
        return err_set(err, -sender->r, "%s", ours(sender->err.msg));
    }
    return received;
}

static int streams_run(struct copy *copy, int sockets[2], struct err *err)
{
    struct remote_signals signals = {.fd = -1};
    struct sender sender = {.copy = copy, .fd = sockets[1]};
    int stop[2];

    int r = remote_signals_open(&signals, err);
    if (r < 0 || pipe2(stop, O_CLOEXEC) < 0) {
        return r < 0 ? r : err_sys(err, "make a pipe");
    }
    struct watcher watcher = {
        .copy = copy, .signals = signals.fd, .stop = stop[0], .socket = sockets[0]};
    progress_begin(&watcher.progress, !copy->quiet && copy->to->kind != PLACE_PIPE);
    pthread_t sending, watching;
    if (pthread_create(&sending, NULL, sender_run, &sender) != 0 ||
        pthread_create(&watching, NULL, watcher_run, &watcher) != 0) {
        return err_set(err, EAGAIN, "start a thread");
    }
    r = dispatch_receive(copy, sockets[0], err);
    bool first = r < 0 && !atomic_load(&copy->spoilt);
    (void)shutdown(sockets[0], SHUT_RDWR);
    (void)pthread_join(sending, NULL);
    (void)close(stop[1]);
    (void)pthread_join(watching, NULL);
    (void)close(stop[0]);
    (void)close(sockets[0]);
    remote_signals_close(&signals);
    return first && !atomic_load(&copy->cancelled) ? r : outcome(copy, &sender, r, err);
}

/* As streams_run(), with a count of what passed. */
static int counted_run(struct copy *copy, int sockets[2], struct copied *count, struct err *err)
{
    struct relay relay = {.in = -1, .out = -1};
    pthread_t thread;
    int r = relay_start(&relay, &sockets[1], &thread, err);

    if (r < 0) {
        return r;
    }
    r = streams_run(copy, sockets, err);
    (void)pthread_join(thread, NULL);
    count->files = copy->tree ? relay.tar.files : 1;
    count->bytes = copy->tree ? relay.tar.bytes : relay.passed;
    count->skipped = atomic_load(&copy->entries_skipped);
    return r;
}

int copy_command(const struct cli *cli, struct place *from, struct place *to, struct err *err)
{
    struct copied count = {0};
    const struct place *const both[] = {from, to};

    for (size_t i = 0; i < countof(both); i++) {
        if (both[i]->resumed) {
            session_tell_resumed(cli, &both[i]->link, LINK_RESUMED_S);
        }
    }
    if (cli->json && to->kind == PLACE_PIPE) {
        return err_set(err, EINVAL, "the copy itself goes to stdout: leave --json out");
    }
    int r = copy_run(from, to, cli->quiet, cli->json ? &count : NULL, err);
    if (r == 0 && cli->json) {
        scoped_json *answer = json_pack("{sIsIsi}", "files", (json_int_t)count.files, "bytes",
                                        (json_int_t)count.bytes, "skipped", count.skipped);
        cli_print_json(answer);
    }
    return r;
}

int copy_run(struct place *from, struct place *to, bool quiet, struct copied *count,
             struct err *err)
{
    bool contents = ends_with_dot(from->path);
    int sockets[2];
    int r = place_look(from, err);

    r = r < 0 ? r : place_look(to, err);
    contents = contents && from->type == PLACE_DIRECTORY;
    r = r < 0 ? r : target_find(from, contents, to, err);
    r = r < 0 ? r : check(from, to, err);
    if (r < 0) {
        return r;
    }
    struct copy copy = {.from = from,
                        .to = to,
                        .quiet = quiet,
                        .mode = from->mode,
                        .bytes = from->bytes,
                        .tree = from->type == PLACE_DIRECTORY};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0) {
        return err_sys(err, "make a socket");
    }
    r = count ? counted_run(&copy, sockets, count, err) : streams_run(&copy, sockets, err);
    int skipped = atomic_load(&copy.entries_skipped);
    if (r == 0 && skipped > 0 && !count) {
        (void)fprintf(stderr,
                      "%d %s left out: devices, sockets, or links that the target cannot have\n",
                      skipped, skipped == 1 ? "entry was" : "entries were");
    }
    return r;
}
