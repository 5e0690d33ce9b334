#include "watch_fixture.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

struct agent_child agent;

/* ---- the disk ---- */

void path_in(const struct tmpdir *dir, const char *name, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/%s", dir->path, name);
}

void make_dir(const struct tmpdir *dir, const char *name)
{
    if (mkdirat(dir->fd, name, 0755) < 0) {
        abort();
    }
}

void make_file(const struct tmpdir *dir, const char *name, const char *text)
{
    int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) < 0) {
        abort();
    }
}

void move(const struct tmpdir *from, const char *old, const struct tmpdir *to, const char *new)
{
    if (renameat(from->fd, old, to->fd, new) < 0) {
        abort();
    }
}

void drop(const struct tmpdir *dir, const char *name, int flags)
{
    if (unlinkat(dir->fd, name, flags) < 0) {
        abort();
    }
}

/* ---- a client ---- */

/* "create a\n" for an event; "entry NAME" beside it when it carries one. */
static void log_event(struct buf *log, const json_t *event)
{
    static const char prefix[] = "EVENT_TYPE_";
    const json_t *entry = json_object_get(event, "entry");
    char type[32];

    (void)snprintf(type, sizeof(type), "%s", json_text(event, "type", NULL) + sizeof(prefix) - 1);
    for (char *at = type; *at; at++) {
        *at = (char)(*at | 0x20);
    }
    if (buf_printf(log, "%s %s", type, json_text(event, "name", NULL)) < 0 ||
        (entry && buf_printf(log, " entry %s", json_text(entry, "path", NULL)) < 0) ||
        buf_printf(log, "\n") < 0) {
        abort();
    }
}

bool log_has(const struct buf *log, const char *line)
{
    char wanted[512];
    int n = snprintf(wanted, sizeof(wanted), "\n%s\n", line);

    if (buf_len(log) == 0) {
        return false;
    }
    return (buf_len(log) >= (size_t)n - 1 && memcmp(buf_at(log), wanted + 1, (size_t)n - 1) == 0) ||
           memmem(buf_at(log), buf_len(log), wanted, (size_t)n);
}

size_t log_count(const struct buf *log, const char *line)
{
    size_t count = 0, len = strlen(line);

    for (struct str rest = buf_str(log); rest.len;) {
        size_t end = str_find(rest, '\n');
        count += end == len && memcmp(rest.at, line, len) == 0;
        rest = str_skip(rest, end + (end < rest.len));
    }
    return count;
}

const char *log_text(struct buf *log)
{
    static char text[8192];
    size_t len = buf_len(log) < sizeof(text) - 1 ? buf_len(log) : sizeof(text) - 1;

    if (len) {
        memcpy(text, buf_at(log), len);
    }
    text[len] = '\0';
    buf_clear(log);
    return text;
}

int ask(const char *method, const char *body, json_t **out)
{
    scoped_client(c);
    char path[128];

    (void)snprintf(path, sizeof(path), "/filesystem.Filesystem/%s", method);
    client_open(&c, agent.port);
    return client_unary(&c, path, "", str_of(body), out);
}

int upload(const struct tmpdir *dir, const char *name, const char *text)
{
    scoped_client(c);
    char target[PATH_MAX + 64];

    (void)snprintf(target, sizeof(target), "/files?username=root&path=%s/%s", dir->path, name);
    client_open(&c, agent.port);
    return client_request(&c, "POST", target, "Content-Type: application/octet-stream\r\n",
                          str_of(text))
               ? c.status
               : -1;
}

/* ---- a stream ---- */

void feed_close(struct feed *feed)
{
    client_close(&feed->client);
    buf_fini(&feed->log);
}

bool feed_step(struct feed *feed)
{
    uint8_t flags = 0;
    json_auto_t *message = client_next(&feed->client, &flags);

    if (!message || flags == 2) {
        feed->ended = message != NULL;
        (void)snprintf(feed->code, sizeof(feed->code), "%s", json_text(message, "error", "code"));
        (void)snprintf(feed->message, sizeof(feed->message), "%s",
                       json_text(message, "error", "message"));
        return false;
    }
    feed->started = feed->started || json_object_get(message, "start");
    feed->keepalives += json_object_get(message, "keepalive") != NULL;
    if (json_object_get(message, "filesystem")) {
        log_event(&feed->log, json_object_get(message, "filesystem"));
    }
    return true;
}

bool feed_open(struct feed *feed, const char *path, const char *more, const char *headers)
{
    char body[PATH_MAX + 128];

    *feed = (struct feed){0};
    buf_init(&feed->log, LOG_MAX);
    client_open(&feed->client, agent.port);
    (void)snprintf(body, sizeof(body), "{\"path\":\"%s\"%s}", path, more);
    return client_stream(&feed->client, "/filesystem.Filesystem/WatchDir", headers, body) &&
           feed_step(feed) && feed->started;
}

bool feed_until(struct feed *feed, const char *line)
{
    while (!log_has(&feed->log, line)) {
        if (!feed_step(feed)) {
            return false;
        }
    }
    return true;
}

bool feed_sync(struct feed *feed, const struct tmpdir *dir)
{
    make_dir(dir, "end");
    bool came = feed_until(feed, "create end");
    drop(dir, "end", AT_REMOVEDIR);
    return came && feed_until(feed, "remove end");
}

const char *feed_text(struct feed *feed, const struct tmpdir *dir)
{
    if (!feed_sync(feed, dir)) {
        return "the end has not come";
    }
    feed->log.end -= strlen("create end\nremove end\n");
    return log_text(&feed->log);
}

void feed_rest(struct feed *feed)
{
    while (feed_step(feed)) {
    }
}

/* ---- polling ---- */

bool poller_open(const char *path, const char *more, char id[64])
{
    char body[PATH_MAX + 128];
    json_auto_t *out = NULL;

    (void)snprintf(body, sizeof(body), "{\"path\":\"%s\"%s}", path, more);
    int status = ask("CreateWatcher", body, &out);
    (void)snprintf(id, 64, "%s", json_text(out, "watcherId", NULL));
    return status == 200 && id[0] == 'w';
}

int poller_get(const char *id, struct buf *log, char code[64])
{
    char body[128];
    json_auto_t *out = NULL;
    size_t i;
    const json_t *event;

    (void)snprintf(body, sizeof(body), "{\"watcherId\":\"%s\"}", id);
    int status = ask("GetWatcherEvents", body, &out);
    (void)snprintf(code, 64, "%s", json_text(out, "code", NULL));
    json_array_foreach (json_object_get(out, "events"), i, event) {
        log_event(log, event);
    }
    return status;
}

int poller_remove(const char *id)
{
    char body[128];
    json_auto_t *out = NULL;

    (void)snprintf(body, sizeof(body), "{\"watcherId\":\"%s\"}", id);
    return ask("RemoveWatcher", body, &out);
}

/* ---- a program of tests ---- */

int watch_main(int argc, char **argv, const struct check_test *tests, size_t n)
{
    /* For mounts of a test: they go with it. A user who may not unshare may not mount either. */
    if (unshare(CLONE_NEWNS) == 0) {
        (void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    }
    if (argc != 2 || !agent_start(&agent, argv[1], false)) {
        printf("Bail out! the agent does not start\n");
        return 1;
    }
    return check_run(tests, n);
}
