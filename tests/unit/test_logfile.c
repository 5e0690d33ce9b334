/* Log files: lines come back as they were asked for, across a turn-over and a crash. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "lib/base/fd.h"
#include "serve/telemetry/logfile.h"
#include "tmpdir.h"

#define TEAM "00000000-0000-4000-8000-000000000001"

static struct logfile file_in(int dir_fd)
{
    struct logfile file = {.dir_fd = dir_fd, .id = "iabc", .team = TEAM};

    return file;
}

static void add(const struct logfile *file, uint32_t seq, int64_t wall_ms, enum log_level level,
                const char *message)
{
    char line[256];
    struct err err = {0};
    scoped_buf(text, 1024);

    (void)snprintf(line, sizeof(line), "{\"level\":\"x\",\"message\":\"%s\",\"n\":%u}", message,
                   seq);
    CHECK_INT(logfile_record(&text, wall_ms, seq, level, str_of(line)), 0);
    CHECK_INT(logfile_append(file, buf_str(&text), &err), 0);
}

static struct logfile_query all(void)
{
    return (struct logfile_query){.from_ms = 0, .to_ms = INT64_MAX, .limit = 1000};
}

static size_t count(const struct logfile *file, const struct logfile_query *query)
{
    struct logfile_page page;
    struct err err = {0};

    if (logfile_read(file, query, &page, &err) < 0) {
        return SIZE_MAX;
    }
    size_t n = page.n;
    logfile_page_fini(&page);
    return n;
}

static void lines_come_back(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int fd = dir.fd;
    struct logfile file = file_in(fd);
    struct logfile_query query = all();
    struct logfile_page page;
    struct err err = {0};

    CHECK_INT(logfile_read(&file, &query, &page, &err), -ENOENT);
    for (uint32_t i = 1; i <= 10; i++) {
        add(&file, i, 1000 + i, i % 2 ? LOG_INFO : LOG_WARN, i == 4 ? "needle" : "hay");
    }
    CHECK_INT(logfile_read(&file, &query, &page, &err), 0);
    CHECK_INT(page.n, 10);
    CHECK_INT(page.entries[0].wall_ms, 1001);
    CHECK_INT(page.entries[9].level, LOG_WARN);
    CHECK(str_starts(page.entries[0].line, STR("{\"level\"")) &&
          str_ends(page.entries[0].line, STR("\"n\":1}")));
    logfile_page_fini(&page);

    query.limit = 3;
    query.backward = true;
    CHECK_INT(logfile_read(&file, &query, &page, &err), 0);
    CHECK_INT(page.n, 3);
    CHECK_INT(page.entries[0].wall_ms, 1010);
    CHECK_INT(page.entries[2].wall_ms, 1008);
    logfile_page_fini(&page);
}

static void filters_filter(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int fd = dir.fd;
    struct logfile file = file_in(fd);
    struct logfile_query query = all();

    for (uint32_t i = 1; i <= 10; i++) {
        add(&file, i, 1000 + i, i % 2 ? LOG_INFO : LOG_WARN, i == 4 ? "the \\\"needle\\\"" : "hay");
    }
    query.from_ms = 1003;
    query.to_ms = 1005;
    CHECK_INT(count(&file, &query), 3);
    query = all();
    query.least = LOG_WARN;
    CHECK_INT(count(&file, &query), 5);
    query = all();
    (void)snprintf(query.search, sizeof(query.search), "\"needle\"");
    CHECK_INT(count(&file, &query), 1);
    (void)snprintf(query.search, sizeof(query.search), "Needle");
    CHECK_INT(count(&file, &query), 0);
    query = all();
    query.limit = 0;
    CHECK_INT(count(&file, &query), 0);
}

static void reading_goes_on_where_it_was(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int fd = dir.fd;
    struct logfile file = file_in(fd);
    struct logfile_query query = all();
    struct err err = {0};
    uint32_t next = 1;

    for (uint32_t i = 1; i <= 10; i++) {
        add(&file, i, 1000 + i, LOG_INFO, "line");
    }
    query.limit = 4;
    for (int round = 0; round < 4; round++) {
        struct logfile_page page;
        CHECK_INT(logfile_read(&file, &query, &page, &err), 0);
        for (size_t i = 0; i < page.n; i++) {
            CHECK_INT(page.entries[i].wall_ms, 1000 + next++);
        }
        query.after = page.end;
        logfile_page_fini(&page);
    }
    CHECK_INT(next, 11);
    add(&file, 11, 1011, LOG_INFO, "later");
    CHECK_INT(count(&file, &query), 1);
}

static void other_teams_find_nothing(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int fd = dir.fd;
    struct logfile file = file_in(fd);
    struct logfile_query query = all();
    struct logfile_page page;
    struct err err = {0};

    add(&file, 1, 1001, LOG_INFO, "secret");
    (void)snprintf(file.team, sizeof(file.team), "00000000-0000-4000-8000-000000000002");
    CHECK_INT(logfile_read(&file, &query, &page, &err), -ENOENT);
}

/* A crash in the middle of a write: the record is not read, and is gone with the next write. */
static void a_torn_record_is_taken_back(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int fd = dir.fd;
    struct logfile file = file_in(fd);
    struct logfile_query query = all();
    uint32_t seq = 0;
    int64_t wall_ms = 0;

    add(&file, 1, 1001, LOG_INFO, "whole");
    add(&file, 2, 1002, LOG_INFO, "whole");
    int log = openat(fd, "iabc.log", O_WRONLY | O_APPEND);
    CHECK_INT(write(log, "1003 3 1 {\"mess", 15), 15);
    fd_closep(&log);
    CHECK_INT(count(&file, &query), 2);
    logfile_last(&file, &seq, &wall_ms);
    CHECK_INT(seq, 2);
    add(&file, 3, 1003, LOG_INFO, "again");
    CHECK_INT(count(&file, &query), 3);
    logfile_last(&file, &seq, &wall_ms);
    CHECK_INT(seq, 3);
    CHECK_INT(wall_ms, 1003);
}

static void a_file_that_is_not_ours_is_begun_anew(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int fd = dir.fd;
    struct logfile file = file_in(fd);
    struct logfile_query query = all();

    int log = openat(fd, "iabc.log", O_WRONLY | O_CREAT, 0600);
    CHECK_INT(write(log, "rubbish\n\n\0\n", 11), 11);
    fd_closep(&log);
    add(&file, 1, 1001, LOG_INFO, "mine");
    CHECK_INT(count(&file, &query), 1);
}

/* More than the limit: the oldest go, the newest stay, in order and numbered through. */
static void a_long_log_is_bounded(void)
{
    enum { LINES = 40, LINE_BYTES = 300 * 1024 };
    static char text[LINE_BYTES + 64];
    scoped_tmpdir dir = tmpdir_make();
    int fd = dir.fd;
    struct logfile file = file_in(fd);
    struct logfile_query query = all();
    struct logfile_page page;
    struct err err = {0};
    struct stat st = {0}, old = {0};

    for (uint32_t i = 1; i <= LINES; i++) {
        int n = snprintf(text, sizeof(text), "%u %u 1 {\"message\":\"%0*d\"}\n", 1000 + i, i,
                         LINE_BYTES, 7);
        CHECK_INT(logfile_append(&file, (struct str){text, (size_t)n}, &err), 0);
    }
    CHECK_INT(fstatat(fd, "iabc.log", &st, 0), 0);
    CHECK_INT(fstatat(fd, "iabc.old", &old, 0), 0);
    CHECK(st.st_size + old.st_size <= LOGFILE_BYTES_MAX);
    CHECK_INT(logfile_read(&file, &query, &page, &err), 0);
    CHECK(page.n >= 13 && page.n < LINES);
    for (size_t i = 0; i < page.n; i++) {
        CHECK_INT(page.entries[i].wall_ms, 1000 + LINES - page.n + 1 + i);
    }
    logfile_page_fini(&page);
}

static void old_files_go(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int fd = dir.fd;
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    const struct timespec before[2] = {{.tv_sec = 5000}, {.tv_sec = 5000}};
    struct logfile file = file_in(fd);

    add(&file, 1, 1, LOG_INFO, "old");
    CHECK_INT(utimensat(fd, "iabc.log", long_ago, 0), 0);
    (void)snprintf(file.id, sizeof(file.id), "ib");
    add(&file, 1, 1, LOG_INFO, "young");
    CHECK_INT(utimensat(fd, "ib.log", before, 0), 0);
    (void)snprintf(file.id, sizeof(file.id), "ic");
    add(&file, 1, 1, LOG_INFO, "youngest");
    logfile_sweep(fd, 2000 * 1000, UINT64_MAX);
    CHECK_INT(faccessat(fd, "iabc.log", F_OK, 0), -1);
    CHECK_INT(faccessat(fd, "ib.log", F_OK, 0), 0);
    logfile_sweep(fd, 0, 150);
    CHECK_INT(faccessat(fd, "ib.log", F_OK, 0), -1);
    CHECK_INT(faccessat(fd, "ic.log", F_OK, 0), 0);
}

/* Whoever has most loses its oldest, however old the others' are. */
static void a_flood_of_one_team_costs_no_other(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int fd = dir.fd;
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    const struct timespec before[2] = {{.tv_sec = 5000}, {.tv_sec = 5000}};
    struct logfile quiet = file_in(fd), loud = file_in(fd);
    struct stat st;

    (void)snprintf(quiet.team, sizeof(quiet.team), "%s", "11111111-2222-4333-8444-555555555555");
    add(&quiet, 1, 1, LOG_INFO, "of the other team");
    CHECK_INT(utimensat(fd, "iabc.log", long_ago, 0), 0);
    CHECK_INT(fstatat(fd, "iabc.log", &st, 0), 0);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(loud.id, sizeof(loud.id), "iloud%d", i);
        add(&loud, 1, 1, LOG_INFO, "of the loud one   ");
        if (i == 0) {
            CHECK_INT(utimensat(fd, "iloud0.log", before, 0), 0);
        }
    }
    logfile_sweep(fd, 0, 4 * (uint64_t)st.st_size + 16);
    CHECK_INT(faccessat(fd, "iabc.log", F_OK, 0), 0);
    CHECK_INT(faccessat(fd, "iloud0.log", F_OK, 0), -1);
    CHECK_INT(faccessat(fd, "iloud3.log", F_OK, 0), 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"lines come back", lines_come_back},
        {"filters filter", filters_filter},
        {"reading goes on where it was", reading_goes_on_where_it_was},
        {"other teams find nothing", other_teams_find_nothing},
        {"a torn record is taken back", a_torn_record_is_taken_back},
        {"a file that is not ours is begun anew", a_file_that_is_not_ours_is_begun_anew},
        {"a long log is bounded", a_long_log_is_bounded},
        {"old files go", old_files_go},
        {"a flood of one team costs no other", a_flood_of_one_team_costs_no_other},
    };
    return check_run(tests, countof(tests));
}
