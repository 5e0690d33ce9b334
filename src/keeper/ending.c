#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "keeper/internal.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"

void ending_free(struct handler *handler, struct ending *ending)
{
    DL_DELETE(handler->endings, ending);
    handler->endings_n--;
    fd_closep(&ending->events_fd);
    free(ending->retry);
    free(ending);
}

struct ending *ending_of(const struct handler *handler, const char *id)
{
    struct ending *ending;

    DL_FOREACH (handler->endings, ending) {
        if (strcmp(ending->id, id) == 0) {
            return ending;
        }
    }
    return NULL;
}

static void ending_kill(struct handler *handler, const struct ending *ending)
{
    struct err err;

    if (ending->parts & JAIL_GROUPS && jail_kill(handler->shared, ending->id, &err) < 0) {
        log_warn("kill jail %s: %s", ending->id, err.msg);
    }
}

/* Only a change after this read is reported as an event: read first, then check everything else. */
static bool has_processes(const struct ending *ending)
{
    char text[64];
    ssize_t n = pread(ending->events_fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return cgroup_stat_value(text, "populated") == 1;
}

/* Returns true when the jail is gone, or was given up. */
static bool ending_step(struct handler *handler, struct ending *ending)
{
    struct err err = {0};
    int r = has_processes(ending) || request_task_of(handler, ending->id) ||
                    starting_has(&handler->startings, ending->id) ||
                    workers_have(handler->workers, ending->id, KEEPER_CREATE)
                ? -EBUSY
                : jail_remove(handler->shared, ending->id, ending->parts, &err);

    if (r == -EBUSY && clock_mono_ms() < ending->deadline_ms) {
        ending_kill(handler, ending); /* repeated: a restore may have added processes since */
        int next_us = ending->retry_us * 2;
        ending->retry_us = next_us < HANDLE_RETRY_US_MAX ? next_us : HANDLE_RETRY_US_MAX;
        ending->look_us = clock_mono_us() + ending->retry_us;
        return false;
    }
    if (r < 0) {
        if (r == -EBUSY && err.code == 0) {
            (void)err_set(&err, EBUSY, "processes of jail %s do not end", ending->id);
        }
        log_warn("end jail %s: %s", ending->id, err.msg);
        if (ending->answer.status == 0) {
            ending->answer.status = r;
            ending->answer.err = err;
        }
    }
    if (ending->retry && r == 0) {
        restore_retry(handler, ending->client, ending->retry, ending->retry_tcp_close);
    } else {
        handler_answer_plain(handler, ending->client, &ending->answer);
    }
    return true;
}

void ending_begin_with_retry(struct handler *handler, uint64_t client, const char *id,
                             unsigned parts, const struct keeper_answer *answer,
                             const struct keeper_request *retry, bool retry_tcp_close)
{
    struct ending *ending = xnew(struct ending);

    if (retry) {
        ending->retry = xnew(struct keeper_request);
        *ending->retry = *retry;
        ending->retry_tcp_close = retry_tcp_close;
    }
    memcpy(ending->id, id, strnlen(id, KEEPER_ID_BYTES - 1));
    ending->parts = parts;
    ending->client = client;
    ending->retry_us = HANDLE_RETRY_US_MIN / 2;
    ending->answer = *answer;
    ending->deadline_ms = clock_mono_ms() + HANDLE_END_TIMEOUT_MS;
    ending->events_fd = cgroups_events(handler->shared->groups, id);
    DL_APPEND(handler->endings, ending);
    handler->endings_n++;
    if (ending_step(handler, ending)) {
        ending_free(handler, ending);
    }
}

void ending_begin(struct handler *handler, uint64_t client, const char *id, unsigned parts,
                  const struct keeper_answer *answer)
{
    ending_begin_with_retry(handler, client, id, parts, answer, NULL, false);
}

void remove_and_answer(struct handler *handler, uint64_t client, const char *id, unsigned made,
                       const struct keeper_answer *answer)
{
    if (made) {
        ending_begin(handler, client, id, made, answer);
    } else {
        handler_answer_plain(handler, client, answer);
    }
}

void endings_step(struct handler *handler, const struct pollfd *polled, size_t n)
{
    struct ending *ending, *next;
    int64_t now_us = clock_mono_us();
    size_t i = 0;

    DL_FOREACH_SAFE (handler->endings, ending, next) {
        bool due = i == n || polled[i++].revents || now_us >= ending->look_us;
        if (due && ending_step(handler, ending)) {
            ending_free(handler, ending);
        }
    }
}
