/* proc_routes.c - GET /processes, POST /processes/{pid}/signal and GET /ports: for people who look
 * into a sandbox. The process service of the SDKs knows only the processes that it started. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "inside/agent/files.h"
#include "inside/agent/internal.h"
#include "inside/agent/proc_list.h"
#include "inside/agent/process.h"
#include "lib/base/alloc.h"
#include "lib/http/status.h"

enum {
    SIGNAL_BODY_BYTES_MAX = 4096,
    SIGNAL_NAME_BYTES = 32,
    LOOKS_MAX = 8, /* at one time: each needs a thread of the pool, which file calls need too */
};

struct look {
    struct http_exchange *ex; /* the loop's; NULL: the client has left */
    size_t *under_way;
    uv_work_t work; /* the pool's while it is queued, with all below */
    bool ports;
    struct proc_tag *tags;
    size_t tags_n;
    char *answer;
};

/* ---- lists ---- */

static void look_run(uv_work_t *work)
{
    struct look *look = container_of(work, struct look, work);
    json_t *answer = look->ports ? proc_ports() : proc_processes(look->tags, look->tags_n);

    look->answer = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    json_decref(answer);
}

static void look_done(uv_work_t *work, int status)
{
    struct look *look = container_of(work, struct look, work);
    struct http_header no_store = {STR("cache-control"), STR("no-store")};

    assert(status == 0); /* nobody cancels */
    (*look->under_way)--;
    if (look->ex && look->answer) {
        http_reply_with(look->ex, 200, &no_store, 1, "application/json", look->answer,
                        strlen(look->answer));
    } else if (look->ex) {
        files_fail(look->ex, 500, "there is not enough memory for the list");
    }
    free(look->answer);
    free(look->tags);
    free(look);
}

static void tags_take(const struct processes *table, struct look *look)
{
    struct process *p, *next;

    look->tags = xcalloc(HASH_COUNT(table->running) + 1, sizeof(struct proc_tag));
    HASH_ITER (hh, table->running, p, next) {
        struct proc_tag *tag = &look->tags[look->tags_n++];
        tag->pid = p->pid;
        (void)snprintf(tag->tag, sizeof(tag->tag), "%s", p->tag ? p->tag : "");
    }
}

static void on_look_body(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    struct look *look = ctx;
    struct agent *agent = container_of(look->under_way, struct agent, looks);

    (void)body;
    if (error < 0 && error != -EMSGSIZE) {
        free(look);
        return;
    }
    if (agent->looks >= LOOKS_MAX) {
        files_fail(ex, 429, "several such lists are being made already; try again");
        free(look);
        return;
    }
    agent->looks++;
    if (!look->ports) {
        tags_take(agent->processes, look);
    }
    if (uv_queue_work(agent->loop, &look->work, look_run, look_done) < 0) {
        abort(); /* only without a callback */
    }
}

static void on_look_gone(void *ctx)
{
    struct look *look = ctx;

    look->ex = NULL;
}

static void look_start(struct agent *agent, struct http_exchange *ex, bool ports)
{
    struct look *look = xnew(struct look);

    *look = (struct look){.ex = ex, .under_way = &agent->looks, .ports = ports};
    http_gather(ex, SIGNAL_BODY_BYTES_MAX, on_look_body, on_look_gone, look);
}

static void processes_list(struct agent *agent, struct http_exchange *ex, struct str rest)
{
    (void)rest;
    look_start(agent, ex, false);
}

static void ports_list(struct agent *agent, struct http_exchange *ex, struct str rest)
{
    (void)rest;
    look_start(agent, ex, true);
}

/* ---- signals ---- */

/* "SIGTERM" or "TERM"; 0: there is no such name. */
static int signal_named(const char *name)
{
    const char *plain = strncmp(name, "SIG", 3) == 0 ? name + 3 : name;

    for (int number = 1; number < SIGRTMIN; number++) {
        const char *known = sigabbrev_np(number);
        if (known && strcmp(known, plain) == 0) {
            return number;
        }
    }
    return 0;
}

static int signal_read(struct str body, int *out, struct err *err)
{
    json_error_t why;
    json_auto_t *json = json_loadb(body.len ? body.at : "", body.len, 0, &why);
    const json_t *value = json_object_get(json, "signal");
    json_int_t number =
        json_is_string(value) ? signal_named(json_string_value(value)) : json_integer_value(value);

    if (number < 1 || number > SIGRTMAX) {
        return err_set(err, EINVAL,
                       "the body must be {\"signal\": ...} with a name such as \"SIGTERM\" or a "
                       "number from 1 to %d",
                       SIGRTMAX);
    }
    *out = (int)number;
    return 0;
}

struct order {
    pid_t pid;
};

static void on_signal_body(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    struct order *order = ctx;
    struct err err;
    int number = 0, r;

    if (error == -EMSGSIZE) {
        files_fail(ex, 413, "the body is too long");
    } else if (error == 0) {
        r = signal_read(body, &number, &err);
        r = r < 0 ? r : proc_signal(order->pid, number, &err);
        if (r == 0) {
            http_reply(ex, 204, NULL, NULL, 0);
        } else {
            files_fail(ex, status_of_errno(STATUS_SIGNAL, r), err.msg);
        }
    }
    free(order);
}

static void signal_send(struct agent *agent, struct http_exchange *ex, struct str rest)
{
    struct order *order = xnew(struct order);
    char digits[12], *end;

    (void)agent;
    if (!str_copy(digits, sizeof(digits), rest)) {
        digits[0] = '\0';
    }
    unsigned long pid = strtoul(digits, &end, 10);
    bool valid = digits[0] >= '1' && digits[0] <= '9' && !*end && pid < INT32_MAX;
    order->pid = valid ? (pid_t)pid : 0;
    http_gather(ex, SIGNAL_BODY_BYTES_MAX, on_signal_body, NULL, order);
}

/* ---- routes ---- */

static const struct {
    const char *before, *after; /* the pid stands between them */
    const char *method;
    void (*run)(struct agent *agent, struct http_exchange *ex, struct str rest);
} routes[] = {
    {"/processes", "", "GET", processes_list},
    {"/ports", "", "GET", ports_list},
    {"/processes/", "/signal", "POST", signal_send},
};

/* Finds the text between both parts of the pattern. */
static bool path_match(struct str path, size_t i, struct str *between)
{
    struct str before = str_of(routes[i].before), after = str_of(routes[i].after);

    if (!str_starts(path, before) || path.len < before.len + after.len ||
        !str_eq(str_skip(path, path.len - after.len), after)) {
        return false;
    }
    *between = (struct str){path.at + before.len, path.len - before.len - after.len};
    return after.len > 0 ? memchr(between->at, '/', between->len) == NULL : between->len == 0;
}

bool proc_handle(struct agent *agent, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    struct str between;

    for (size_t i = 0; i < countof(routes); i++) {
        if (!path_match(req->path, i, &between)) {
            continue;
        }
        if (str_eq(req->method, str_of(routes[i].method))) {
            routes[i].run(agent, ex, between);
        } else {
            files_refuse(ex, 405, "this path knows another method");
        }
        return true;
    }
    return false;
}
