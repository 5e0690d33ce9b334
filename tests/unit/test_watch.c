/* Watches on the real agent: real directories, real inotify, a client on loopback.
 *
 * What a watch tells is compared as text, one event a line: "create a", "write a". A file that the
 * test makes last, `end`, tells when all before it has arrived: no test waits for a while. */
#include <errno.h>
#include <sched.h>
#include <sys/stat.h>

#include "agent_fixture.h"
#include "check.h"
#include "fuse_fixture.h"
#include "inside/agent/watch.h"
#include "inside/agent/watchers.h"

enum {
    LOG_MAX = 64 * 1024 * 1024,
    THOUSAND = 1000,
    RACE_TREES = 300,
    RACE_LEVELS = 4,
    HALTS = 500,
    HALT_US_MAX = 250,
    LEAVE_ROUNDS = 100,
    LEAVE_DIRS = 50,
    STORM_EVENTS = 40000,  /* more than the kernel queues */
    QUEUED_EVENTS = 14000, /* less */
    NAME_LONG = 200,
};

static struct agent_child agent;

/* ---- the disk ---- */

static void path_in(const struct tmpdir *dir, const char *name, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/%s", dir->path, name);
}

static void make_dir(const struct tmpdir *dir, const char *name)
{
    if (mkdirat(dir->fd, name, 0755) < 0) {
        abort();
    }
}

static void make_file(const struct tmpdir *dir, const char *name, const char *text)
{
    int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) < 0) {
        abort();
    }
}

static void move(const struct tmpdir *from, const char *old, const struct tmpdir *to,
                 const char *new)
{
    if (renameat(from->fd, old, to->fd, new) < 0) {
        abort();
    }
}

static int truncateat(const struct tmpdir *dir, const char *name)
{
    int fd = openat(dir->fd, name, O_WRONLY | O_TRUNC | O_CLOEXEC);

    return fd < 0 ? -errno : close(fd);
}

static void drop(const struct tmpdir *dir, const char *name, int flags)
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

static bool log_has(const struct buf *log, const char *line)
{
    char wanted[512];
    int n = snprintf(wanted, sizeof(wanted), "\n%s\n", line);

    if (buf_len(log) == 0) {
        return false;
    }
    return (buf_len(log) >= (size_t)n - 1 && memcmp(buf_at(log), wanted + 1, (size_t)n - 1) == 0) ||
           memmem(buf_at(log), buf_len(log), wanted, (size_t)n);
}

static size_t log_count(const struct buf *log, const char *line)
{
    size_t count = 0, len = strlen(line);

    for (struct str rest = buf_str(log); rest.len;) {
        size_t end = str_find(rest, '\n');
        count += end == len && memcmp(rest.at, line, len) == 0;
        rest = str_skip(rest, end + (end < rest.len));
    }
    return count;
}

/* The text so far, which is then forgotten. */
static const char *log_text(struct buf *log)
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

static int ask(const char *method, const char *body, json_t **out)
{
    scoped_client(c);
    char path[128];

    (void)snprintf(path, sizeof(path), "/filesystem.Filesystem/%s", method);
    client_open(&c, agent.port);
    return client_unary(&c, path, "", str_of(body), out);
}

/* POST /files, as the SDKs do. */
static int upload(const struct tmpdir *dir, const char *name, const char *text)
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

struct feed {
    struct client client;
    struct buf log;
    bool started;
    bool ended;
    unsigned keepalives;
    char code[64]; /* of the error it ended with */
    char message[512];
};

static void feed_close(struct feed *feed)
{
    client_close(&feed->client);
    buf_fini(&feed->log);
}
#define scoped_feed(name) scoped(feed_close) struct feed name = {.client = {.fd = -1}}

/* Takes one message; false after the last. */
static bool feed_step(struct feed *feed)
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

static bool feed_open(struct feed *feed, const char *path, const char *more, const char *headers)
{
    char body[PATH_MAX + 128];

    *feed = (struct feed){0};
    buf_init(&feed->log, LOG_MAX);
    client_open(&feed->client, agent.port);
    (void)snprintf(body, sizeof(body), "{\"path\":\"%s\"%s}", path, more);
    return client_stream(&feed->client, "/filesystem.Filesystem/WatchDir", headers, body) &&
           feed_step(feed) && feed->started;
}

/* Reads on until the event has come. */
static bool feed_until(struct feed *feed, const char *line)
{
    while (!log_has(&feed->log, line)) {
        if (!feed_step(feed)) {
            return false;
        }
    }
    return true;
}

/* Makes and removes `end` and reads on until both are told. */
static bool feed_sync(struct feed *feed, const struct tmpdir *dir)
{
    make_dir(dir, "end");
    bool came = feed_until(feed, "create end");
    drop(dir, "end", AT_REMOVEDIR);
    return came && feed_until(feed, "remove end");
}

/* What has come before `end`. */
static const char *feed_text(struct feed *feed, const struct tmpdir *dir)
{
    if (!feed_sync(feed, dir)) {
        return "the end has not come";
    }
    feed->log.end -= strlen("create end\nremove end\n");
    return log_text(&feed->log);
}

static void feed_rest(struct feed *feed)
{
    while (feed_step(feed)) {
    }
}

/* ---- polling ---- */

static bool poller_open(const char *path, const char *more, char id[64])
{
    char body[PATH_MAX + 128];
    json_auto_t *out = NULL;

    (void)snprintf(body, sizeof(body), "{\"path\":\"%s\"%s}", path, more);
    int status = ask("CreateWatcher", body, &out);
    (void)snprintf(id, 64, "%s", json_text(out, "watcherId", NULL));
    return status == 200 && id[0] == 'w';
}

/* Appends what there is; the HTTP status, and the error's code in *code. */
static int poller_get(const char *id, struct buf *log, char code[64])
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

static int poller_remove(const char *id)
{
    char body[128];
    json_auto_t *out = NULL;

    (void)snprintf(body, sizeof(body), "{\"watcherId\":\"%s\"}", id);
    return ask("RemoveWatcher", body, &out);
}

/* ---- what is told ---- */

static void changes_are_told_in_order(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(feed);

    CHECK(feed_open(&feed, dir.path, "", ""));
    make_file(&dir, "a", "text");
    CHECK_INT(fchmodat(dir.fd, "a", 0600, 0), 0);
    move(&dir, "a", &dir, "b");
    drop(&dir, "b", 0);
    CHECK_STR(feed_text(&feed, &dir), "create a\nwrite a\nchmod a\nrename a\ncreate b\nremove b\n");
    CHECK_INT(chmod(dir.path, 0711), 0);
    CHECK_STR(feed_text(&feed, &dir), "chmod .\n");
}

static void an_upload_is_three_events(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(feed);

    CHECK(feed_open(&feed, dir.path, "", ""));
    CHECK_INT(upload(&dir, "a", "text"), 200);
    CHECK_STR(feed_text(&feed, &dir), "create a\nchmod a\nwrite a\n");
    CHECK_INT(upload(&dir, "a", "other"), 200);
    CHECK_STR(feed_text(&feed, &dir), "chmod a\nwrite a\n");
}

static void polling_drains_in_the_call(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_buf(log, LOG_MAX);
    char id[64], code[64];

    CHECK(poller_open(dir.path, "", id));
    for (int i = 0; i < 50; i++) {
        CHECK_INT(upload(&dir, "a", "text"), 200);
        CHECK_INT(poller_get(id, &log, code), 200);
        CHECK_STR(log_text(&log), i == 0 ? "create a\nchmod a\nwrite a\n" : "chmod a\nwrite a\n");
    }
    CHECK_INT(poller_get(id, &log, code), 200);
    CHECK_STR(log_text(&log), "");
    CHECK_INT(poller_remove(id), 200);
    CHECK_INT(poller_get(id, &log, code), 404);
    CHECK_STR(code, "not_found");
    CHECK_INT(poller_remove(id), 404);
}

static void entries_come_when_asked_for(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(feed);
    char wanted[512];

    CHECK(feed_open(&feed, dir.path, ",\"includeEntry\":true,\"recursive\":true", ""));
    make_dir(&dir, "d");
    (void)snprintf(wanted, sizeof(wanted), "create d entry %s/d", dir.path);
    CHECK(feed_until(&feed, wanted));
    make_file(&dir, "d/f", "x");
    (void)snprintf(wanted, sizeof(wanted), "write d/f entry %s/d/f", dir.path);
    CHECK(feed_until(&feed, wanted));
    drop(&dir, "d/f", 0);
    CHECK(feed_until(&feed, "remove d/f"));
}

static void links_and_odd_names(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_tmpdir other = tmpdir_make();
    scoped_feed(feed);
    char link[PATH_MAX];

    path_in(&other, "link", link);
    CHECK_INT(symlink(dir.path, link), 0);
    CHECK(feed_open(&feed, link, ",\"recursive\":true", ""));
    make_dir(&dir, "d\xff");
    make_file(&dir, "d\xff/\xc3\xa4", "");
    CHECK(feed_until(&feed, "create d\xef\xbf\xbd/\xc3\xa4"));
    CHECK_INT(symlinkat(other.path, dir.fd, "away"), 0); /* is not followed */
    make_file(&other, "unseen", "");
    buf_clear(&feed.log);
    make_dir(&dir, "end");
    CHECK(feed_until(&feed, "create end"));
    CHECK_STR(log_text(&feed.log), "create away\ncreate end\n");
}

static void nothing_from_before_is_told(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(first);
    scoped_feed(second);

    CHECK(feed_open(&first, dir.path, "", ""));
    make_file(&dir, "before", "x");
    CHECK(feed_until(&first, "write before"));
    CHECK(feed_open(&second, dir.path, "", "")); /* the same directory: one mark in the kernel */
    make_file(&dir, "after", "");
    CHECK_STR(feed_text(&second, &dir), "create after\n");
    CHECK(feed_until(&first, "remove end"));
}

/* ---- trees ---- */

static void a_tree_is_followed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(feed);

    make_dir(&dir, "old");
    make_dir(&dir, "old/deep");
    CHECK(feed_open(&feed, dir.path, ",\"recursive\":true", ""));
    CHECK_INT(upload(&dir, "old/deep/f", "x"), 200);
    CHECK_STR(feed_text(&feed, &dir), "create old/deep/f\nchmod old/deep/f\nwrite old/deep/f\n");

    make_dir(&dir, "new");
    CHECK(feed_until(&feed, "create new"));
    CHECK_INT(upload(&dir, "new/f", "x"), 200);
    CHECK(feed_until(&feed, "write new/f"));
    CHECK_INT(log_count(&feed.log, "create new/f"), 1);
}

static void a_tree_that_is_not_wanted_is_not_followed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(feed);

    make_dir(&dir, "old");
    CHECK(feed_open(&feed, dir.path, "", ""));
    make_file(&dir, "old/f", "x");
    make_dir(&dir, "new");
    make_file(&dir, "new/f", "x");
    CHECK_STR(feed_text(&feed, &dir), "create new\n");
}

static void directories_may_move(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_tmpdir other = tmpdir_make();
    scoped_feed(feed);

    make_dir(&other, "in");
    make_dir(&other, "in/deep");
    make_file(&other, "in/deep/f", "x");
    CHECK(feed_open(&feed, dir.path, ",\"recursive\":true", ""));

    move(&other, "in", &dir, "a"); /* from outside: all of it is new */
    CHECK(feed_until(&feed, "write a/deep/f"));
    CHECK_STR(log_text(&feed.log), "create a\ncreate a/deep\ncreate a/deep/f\nwrite a/deep/f\n");

    move(&dir, "a", &dir, "b"); /* within: known, and told of under its new name */
    make_file(&dir, "b/deep/g", "");
    CHECK_STR(feed_text(&feed, &dir), "rename a\ncreate b\ncreate b/deep/g\n");

    move(&dir, "b", &other, "out"); /* away: of no interest any more */
    make_file(&other, "out/deep/h", "");
    make_dir(&dir, "b");
    make_file(&dir, "b/i", "");
    CHECK(feed_until(&feed, "create b/i"));
    CHECK_STR(feed_text(&feed, &dir), "rename b\ncreate b\ncreate b/i\n");

    drop(&dir, "b/i", 0);
    drop(&dir, "b", AT_REMOVEDIR);
    CHECK_STR(feed_text(&feed, &dir), "remove b/i\nremove b\n");
}

/* Nested directories with a file on each level, as fast as the disk makes them, while the agent
 * follows: whichever files are there before their directory is marked, each is told of once. */
static void race_make(const struct tmpdir *dir, int tree)
{
    char path[256];
    int len = snprintf(path, sizeof(path), "t%d", tree);

    for (int level = 0; level < RACE_LEVELS; level++) {
        make_dir(dir, path);
        (void)snprintf(path + len, sizeof(path) - (size_t)len, "/f");
        make_file(dir, path, level % 2 ? "x" : "");
        len += snprintf(path + len, sizeof(path) - (size_t)len, "/d");
    }
}

static void new_trees_are_told_once(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(feed);
    char line[256];

    CHECK(feed_open(&feed, dir.path, ",\"recursive\":true", ""));
    for (int tree = 0; tree < RACE_TREES; tree++) {
        race_make(&dir, tree);
    }
    for (int tree = 0; tree < RACE_TREES; tree++) {
        int len = snprintf(line, sizeof(line), "create t%d", tree);
        for (int level = 0; level < RACE_LEVELS; level++) {
            (void)snprintf(line + len, sizeof(line) - (size_t)len, "/f");
            CHECK_THAT(feed_until(&feed, line), "'%s' has not come: %s", line, feed.message);
            len += snprintf(line + len, sizeof(line) - (size_t)len, "/d");
        }
    }
    make_dir(&dir, "end");
    CHECK(feed_until(&feed, "create end"));
    for (int tree = 0; tree < RACE_TREES; tree++) {
        int len = snprintf(line, sizeof(line), "create t%d", tree);
        CHECK_INT(log_count(&feed.log, line), 1);
        for (int level = 0; level < RACE_LEVELS; level++) {
            (void)snprintf(line + len, sizeof(line) - (size_t)len, "/f");
            CHECK_THAT(log_count(&feed.log, line) == 1, "'%s' came %zu times", line,
                       log_count(&feed.log, line));
            len += snprintf(line + len, sizeof(line) - (size_t)len, "/d");
        }
    }
}

/* Directories that are renamed right after they were made: their file is told of under the one name
 * or the other, once, and what comes after that under the last name. */
static void renamed_trees_are_told_once(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(feed);
    char old[64], new[64], file[128], a[160], b[160];

    CHECK(feed_open(&feed, dir.path, ",\"recursive\":true", ""));
    for (int i = 0; i < RACE_TREES; i++) {
        (void)snprintf(old, sizeof(old), "old%d", i);
        (void)snprintf(new, sizeof(new), "new%d", i);
        make_dir(&dir, old);
        (void)snprintf(file, sizeof(file), "%s/first", old);
        make_file(&dir, file, "");
        (void)snprintf(file, sizeof(file), "%s/sub", old);
        make_dir(&dir, file);
        move(&dir, old, &dir, new);
        (void)snprintf(file, sizeof(file), "%s/sub/second", new);
        make_file(&dir, file, "");
    }
    for (int i = 0; i < RACE_TREES; i++) {
        (void)snprintf(b, sizeof(b), "create new%d/sub/second", i);
        CHECK_THAT(feed_until(&feed, b), "'%s' has not come: %s", b, feed.message);
    }
    make_dir(&dir, "end");
    CHECK(feed_until(&feed, "create end"));
    for (int i = 0; i < RACE_TREES; i++) {
        (void)snprintf(a, sizeof(a), "create old%d/first", i);
        (void)snprintf(b, sizeof(b), "create new%d/first", i);
        CHECK_INT(log_count(&feed.log, a) + log_count(&feed.log, b), 1);
        (void)snprintf(b, sizeof(b), "create new%d/sub/second", i);
        CHECK_INT(log_count(&feed.log, b), 1);
    }
}

/* Stops the agent wherever it is. */
static bool agent_halt(void)
{
    siginfo_t info;

    return kill(agent.pid, SIGSTOP) == 0 &&
           waitid(P_PID, (id_t)agent.pid, &info, WSTOPPED | WEXITED | WNOWAIT) == 0 &&
           info.si_code == CLD_STOPPED;
}

/* Whether the file's creation was told once, and in the directory's new place. */
static bool told_as_new(const struct buf *log, const char *old, const char *new, const char *file)
{
    char a[160], b[160];

    (void)snprintf(a, sizeof(a), "create %s/%s", old, file);
    (void)snprintf(b, sizeof(b), "create %s/%s", new, file);
    return log_count(log, a) == 0 && log_count(log, b) == 1;
}

/* The agent is stopped while it looks through new directories, at another step each time. Then they
 * get another path, and files that were never there under the old one. */
static void a_rename_during_a_scan_is_followed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(feed);
    char old[64], new[64], file[128];

    CHECK(feed_open(&feed, dir.path, ",\"recursive\":true", ""));
    for (int i = 0; i < HALTS; i++) {
        (void)snprintf(old, sizeof(old), "old%d", i);
        (void)snprintf(new, sizeof(new), "new%d", i);
        make_dir(&dir, old);
        (void)snprintf(file, sizeof(file), "%s/sub", old);
        make_dir(&dir, file);
        (void)usleep((useconds_t)(i % HALT_US_MAX));
        CHECK(agent_halt());
        move(&dir, old, &dir, new);
        (void)snprintf(file, sizeof(file), "%s/late", new);
        make_file(&dir, file, "");
        (void)snprintf(file, sizeof(file), "%s/sub/late", new);
        make_file(&dir, file, "");
        CHECK_INT(kill(agent.pid, SIGCONT), 0);
        CHECK(feed_sync(&feed, &dir));
        CHECK_THAT(told_as_new(&feed.log, old, new, "late") &&
                       told_as_new(&feed.log, old, new, "sub/late"),
                   "'late' is not told once, in '%s':\n%s", new, log_text(&feed.log));
        buf_clear(&feed.log);
    }
}

/* `name` of a directory of the round; with `file`, of a file in it. */
static const char *round_name(int round, int i, const char *file)
{
    static char name[128];

    (void)snprintf(name, sizeof(name), "d%d-%d%s%s", round, i, file ? "/" : "", file ? file : "");
    return name;
}

static bool round_told(const struct buf *log, int round, int i, const char *file)
{
    char line[160];

    (void)snprintf(line, sizeof(line), "create %s", round_name(round, i, file));
    return log_count(log, line) == 1;
}

/* As above, but the directories leave the tree, and others take their names. */
static void names_taken_again_are_followed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_tmpdir other = tmpdir_make();
    scoped_feed(feed);

    CHECK(feed_open(&feed, dir.path, ",\"recursive\":true", ""));
    for (int round = 0; round < LEAVE_ROUNDS; round++) {
        for (int i = 0; i < LEAVE_DIRS; i++) {
            make_dir(&dir, round_name(round, i, NULL));
        }
        (void)usleep((useconds_t)(round % HALT_US_MAX));
        CHECK(agent_halt());
        for (int i = 0; i < LEAVE_DIRS; i++) {
            move(&dir, round_name(round, i, NULL), &other, round_name(round, i, NULL));
        }
        CHECK_INT(kill(agent.pid, SIGCONT), 0);
        CHECK(feed_sync(&feed, &dir));
        buf_clear(&feed.log);
        for (int i = 0; i < LEAVE_DIRS; i++) {
            make_file(&other, round_name(round, i, "away"), "");
            make_dir(&dir, round_name(round, i, NULL));
            make_file(&dir, round_name(round, i, "here"), "");
        }
        CHECK(feed_sync(&feed, &dir));
        for (int i = 0; i < LEAVE_DIRS; i++) {
            CHECK_THAT(round_told(&feed.log, round, i, "here"), "'%s' is not told once",
                       round_name(round, i, "here"));
            CHECK_THAT(!round_told(&feed.log, round, i, "away"), "'%s' is told",
                       round_name(round, i, "away"));
        }
        buf_clear(&feed.log);
    }
}

/* ---- ends ---- */

static void the_end_of_the_directory_is_told(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(removed);
    scoped_feed(moved);
    scoped_buf(log, LOG_MAX);
    char a[PATH_MAX], b[PATH_MAX], id[64], code[64];

    make_dir(&dir, "a");
    make_dir(&dir, "b");
    path_in(&dir, "a", a);
    path_in(&dir, "b", b);
    CHECK(feed_open(&removed, a, ",\"recursive\":true", ""));
    CHECK(feed_open(&moved, b, ",\"recursive\":true", ""));
    CHECK(poller_open(a, "", id));

    drop(&dir, "a", AT_REMOVEDIR);
    feed_rest(&removed);
    CHECK(removed.ended);
    CHECK_STR(removed.code, "");
    CHECK_STR(log_text(&removed.log), "remove .\n");
    CHECK_INT(poller_get(id, &log, code), 200);
    CHECK_STR(log_text(&log), "remove .\n");
    CHECK_INT(poller_get(id, &log, code), 404);
    CHECK_STR(code, "not_found");
    CHECK_INT(poller_remove(id), 200);

    move(&dir, "b", &dir, "c");
    feed_rest(&moved);
    CHECK(moved.ended);
    CHECK_STR(log_text(&moved.log), "rename .\n");
}

static void refuses(const char *path, const char *more, const char *code)
{
    char body[PATH_MAX + 128];
    json_auto_t *out = NULL;
    scoped_feed(feed);

    (void)snprintf(body, sizeof(body), "{\"path\":\"%s\"%s}", path, more);
    CHECK(ask("CreateWatcher", body, &out) >= 400);
    CHECK_STR(json_text(out, "code", NULL), code);
    CHECK(!feed_open(&feed, path, more, ""));
    CHECK_STR(feed.code, code);
    CHECK(strlen(feed.message) > 0);
}

static void what_cannot_be_watched_says_why(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[PATH_MAX];
    json_auto_t *out = NULL;

    path_in(&dir, "missing", path);
    refuses(path, "", "not_found");
    make_file(&dir, "file", "");
    path_in(&dir, "file", path);
    refuses(path, "", "invalid_argument");
    refuses("~nobody/x", "", "invalid_argument");
    CHECK_INT(ask("GetWatcherEvents", "{\"watcherId\":\"w0\"}", &out), 404);
}

static void network_mounts_are_refused(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fuse_dir fuse;
    char path[PATH_MAX], id[64];

    make_dir(&dir, "mnt");
    path_in(&dir, "mnt", path);
    if (!fuse_mount(&fuse, path)) {
        SKIP("no FUSE file system can be mounted here");
    }
    refuses(path, "", "invalid_argument");
    bool allowed = poller_open(path, ",\"allowNetworkMounts\":true", id);
    bool removed = poller_remove(id) == 200;
    bool around = poller_open(dir.path, ",\"recursive\":true", id); /* goes round it */
    removed = removed && poller_remove(id) == 200;
    fuse_unmount(&fuse);
    CHECK(allowed && around && removed);
}

static void streams_live_and_time_out(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(alive);
    scoped_feed(timed);

    CHECK(feed_open(&alive, dir.path, "", "Keepalive-Ping-Interval: 1\r\n"));
    while (alive.keepalives == 0) {
        CHECK(feed_step(&alive));
    }
    CHECK(feed_open(&timed, dir.path, "", "Connect-Timeout-Ms: 100\r\n"));
    feed_rest(&timed);
    CHECK_STR(timed.code, "deadline_exceeded");
}

/* ---- limits ---- */

static void a_thousand_watches_work(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_buf(log, LOG_MAX);
    char(*ids)[64] = calloc(THOUSAND, sizeof(*ids));
    char name[64], path[PATH_MAX], code[64];
    int told = 0;

    for (int i = 0; ids && i < THOUSAND; i++) {
        (void)snprintf(name, sizeof(name), "d%d", i);
        make_dir(&dir, name);
        path_in(&dir, name, path);
        if (!poller_open(path, ",\"recursive\":true", ids[i])) {
            break;
        }
    }
    for (int i = 0; ids && i < THOUSAND; i++) {
        (void)snprintf(name, sizeof(name), "d%d/f%d", i, i);
        make_file(&dir, name, "");
    }
    for (int i = 0; ids && i < THOUSAND; i++) {
        (void)snprintf(name, sizeof(name), "create f%d\n", i);
        told += poller_get(ids[i], &log, code) == 200 && strcmp(log_text(&log), name) == 0;
        (void)poller_remove(ids[i]);
    }
    free(ids);
    CHECK_INT(told, THOUSAND);
}

static void too_many_watchers_say_so(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char(*ids)[64] = calloc(WATCHERS_MAX, sizeof(*ids));
    int opened = 0;
    char one_more[64];

    while (ids && opened < WATCHERS_MAX && poller_open(dir.path, "", ids[opened])) {
        opened++;
    }
    bool refused = !poller_open(dir.path, "", one_more);
    for (int i = 0; i < opened; i++) {
        (void)poller_remove(ids[i]);
    }
    bool again = poller_open(dir.path, "", one_more);
    (void)poller_remove(one_more);
    free(ids);
    CHECK_INT(opened, WATCHERS_MAX);
    CHECK(refused);
    CHECK(again);
}

/* While the agent is stopped the kernel's queue runs over. */
static void lost_events_are_an_error(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(feed);
    scoped_feed(anew);
    char name[32];

    CHECK(feed_open(&feed, dir.path, "", ""));
    CHECK_INT(kill(agent.pid, SIGSTOP), 0);
    for (int i = 0; i < STORM_EVENTS / 2; i++) {
        (void)snprintf(name, sizeof(name), "f%d", i);
        make_file(&dir, name, "");
        drop(&dir, name, 0);
    }
    CHECK_INT(kill(agent.pid, SIGCONT), 0);
    feed_rest(&feed);
    CHECK_STR(feed.code, "data_loss");
    CHECK(strstr(feed.message, "max_queued_events"));
    CHECK(log_has(&feed.log, "create f0")); /* what came before is told */
    CHECK(feed_open(&anew, dir.path, "", ""));
    make_file(&dir, "f", "");
    CHECK(feed_until(&anew, "create f"));
}

/* A client that does not read: its events are kept up to a bound, then its watch ends, and it is
 * told so after what was kept. Another watcher's calls pace the storm below the kernel's bound. */
static void a_slow_reader_is_told_of_its_end(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_tmpdir other = tmpdir_make();
    scoped_feed(feed);
    scoped_buf(log, LOG_MAX);
    char name[NAME_LONG + 1], id[64], code[64];
    int events = 4 * WATCH_KEPT_BYTES_MAX / NAME_LONG; /* with what sockets hold */

    memset(name, 'n', NAME_LONG);
    name[NAME_LONG] = '\0';
    CHECK(poller_open(other.path, "", id));
    CHECK(feed_open(&feed, dir.path, "", ""));
    for (int i = 0; i < events / 2; i++) {
        (void)snprintf(name, 16, "%015d", i);
        name[15] = 'n';
        make_file(&dir, name, "");
        drop(&dir, name, 0);
        if (i % 2000 == 0) {
            CHECK_INT(poller_get(id, &log, code), 200);
        }
    }
    feed_rest(&feed);
    CHECK_STR(feed.code, "resource_exhausted");
    CHECK(strstr(feed.message, "wait to be read"));
    CHECK(buf_len(&feed.log) > WATCH_KEPT_BYTES_MAX / 2);
    CHECK_INT(poller_remove(id), 200);
}

/* One reading of the kernel's queue may be more than a watch keeps. */
static void too_much_at_once_is_told(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_feed(feed);
    char path[PATH_MAX] = "";

    for (int level = 0; level < 4; level++) {
        (void)memset(path + strlen(path), 'n', NAME_LONG); /* the rest is zero */
        make_dir(&dir, path);
        path[strlen(path)] = '/';
    }
    path[strlen(path)] = 'f';
    make_file(&dir, path, "");
    CHECK(feed_open(&feed, dir.path, ",\"recursive\":true", ""));
    CHECK_INT(kill(agent.pid, SIGSTOP), 0);
    for (int i = 0; i < QUEUED_EVENTS / 2; i++) { /* in turn: the kernel joins what is the same */
        CHECK_INT(fchmodat(dir.fd, path, 0600, 0), 0);
        CHECK_INT(truncateat(&dir, path), 0);
    }
    CHECK_INT(kill(agent.pid, SIGCONT), 0);
    feed_rest(&feed);
    CHECK_STR(feed.code, "resource_exhausted");
    CHECK(buf_len(&feed.log) > WATCH_KEPT_BYTES_MAX / 2);
}

static void agent_is_still_there(void)
{
    CHECK(agent_stop(&agent));
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"changes are told in their order", changes_are_told_in_order},
        {"an upload is told as create, chmod, write", an_upload_is_three_events},
        {"asking for events includes the newest", polling_drains_in_the_call},
        {"entries come when asked for", entries_come_when_asked_for},
        {"links and names that are not UTF-8", links_and_odd_names},
        {"nothing from before a watch is told", nothing_from_before_is_told},
        {"a tree is followed", a_tree_is_followed},
        {"a tree is followed only when asked", a_tree_that_is_not_wanted_is_not_followed},
        {"directories may move in, about and out", directories_may_move},
        {"files of new trees are told once", new_trees_are_told_once},
        {"files of renamed trees are told once", renamed_trees_are_told_once},
        {"a rename during a scan is followed", a_rename_during_a_scan_is_followed},
        {"names taken again during a scan are followed", names_taken_again_are_followed},
        {"the end of the directory ends the watch", the_end_of_the_directory_is_told},
        {"what cannot be watched says why", what_cannot_be_watched_says_why},
        {"network mounts are refused", network_mounts_are_refused},
        {"streams are kept alive and time out", streams_live_and_time_out},
        {"a thousand watches work", a_thousand_watches_work},
        {"more watchers than the limit say so", too_many_watchers_say_so},
        {"lost events are an error", lost_events_are_an_error},
        {"a reader that stops is told of its end", a_slow_reader_is_told_of_its_end},
        {"more at once than is kept is told", too_much_at_once_is_told},
        {"the agent has survived", agent_is_still_there},
    };

    /* For what a test mounts: it goes with the test. Who may not do this may not mount either. */
    if (unshare(CLONE_NEWNS) == 0) {
        (void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    }
    if (argc != 2 || !agent_start(&agent, argv[1], false)) {
        printf("Bail out! the agent does not start\n");
        return 1;
    }
    return check_run(tests, countof(tests));
}
