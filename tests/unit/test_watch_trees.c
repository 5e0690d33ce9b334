/* Watches on the real agent: whole trees, while their directories come, move and go. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watch_fixture.h"

enum {
    RACE_TREES = 300,
    RACE_LEVELS = 4,
    HALTS = 500,
    HALT_US_MAX = 250,
    LEAVE_ROUNDS = 100,
    LEAVE_DIRS = 50,
};

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

static void agent_is_still_there(void)
{
    CHECK(agent_stop(&agent));
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a tree is followed", a_tree_is_followed},
        {"a tree is followed only when asked", a_tree_that_is_not_wanted_is_not_followed},
        {"directories may move in, about and out", directories_may_move},
        {"files of new trees are told once", new_trees_are_told_once},
        {"files of renamed trees are told once", renamed_trees_are_told_once},
        {"a rename during a scan is followed", a_rename_during_a_scan_is_followed},
        {"names taken again during a scan are followed", names_taken_again_are_followed},
        {"the agent has survived", agent_is_still_there},
    };

    return watch_main(argc, argv, tests, countof(tests));
}
