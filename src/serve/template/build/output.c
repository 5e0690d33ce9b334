/* output.c - the log of a build: our own lines, and what commands write. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "serve/template/build/internal.h"

/* Text that is no UTF-8 is shown as far as it is ASCII. */
static json_t *text_json(const char *text, size_t len)
{
    json_t *json = json_stringn(text, len);
    char clean[BUILD_LINE_BYTES_MAX + 1];

    if (json) {
        return json;
    }
    len = len < sizeof(clean) - 1 ? len : sizeof(clean) - 1;
    for (size_t i = 0; i < len; i++) {
        bool plain = (unsigned char)text[i] < 0x80 && text[i] != '\0';
        if (plain) {
            clean[i] = text[i];
        } else {
            clean[i] = '?';
        }
    }
    return json_stringn(clean, len);
}

static void log_add(struct build *build, enum log_level level, const char *step, const char *text,
                    size_t len)
{
    char stamp[CLOCK_STAMP_BYTES];
    json_t *entry = json_object();

    clock_stamp(clock_wall_ms(), stamp);
    (void)json_object_set_new(entry, "timestamp", json_string(stamp));
    (void)json_object_set_new(entry, "level", json_string(log_level_name(level)));
    (void)json_object_set_new(entry, "message", text_json(text, len));
    if (step) {
        (void)json_object_set_new(entry, "step", json_string(step));
    }
    char *json = json_dumps(entry, JSON_COMPACT);
    json_decref(entry);
    if (!json) {
        abort(); /* made of values that were checked */
    }
    store_build_log_save(build->all->use.store,
                         &(struct build_log_row){build->id, (int32_t)level, json}, NULL, NULL);
    free(json);
}

static void printf_like(4, 0)
    vsay(struct build *build, enum log_level level, const char *step, const char *fmt, va_list ap)
{
    char text[BUILD_LINE_BYTES_MAX];

    (void)vsnprintf(text, sizeof(text), fmt, ap);
    log_add(build, level, step, text, strlen(text));
}

void build_say(struct build *build, enum log_level level, const char *step, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsay(build, level, step, fmt, ap);
    va_end(ap);
}

void work_step_name(const struct work *work, char out[24])
{
    if (work->phase) {
        (void)snprintf(out, 24, "%s", work->phase);
    } else {
        (void)snprintf(out, 24, "%zu", work->step + 1);
    }
}

void work_say(struct work *work, enum log_level level, const char *fmt, ...)
{
    char step[24];
    va_list ap;

    if (!work->build) {
        return;
    }
    work_step_name(work, step);
    va_start(ap, fmt);
    vsay(work->build, level, step, fmt, ap);
    va_end(ap);
}

/* ---- output of commands ---- */

void output_begin(struct work *work, const char *prefix)
{
    (void)snprintf(work->prefix, sizeof(work->prefix), "%s", prefix);
    work->output_bytes = 0;
    work->output_cut = false;
    buf_clear(&work->out.part);
    buf_clear(&work->errout.part);
    work->out.cut = work->errout.cut = false;
}

static void line_say(struct work *work, bool is_stderr, struct str line)
{
    /* A progress bar is what it last showed. */
    for (size_t at; (at = str_find(line, '\r')) + 1 < line.len;) {
        line = str_skip(line, at + 1);
    }
    if (line.len > 0 && line.at[line.len - 1] == '\r') {
        line.len--;
    }
    work_say(work, LOG_INFO, "[%s] [%s]: %.*s", work->prefix, is_stderr ? "stderr" : "stdout",
             (int)line.len, line.at);
}

static void line_flush(struct work *work, bool is_stderr)
{
    struct lines *lines = is_stderr ? &work->errout : &work->out;

    size_t cost = buf_len(&lines->part) + BUILD_LINE_COST_BYTES;

    if (work->output_bytes + cost > BUILD_OUTPUT_BYTES_MAX) {
        if (!work->output_cut) {
            work_say(work, LOG_WARN,
                     "[%s] more than %d bytes of output, with %d for each line: the rest is not"
                     " kept",
                     work->prefix, BUILD_OUTPUT_BYTES_MAX, BUILD_LINE_COST_BYTES);
        }
        work->output_cut = true;
    } else {
        work->output_bytes += cost;
        line_say(work, is_stderr, buf_str(&lines->part));
    }
    buf_clear(&lines->part);
    lines->cut = false;
}

void output_add(struct work *work, bool is_stderr, struct str data)
{
    struct lines *lines = is_stderr ? &work->errout : &work->out;

    while (data.len > 0) {
        size_t end = str_find(data, '\n');
        struct str part = {data.at, end};
        size_t room = BUILD_LINE_BYTES_MAX - 64 - buf_len(&lines->part);

        if (part.len > room) {
            part.len = room;
            lines->cut = true;
        }
        (void)!buf_append(&lines->part, part.at, part.len);
        if (end < data.len) {
            line_flush(work, is_stderr);
        }
        data = str_skip(data, end + 1);
    }
}

void output_end(struct work *work)
{
    if (buf_len(&work->out.part) > 0) {
        line_flush(work, false);
    }
    if (buf_len(&work->errout.part) > 0) {
        line_flush(work, true);
    }
}
