/* watch_fixture.h - the real agent with a client on loopback, and real directories to watch.
 *
 * Events are compared as text, one a line: "create a", "write a". A directory that the test makes
 * last, `end`, tells when all before it has arrived: no test waits for a while. */
#ifndef TESTS_UNIT_WATCH_FIXTURE_H
#define TESTS_UNIT_WATCH_FIXTURE_H

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "agent_fixture.h"
#include "check.h"
#include "lib/base/buf.h"

enum { LOG_MAX = 64 * 1024 * 1024 };

extern struct agent_child agent;

/* main(): starts the agent whose path is argv[1], runs the tests, the last of which stops it. */
int watch_main(int argc, char **argv, const struct check_test *tests, size_t n);

/* The disk. Names are below `dir`; a failure aborts. */
void path_in(const struct tmpdir *dir, const char *name, char out[PATH_MAX]);
void make_dir(const struct tmpdir *dir, const char *name);
void make_file(const struct tmpdir *dir, const char *name, const char *text);
void move(const struct tmpdir *from, const char *old, const struct tmpdir *to, const char *new);
void drop(const struct tmpdir *dir, const char *name, int flags);

/* Whether a line is in the log, and how often. */
bool log_has(const struct buf *log, const char *line);
size_t log_count(const struct buf *log, const char *line);
const char *log_text(struct buf *log); /* all of it, which is then forgotten */

/* A call of the agent's Filesystem service, and POST /files as the SDKs do it. */
int ask(const char *method, const char *body, json_t **out);
int upload(const struct tmpdir *dir, const char *name, const char *text);

/* A stream of events. */
struct feed {
    struct client client;
    struct buf log;
    bool started;
    bool ended;
    unsigned keepalives;
    char code[64]; /* of the error it ended with */
    char message[512];
};

void feed_close(struct feed *feed);
#define scoped_feed(name) scoped(feed_close) struct feed name = {.client = {.fd = -1}}

bool feed_open(struct feed *feed, const char *path, const char *more, const char *headers);
bool feed_step(struct feed *feed);                    /* takes one message; false after the last */
bool feed_until(struct feed *feed, const char *line); /* reads on until the event has come */
void feed_rest(struct feed *feed);

/* Makes and removes `end` and reads on until both are told; the text of all before. */
bool feed_sync(struct feed *feed, const struct tmpdir *dir);
const char *feed_text(struct feed *feed, const struct tmpdir *dir);

/* Polling. poller_get() appends the events; the HTTP status, and the error's code in *code. */
bool poller_open(const char *path, const char *more, char id[64]);
int poller_get(const char *id, struct buf *log, char code[64]);
int poller_remove(const char *id);

#endif
