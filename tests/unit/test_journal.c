/* The agent's journal: numbered, bounded, and gone when it is on record. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "inside/agent/journal.h"
#include "wire/channel.h"

static uint32_t newest; /* the journal is one for the process: tests go on where the last ended */
static int told;

static void on_added(void *ctx)
{
    (void)ctx;
    told++;
}

static void write_one(const char *text)
{
    journal_write(LOG_INFO, "test", "event", NULL, "%s", text);
    newest++;
}

static void lines_are_numbered(void)
{
    struct journal_line line;

    CHECK(!journal_next(0, &line));
    journal_listen(on_added, NULL);
    write_one("first");
    write_one("second");
    CHECK_INT(told, 2);
    CHECK(journal_next(0, &line));
    CHECK_INT(line.seq, 1);
    CHECK_INT(line.lost, 0);
    json_t *json = json_loadb(line.text.at, line.text.len, 0, NULL);
    CHECK_STR(json_string_value(json_object_get(json, "message")), "first");
    CHECK_STR(json_string_value(json_object_get(json, "level")), "info");
    CHECK_STR(json_string_value(json_object_get(json, "logger")), "test");
    CHECK_STR(json_string_value(json_object_get(json, "event_type")), "event");
    json_decref(json);
    CHECK(journal_next(1, &line) && line.seq == 2);
    CHECK(!journal_next(2, &line));
}

static void what_is_on_record_is_forgotten(void)
{
    struct journal_line line;

    journal_forget(newest - 1);
    CHECK(journal_next(0, &line) && line.seq == newest);
    journal_forget(newest);
    CHECK(!journal_next(0, &line));
    write_one("next");
    CHECK(journal_next(0, &line) && line.seq == newest);
    journal_forget(UINT32_MAX);
}

static void a_log_goes_on_from_another_number(void)
{
    struct journal_line line;

    write_one("one");
    write_one("two");
    journal_number(100);
    CHECK(journal_next(0, &line) && line.seq == 101);
    CHECK(journal_next(101, &line) && line.seq == 102);
    write_one("three");
    CHECK(journal_next(102, &line) && line.seq == 103);
    journal_forget(UINT32_MAX);
    journal_number(0);
    write_one("anew");
    CHECK(journal_next(0, &line) && line.seq == 1);
    journal_forget(UINT32_MAX);
    journal_number(newest);
}

static void the_oldest_give_way(void)
{
    struct journal_line line;
    uint32_t before = newest;
    size_t bytes = 0, n = 0;

    for (int i = 0; i < 2000; i++) {
        write_one("a line of some length, as they are");
    }
    CHECK(journal_next(0, &line));
    CHECK(line.seq > before + 1);
    CHECK_INT(line.lost, line.seq - before - 1);
    for (uint32_t seq = 0; journal_next(seq, &line); seq = line.seq, n++) {
        bytes += line.text.len;
    }
    CHECK(bytes <= JOURNAL_BYTES_MAX && n > 100);
    CHECK_INT(line.seq, newest);
    journal_told_lost();
    CHECK(journal_next(0, &line) && line.lost == 0);
    journal_forget(UINT32_MAX);
}

/* Whatever a tenant names, a line is JSON and fits a message. */
static void any_text_fits(void)
{
    static char nasty[4096];
    struct journal_line line;

    for (size_t i = 0; i < sizeof(nasty); i++) {
        nasty[i] = (char)(i % 2 ? 1 : 0xff);
    }
    for (int fields_n = 0; fields_n < 4; fields_n++) {
        json_t *fields = json_object();
        char name[16];
        for (int i = 0; i < fields_n; i++) {
            (void)snprintf(name, sizeof(name), "f%d", i);
            journal_text(fields, name, (struct str){nasty, sizeof(nasty)});
        }
        journal_write(LOG_ERROR, "test", "event", fields, "%.*s", 600, nasty);
        newest++;
        CHECK(journal_next(newest - 1, &line));
        CHECK(line.text.len <= CHANNEL_LOG_BYTES_MAX);
        json_t *json = json_loadb(line.text.at, line.text.len, 0, NULL);
        CHECK(json_is_object(json) && json_object_get(json, "message"));
        json_decref(json);
    }
    journal_forget(UINT32_MAX);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"lines are numbered", lines_are_numbered},
        {"what is on record is forgotten", what_is_on_record_is_forgotten},
        {"a log goes on from another number", a_log_goes_on_from_another_number},
        {"the oldest give way", the_oldest_give_way},
        {"any text fits", any_text_fits},
    };
    return check_run(tests, countof(tests));
}
