/* files_compose.c - POST /files/compose: files of the sandbox put together into one.
 *
 * The parts are copied into a file beside the destination, which then takes its place; only then
 * are they removed. The thread pool copies step by step, so that a long copy leaves its threads to
 * others, and one whose client has left is given up.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>

#include "inside/agent/atomic_file.h"
#include "inside/agent/files.h"
#include "inside/agent/users.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"

enum {
    BODY_BYTES_MAX = 4 * 1024 * 1024,
    STEP_BYTES = 64 * 1024 * 1024,
    COPY_BYTES = 256 * 1024, /* at a time, where the kernel cannot copy by itself */
    REPLY_BYTES_MAX = 64 * 1024,
};

enum compose_state { COMPOSE_CHECK, COMPOSE_COPY, COMPOSE_DONE };

struct compose {
    const struct agent *agent; /* the loop's */
    struct http_exchange *ex;  /* the loop's; NULL: the client has left */

    uv_work_t work; /* the pool's while it is queued, with all below */
    enum compose_state state;
    struct user user;
    char *workdir;
    json_t *request;
    char destination[AGENT_PATH_BYTES];
    struct atomic_file file;
    bool is_open;    /* `file` is */
    size_t source_i; /* the one being copied */
    int source_fd;   /* -1: to be opened */
    struct buf reply;
    int status; /* 0: all is well so far */
    struct err err;
};

static void compose_free(struct compose *c)
{
    fd_closep(&c->source_fd);
    json_decref(c->request);
    buf_fini(&c->reply);
    free(c->workdir);
    free(c);
}

/* ---- in the pool ---- */

static void fail(struct compose *c, int r)
{
    if (r == -ENOSPC || r == -EDQUOT) {
        (void)err_set(&c->err, ENOSPC, "not enough disk space available");
    }
    c->status = files_status(-r);
}

static const char *source_name(const struct compose *c, size_t i)
{
    return json_string_value(json_array_get(json_object_get(c->request, "source_paths"), i));
}

static size_t sources_n(const struct compose *c)
{
    return json_array_size(json_object_get(c->request, "source_paths"));
}

static int source_path(struct compose *c, size_t i, char out[AGENT_PATH_BYTES])
{
    int r = path_resolve(c->workdir, &c->user, str_of(source_name(c, i)), out, &c->err);

    return r < 0 ? err_wrap(&c->err, "error resolving source path") : 0;
}

/* A part that is the destination itself, under any name, would be removed at the end. */
static int source_check(struct compose *c, size_t i, const struct stat *destination)
{
    const char *name = source_name(c, i);
    char path[AGENT_PATH_BYTES];
    struct stat st;
    int r = source_path(c, i, path);

    if (r < 0) {
        return r;
    }
    if (stat(path, &st) < 0) {
        return err_set(&c->err, ENOENT, "source file not found: %.200s", name);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(&c->err, EINVAL, "source path is not a regular file: %.200s", name);
    }
    if (strcmp(path, c->destination) == 0 ||
        (destination && st.st_dev == destination->st_dev && st.st_ino == destination->st_ino)) {
        return err_set(&c->err, EINVAL, "source path '%.160s' cannot be the same as destination",
                       name);
    }
    return 0;
}

static int check(struct compose *c)
{
    struct fs_owner owner = {c->user.uid, c->user.gid};
    const char *name = json_string_value(json_object_get(c->request, "destination"));
    struct stat st;
    int r = path_resolve(c->workdir, &c->user, str_of(name), c->destination, &c->err);

    if (r < 0) {
        return err_wrap(&c->err, "error resolving destination path");
    }
    bool exists = stat(c->destination, &st) == 0;
    for (size_t i = 0; r == 0 && i < sources_n(c); i++) {
        r = source_check(c, i, exists ? &st : NULL);
    }
    if (r == 0) {
        c->is_open = true;
        r = atomic_file_open(&c->file, c->destination, owner, &c->err);
    }
    return r;
}

static int source_open(struct compose *c)
{
    char path[AGENT_PATH_BYTES];
    int r = source_path(c, c->source_i, path);

    if (r < 0) {
        return r;
    }
    c->source_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return c->source_fd < 0 ? err_sys(&c->err, "error opening source file %.160s", path) : 0;
}

/* By hand, where the two are on file systems that do not copy between each other. */
static ssize_t copy_by_hand(struct compose *c)
{
    char *bytes = xcalloc(1, COPY_BYTES);
    ssize_t n = read(c->source_fd, bytes, COPY_BYTES);

    if (n < 0) {
        n = err_sys(&c->err, "error composing source %.160s", source_name(c, c->source_i));
    } else if (n > 0) {
        int r = atomic_file_write(&c->file, bytes, (size_t)n, &c->err);
        n = r < 0 ? r : n;
    }
    free(bytes);
    return n;
}

/* Some of the source: how much, 0 at its end, or -errno. */
static ssize_t copy_some(struct compose *c)
{
    ssize_t n = copy_file_range(c->source_fd, NULL, c->file.fd, NULL, STEP_BYTES, 0);

    if (n > 0) {
        return n;
    }
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO)) {
        return err_sys(&c->err, "error composing source %.160s", source_name(c, c->source_i));
    }
    return copy_by_hand(c); /* also for files that claim to be empty, as those of /proc do */
}

/* 1: there is more to do. */
static int copy_step(struct compose *c)
{
    for (int64_t left = STEP_BYTES; left > 0;) {
        if (c->source_fd < 0) {
            int r = c->source_i == sources_n(c) ? 0 : source_open(c);
            if (r < 0 || c->source_fd < 0) {
                return r;
            }
        }
        ssize_t n = copy_some(c);
        if (n < 0) {
            return (int)n;
        }
        if (n == 0) {
            fd_closep(&c->source_fd);
            c->source_i++;
        }
        left -= n;
    }
    return 1;
}

/* A part that cannot be removed is no error: the file is complete. */
static void sources_remove(struct compose *c)
{
    char path[AGENT_PATH_BYTES];

    for (size_t i = 0; i < sources_n(c); i++) {
        if (source_path(c, i, path) == 0) {
            (void)unlink(path);
        }
    }
}

static int reply_write(struct compose *c)
{
    scoped_arena arena = ARENA(REPLY_BYTES_MAX);
    const char *path = entry_text(&arena, str_of(c->destination));
    json_t *entry = path ? json_pack("{s:s, s:s, s:s}", "name", strrchr(path, '/') + 1, "path",
                                     path, "type", "file")
                         : NULL;
    char *text = entry ? json_dumps(entry, JSON_COMPACT) : NULL;
    int r = text ? buf_append(&c->reply, text, strlen(text)) : -ENOMEM;

    free(text);
    json_decref(entry);
    return r < 0 ? err_set(&c->err, -r, "the file is written, but the answer is too long") : 0;
}

static int finish(struct compose *c)
{
    struct metadata none = {.len = 0};
    int r = atomic_file_close(&c->file, &none, &c->err);

    if (r == 0) {
        r = atomic_file_commit(&c->file, &c->err);
    }
    if (r == 0) {
        sources_remove(c);
        r = reply_write(c);
    }
    return r;
}

static void step_run(uv_work_t *work)
{
    struct compose *c = container_of(work, struct compose, work);
    int r = 0;

    if (c->state == COMPOSE_CHECK) {
        r = check(c);
        c->state = COMPOSE_COPY;
    } else if (c->state == COMPOSE_COPY) {
        r = copy_step(c);
        if (r == 0) {
            r = finish(c);
            c->state = COMPOSE_DONE;
        }
    }
    if (r < 0) {
        fail(c, r);
        c->state = COMPOSE_DONE;
    }
    if (c->state == COMPOSE_DONE && c->is_open) {
        atomic_file_fini(&c->file); /* here, where removing a file may block */
        c->is_open = false;
    }
}

/* ---- on the loop ---- */

static void step_done(uv_work_t *work, int status);

static void step_start(struct compose *c)
{
    if (uv_queue_work(c->agent->loop, &c->work, step_run, step_done) < 0) {
        abort(); /* only without a callback */
    }
}

static void step_done(uv_work_t *work, int status)
{
    struct compose *c = container_of(work, struct compose, work);

    assert(status == 0); /* nobody cancels */
    if (c->state != COMPOSE_DONE) {
        if (!c->ex) {
            c->state = COMPOSE_DONE; /* one more step, which cleans up */
        }
        step_start(c);
        return;
    }
    if (c->ex && c->status != 0) {
        files_fail(c->ex, c->status, c->err.msg);
    } else if (c->ex) {
        http_reply(c->ex, 200, "application/json", buf_at(&c->reply), buf_len(&c->reply));
    }
    compose_free(c);
}

/* ---- the request ---- */

static bool is_text(const json_t *value)
{
    return json_is_string(value) && json_string_length(value) > 0;
}

/* The status to refuse with, or 0. */
static int request_check(const json_t *request, struct err *err)
{
    const json_t *sources = json_object_get(request, "source_paths");
    const json_t *username = json_object_get(request, "username");
    const json_t *source;
    size_t i;

    if (!json_is_object(request)) {
        (void)err_set(err, EINVAL, "invalid request body: it is not a JSON object");
    } else if (!json_is_array(sources) || json_array_size(sources) == 0) {
        (void)err_set(err, EINVAL, "source_paths must not be empty");
    } else if (!is_text(json_object_get(request, "destination"))) {
        (void)err_set(err, EINVAL, "destination is required");
    } else if (username && !json_is_null(username) && !json_is_string(username)) {
        (void)err_set(err, EINVAL, "username is not a text");
    } else {
        json_array_foreach (sources, i, source) {
            if (!is_text(source)) {
                (void)err_set(err, EINVAL, "source_paths has something that is not a path");
                return 400;
            }
        }
        return 0;
    }
    return 400;
}

static void on_gone(void *ctx)
{
    struct compose *c = ctx;

    c->ex = NULL;
}

static void on_request_body(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    struct compose *c = ctx;
    int status = 0;

    if (error == -EMSGSIZE) {
        (void)err_set(&c->err, EMSGSIZE, "the request is longer than %d bytes", BODY_BYTES_MAX);
        status = 413;
    } else if (error < 0) {
        compose_free(c);
        return;
    }
    if (status == 0) {
        c->request = json_loadb(body.at ? body.at : "", body.len, 0, NULL);
        status = request_check(c->request, &c->err);
    }
    if (status == 0) {
        struct str username = str_of(json_string_value(json_object_get(c->request, "username")));
        status = files_user(c->agent, username, &c->user, &c->err);
    }
    if (status != 0) {
        files_fail(ex, status, c->err.msg);
        compose_free(c);
        return;
    }
    c->ex = ex;
    step_start(c);
}

void files_compose(struct agent *agent, struct http_exchange *ex)
{
    struct compose *c = xnew(struct compose);

    c->source_fd = -1;
    c->agent = agent;
    c->workdir = xstrdup(agent->default_workdir);
    buf_init(&c->reply, REPLY_BYTES_MAX);
    http_gather(ex, BODY_BYTES_MAX, on_request_body, on_gone, c);
}
