#include "inside/agent/journal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/utf8.h"
#include "wire/channel.h"

struct record {
    uint32_t seq;
    uint32_t len; /* of the text behind it */
    int64_t wall_ms;
    enum log_level level;
};

static struct {
    struct buf records;
    uint32_t seq; /* of the newest */
    uint32_t lost;
    void (*added)(void *ctx);
    void *ctx;
} journal;

/* ---- lines ---- */

void journal_text(json_t *fields, const char *name, struct str text)
{
    char clean[JOURNAL_TEXT_BYTES_MAX * UTF8_REPLACEMENT_BYTES + 1];

    text.len = text.len < JOURNAL_TEXT_BYTES_MAX ? text.len : JOURNAL_TEXT_BYTES_MAX;
    (void)utf8_repair(text, clean);
    (void)json_object_set_new(fields, name, json_string(clean));
}

/* The caller frees it. NULL when it is too long for a message of the channel. */
static char *line_make(enum log_level level, const char *logger, const char *event,
                       const char *message, json_t *fields)
{
    json_t *line = json_object();

    (void)json_object_set_new(line, "level", json_string(log_level_name(level)));
    (void)json_object_set_new(line, "logger", json_string(logger));
    (void)json_object_set_new(line, "event_type", json_string(event));
    journal_text(line, "message", str_of(message));
    if (fields) {
        (void)json_object_update_missing(line, fields);
    }
    char *text = json_dumps(line, JSON_COMPACT);
    json_decref(line);
    if (text && strlen(text) > CHANNEL_LOG_BYTES_MAX) {
        free(text);
        return NULL;
    }
    return text;
}

static void oldest_drop(void)
{
    struct record record;

    memcpy(&record, buf_at(&journal.records), sizeof(record));
    buf_consume(&journal.records, sizeof(record) + record.len);
}

static void line_add(enum log_level level, const char *text)
{
    struct record record = {.seq = ++journal.seq,
                            .len = (uint32_t)strlen(text),
                            .wall_ms = clock_wall_ms(),
                            .level = level};

    if (!journal.records.data) {
        buf_init(&journal.records, JOURNAL_BYTES_MAX);
    }
    while (buf_len(&journal.records) + sizeof(record) + record.len > JOURNAL_BYTES_MAX) {
        oldest_drop();
        journal.lost++;
    }
    if (buf_append(&journal.records, &record, sizeof(record)) < 0 ||
        buf_append(&journal.records, text, record.len) < 0) {
        abort(); /* there is room */
    }
}

void journal_write(enum log_level level, const char *logger, const char *event, json_t *fields,
                   const char *fmt, ...)
{
    char message[JOURNAL_TEXT_BYTES_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    char *text = line_make(level, logger, event, message, fields);
    if (!text) {
        text = line_make(level, logger, event, message, NULL);
    }
    json_decref(fields);
    if (!text) {
        return;
    }
    line_add(level, text);
    free(text);
    if (journal.added) {
        journal.added(journal.ctx);
    }
}

/* ---- the reader's side ---- */

void journal_listen(void (*added)(void *ctx), void *ctx)
{
    journal.added = added;
    journal.ctx = ctx;
}

bool journal_next(uint32_t seq, struct journal_line *out)
{
    struct str rest = buf_str(&journal.records);
    struct record record;

    while (rest.len > 0) {
        memcpy(&record, rest.at, sizeof(record));
        rest = str_skip(rest, sizeof(record));
        if (record.seq > seq) {
            *out = (struct journal_line){.seq = record.seq,
                                         .lost = journal.lost,
                                         .wall_ms = record.wall_ms,
                                         .level = record.level,
                                         .text = {rest.at, record.len}};
            return true;
        }
        rest = str_skip(rest, record.len);
    }
    return false;
}

void journal_told_lost(void)
{
    journal.lost = 0;
}

void journal_forget(uint32_t seq)
{
    struct record record;

    while (buf_len(&journal.records) > 0) {
        memcpy(&record, buf_at(&journal.records), sizeof(record));
        if (record.seq > seq) {
            return;
        }
        oldest_drop();
    }
    buf_fini(&journal.records);
}

void journal_number(uint32_t seq)
{
    struct record record;

    journal.seq = seq;
    for (size_t at = 0; at < buf_len(&journal.records); at += sizeof(record) + record.len) {
        memcpy(&record, buf_at(&journal.records) + at, sizeof(record));
        record.seq = ++journal.seq;
        memcpy(buf_at(&journal.records) + at, &record, sizeof(record));
    }
}
