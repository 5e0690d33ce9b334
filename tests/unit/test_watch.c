/* Watches on the real agent: events, ends and limits. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuse_fixture.h"
#include "inside/agent/watch.h"
#include "inside/agent/watchers.h"
#include "watch_fixture.h"

enum {
    THOUSAND = 1000,
    STORM_EVENTS = 40000,  /* more than the kernel queues */
    QUEUED_EVENTS = 14000, /* less */
    NAME_LONG = 200,
};

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

static int truncateat(const struct tmpdir *dir, const char *name)
{
    int fd = openat(dir->fd, name, O_WRONLY | O_TRUNC | O_CLOEXEC);

    return fd < 0 ? -errno : close(fd);
}

/* A single read of the kernel's queue may be more than a watch keeps. */
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

    return watch_main(argc, argv, tests, countof(tests));
}
