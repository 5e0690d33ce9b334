/* files_fixture.h - /files and filesystem.Filesystem behind a real connection: the server runs on a
 * thread of its own, the test is a plain client.
 */
#ifndef TESTS_FILES_FIXTURE_H
#define TESTS_FILES_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "inside/agent/internal.h"
#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "tmpdir.h"

enum {
    BODY_MAX = 64 * 1024 * 1024,
    BIG_BYTES = 9 * 1000 * 1000 + 7, /* many chunks, and not a whole number of them */
};

extern struct agent files_agent;
extern atomic_int files_requests; /* that came */

void server_start(void);
void server_stop(void);

struct reply {
    int status; /* 0: there was no answer */
    char head[4096];
    struct buf body;
};

void reply_fini(struct reply *reply);
#define scoped_reply scoped(reply_fini) struct reply

#define OCTETS "Content-Type: application/octet-stream\r\n"

/* One request on a connection of its own. `head` is everything between the method and the framing,
 * as "/files?path=x HTTP/1.1\r\nName: value\r\n". */
void ask(struct reply *out, const char *method, const char *head, const void *body, size_t len);

/* Its steps, for a request that is cut short. send_all() is false when the server has closed: it
 * may answer, and leave the rest of a body alone. */
int client_connect(void);
bool send_all(int fd, const void *data, size_t len);
void receive_all(int fd, struct buf *in);
void reply_parse(struct buf *in, struct reply *out);

/* Each is good until the next call: the body as text; "/files?path=<dir>/<name> HTTP/1.1", then
 * the fields of `more`. */
const char *body_of(const struct reply *reply);
const char *at(const struct tmpdir *dir, const char *name, const char *more);

bool file_is(const struct tmpdir *dir, const char *name, const void *data, size_t len);
void put(const struct tmpdir *dir, const char *name, const char *text, mode_t mode);
int names_count(const struct tmpdir *dir);

/* Bytes that do not repeat soon: a lost or doubled chunk shows. */
char *noise(size_t len);

#endif
