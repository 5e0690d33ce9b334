#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/template.h"
#include "cli/terminal.h"

enum { POLL_MS = 250, LOGS_A_CALL = 100 };

static volatile sig_atomic_t interrupted;

static void on_signal(int signum)
{
    (void)signum;
    interrupted = 1;
}

void follow_begin(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    interrupted = 0;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

bool follow_interrupted(void)
{
    return interrupted;
}

/* ---- lines ---- */

/* On a terminal errors are red, warnings yellow, and cached steps dim. */
static void entry_show(const json_t *entry, enum build_show show)
{
    const char *message = json_text_of(entry, "message"), *level = json_text_of(entry, "level");
    bool bad = strcmp(level, "error") == 0, odd = strcmp(level, "warn") == 0;
    bool cached = strncmp(message, "CACHED", 6) == 0;
    enum paint paint = bad ? PAINT_RED : odd ? PAINT_YELLOW : cached ? PAINT_DIM : PAINT_NONE;

    if (show == BUILD_SHOW_JSON) {
        char *text = json_dumps(entry, JSON_COMPACT);
        printf("%s\n", text ? text : "null");
        free(text);
    } else if (show == BUILD_SHOW_TEXT) {
        printf("%s%s%s\n", terminal_paint(stdout, paint), message,
               paint ? terminal_plain(stdout) : "");
    }
}

static size_t entries_show(const json_t *status, enum build_show show)
{
    const json_t *entries = json_object_get(status, "logEntries"), *entry;
    size_t i;

    json_array_foreach (entries, i, entry) {
        entry_show(entry, show);
    }
    (void)fflush(stdout);
    return json_array_size(entries);
}

/* ---- until it ends ---- */

static int status_get(const struct endpoint *endpoint, const struct build_place *place,
                      size_t offset, json_t **status, struct err *err)
{
    char path[TEMPLATE_PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/templates/%s/builds/%s/status?logsOffset=%zu&limit=%d",
                   place->template_id, place->build_id, offset, LOGS_A_CALL);
    return endpoint_call(endpoint, "GET", path, NULL, status, err);
}

static bool has_ended(const json_t *status)
{
    const char *word = json_string_of(status, "status");

    return word && (strcmp(word, "ready") == 0 || strcmp(word, "error") == 0);
}

static int outcome(const json_t *status, struct err *err)
{
    const char *word = json_string_of(status, "status");
    const json_t *reason = json_object_get(status, "reason");
    const char *message = json_string_of(reason, "message");
    const char *step = json_string_of(reason, "step");

    if (!word || strcmp(word, "error") != 0) {
        return 0;
    }
    return err_set(err, EPROTO, "the build failed%s%s: %s", step ? " in step " : "",
                   step ? step : "", message ? message : "no reason was given");
}

static void wait_a_moment(void)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};

    (void)nanosleep(&pause, NULL);
}

int build_follow(const struct endpoint *endpoint, const struct build_place *place,
                 enum build_show show, bool wait, struct err *err)
{
    size_t offset = 0;

    for (;;) {
        json_t *status = NULL;
        int r = status_get(endpoint, place, offset, &status, err);
        if (r < 0) {
            return r;
        }
        size_t n = entries_show(status, show);
        bool over = n == 0 && (has_ended(status) || !wait);
        offset += n;
        r = over && wait ? outcome(status, err) : 0;
        json_decref(status);
        if (over) {
            return r;
        }
        if (follow_interrupted()) {
            return err_set(err, EINTR, "interrupted");
        }
        if (n == 0) {
            wait_a_moment();
        }
    }
}
