#include "serve/daemon/template_preparer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/log.h"
#include "lib/base/str.h"
#include "serve/daemon/builtin.h"
#include "serve/daemon/layer.h"
#include "serve/daemon/stop.h"
#include "serve/daemon/warm.h"

enum {
    PAUSE_FIRST_S = 30,
    PAUSE_MAX_S = 15 * 60,
    SENTENCE_BYTES = 512,
    SAID_BYTES = 128,
};

struct progress {
    const struct paths *paths;
    const char *name;
    char said[SAID_BYTES]; /* the last line: why it failed, when it did */
};

/* The output of a recipe goes to the operator unchanged, and to clients in a sentence. */
static void on_line(void *ctx, const char *line)
{
    struct progress *progress = ctx;
    char sentence[SENTENCE_BYTES];
    struct str text = str_trim(str_of(line));

    (void)fprintf(stderr, "[%s] %s\n", progress->name, line);
    (void)snprintf(progress->said, sizeof(progress->said), "%.*s", (int)text.len, text.at);
    (void)snprintf(sentence, sizeof(sentence),
                   "the template %s is being made (%s); try again in a moment", progress->name,
                   progress->said);
    notice_awaited(progress->paths, progress->name, sentence);
}

static void tell_failure(const struct progress *progress, const struct err *err)
{
    char sentence[SENTENCE_BYTES];

    (void)snprintf(sentence, sizeof(sentence),
                   "the template %s could not be made: %s; it will be tried again", progress->name,
                   progress->said[0] ? progress->said : err->msg);
    log_error("%s", err->msg);
    notice_awaited(progress->paths, progress->name, sentence);
}

static int prepare_one(const struct config *config, const struct paths *paths, const char *name)
{
    struct progress progress = {.paths = paths, .name = name};
    const struct run_lines lines = {.line = on_line, .ctx = &progress};
    struct err err;

    bool was_ready = layer_look(config, paths, name) == LAYER_READY;
    if (!was_ready) {
        on_line(&progress, "begins");
        progress.said[0] = '\0';
    }
    int r = layer_prepare(config, paths, name, &lines, &err);
    if (r == -EINTR) {
        return r;
    }
    if (r < 0) {
        tell_failure(&progress, &err);
    } else if (!was_ready) {
        (void)fprintf(stderr, "The template %s is ready\n", name);
    }
    return r;
}

/* The next name of the list; false at its end. */
static bool name_next(struct str *rest, char name[BUILTIN_NAME_BYTES])
{
    struct str part;

    while (str_split(rest, ',', &part)) {
        part = str_trim(part);
        if (part.len == 0 || str_eq(part, STR("none"))) {
            continue;
        }
        if (str_copy(name, BUILTIN_NAME_BYTES, part)) {
            return true;
        }
        log_error("with_templates: '%.*s' is not the name of a template", (int)part.len, part.at);
    }
    return false;
}

void template_preparer_announce(const struct config *config, const struct paths *paths)
{
    struct str rest = str_of(config->with_templates);
    char name[BUILTIN_NAME_BYTES], sentence[SENTENCE_BYTES];

    while (name_next(&rest, name)) {
        if (layer_look(config, paths, name) != LAYER_READY) {
            (void)snprintf(sentence, sizeof(sentence),
                           "the template %s is made after others; try again in a moment", name);
            notice_awaited(paths, name, sentence);
        }
    }
}

int template_preparer_once(const struct config *config, const struct paths *paths)
{
    struct str rest = str_of(config->with_templates);
    char name[BUILTIN_NAME_BYTES];
    int r = 0;

    warm_base(paths);
    while (r != -EINTR && name_next(&rest, name)) {
        int one = prepare_one(config, paths, name);
        r = one < 0 ? one : r;
    }
    return r;
}

int template_preparer_run(const struct config *config, const struct paths *paths)
{
    struct timespec pause = {.tv_sec = PAUSE_FIRST_S};
    sigset_t signals;
    int r;

    stop_block(&signals);
    (void)sigdelset(&signals, SIGCHLD);
    while ((r = template_preparer_once(config, paths)) < 0) {
        if (r == -EINTR || sigtimedwait(&signals, NULL, &pause) > 0) {
            return 0;
        }
        pause.tv_sec = 2 * pause.tv_sec < PAUSE_MAX_S ? 2 * pause.tv_sec : PAUSE_MAX_S;
    }
    return 0;
}
