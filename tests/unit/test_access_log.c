/* The lines of the access log: what they show, what they hide, and a file that is moved or full. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "lib/base/json.h"
#include "serve/telemetry/access_log.h"
#include "tmpdir.h"

static void shows(const char *path, const char *want)
{
    char out[ACCESS_LOG_TEXT_BYTES];

    access_log_path(str_of(path), out);
    CHECK_STR(out, want);
}

static void a_path_keeps_ids_and_loses_tokens(void)
{
    char longest[2 * ACCESS_LOG_TEXT_BYTES];

    shows("/", "/");
    shows("*", "*");
    shows("/sandboxes/i0123456789abcdefghij/logs", "/sandboxes/i0123456789abcdefghij/logs");
    shows("/api-keys/00000000-0000-4000-8000-000000000000",
          "/api-keys/00000000-0000-4000-8000-000000000000");
    shows("/x/0123456789012345678901234567890123456789012345/y", "/x/*/y");
    shows("/x/e2b_7f3a91c04be85d2a6610fd97c38e4ab5209d71ec", "/x/*");
    memset(longest, '/', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    char out[ACCESS_LOG_TEXT_BYTES];
    access_log_path(str_of(longest), out);
    CHECK(strlen(out) < sizeof(out));
}

static struct http_request request(const char *path, const char *agent, struct http_header *header)
{
    *header = (struct http_header){STR("user-agent"), str_of(agent)};
    return (struct http_request){.method = STR("GET"),
                                 .path = str_of(path),
                                 .query = STR("token=hidden"),
                                 .peer = STR("192.0.2.1"),
                                 .headers = header,
                                 .headers_n = 1};
}

static const struct http_carried carried = {.status = 200, .bytes_in = 1, .bytes_out = 2};

static void a_line_is_json_whatever_came(void)
{
    struct http_header header;
    struct http_request req = request("/a\"\n\x1b\xff", "\xff\xfe\x01 \"agent\"", &header);
    const struct http_note note = {.route = "/a", .team = "t", .sandbox = "i1", .port = 8080};
    const struct access_entry entry = {&req, &note, &carried, 0, 1500};
    char *line = access_log_line(&entry);
    scoped_json *json = json_loads(line, 0, NULL);

    CHECK(json != NULL);
    CHECK(strchr(line, '\n') == line + strlen(line) - 1);
    CHECK(!strstr(line, "hidden"));
    CHECK_STR(json_text_of(json, "time"), "1970-01-01T00:00:00.000Z");
    CHECK_STR(json_text_of(json, "sandbox"), "i1");
    CHECK_INT(json_integer_value(json_object_get(json, "port")), 8080);
    CHECK(json_real_value(json_object_get(json, "durationMs")) == 1.5);
    CHECK(!json_object_get(json, "key") && !json_object_get(json, "traceId"));
    free(line);
}

static struct access_log *opened(const char *path)
{
    struct access_log *log = NULL;
    struct err err;

    if (access_log_open(path, &log, &err) < 0) {
        printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    return log;
}

static void put(struct access_log *log, int n)
{
    struct http_header header;
    struct http_request req = request("/path", "agent", &header);
    const struct http_note note = {0};
    const struct access_entry entry = {&req, &note, &carried, 0, 0};

    for (int i = 0; i < n; i++) {
        access_log_put(log, &entry);
    }
}

static int lines_of(const char *path)
{
    FILE *file = fopen(path, "re");
    int n = 0, c;

    while (file && (c = fgetc(file)) != EOF) {
        n += c == '\n';
    }
    if (file) {
        (void)fclose(file);
    }
    return n;
}

static void all_lines_are_in_the_file_at_the_end(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/access.log", dir.path);
    struct access_log *log = opened(path);
    put(log, 500);
    CHECK_INT(access_log_lines(log), 500);
    CHECK_INT(access_log_dropped(log), 0);
    access_log_close(log);
    CHECK_INT(lines_of(path), 500);
    log = opened(path); /* goes on behind them */
    put(log, 1);
    access_log_close(log);
    CHECK_INT(lines_of(path), 501);
}

static void a_full_disk_is_counted(void)
{
    struct access_log *log = opened("/dev/full");

    put(log, 20000); /* more than the buffer takes */
    for (int i = 0; i < 500 && access_log_dropped(log) < 20000; i++) {
        struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
        (void)nanosleep(&pause, NULL);
    }
    CHECK_INT(access_log_dropped(log), 20000);
    access_log_close(log);
}

static void a_place_that_is_not_there_is_told(void)
{
    struct access_log *log = NULL;
    struct err err;

    CHECK_INT(access_log_open("/no/such/place", &log, &err), -ENOENT);
    CHECK(strstr(err.msg, "/no/such/place"));
    access_log_close(NULL);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a path keeps ids and loses tokens", a_path_keeps_ids_and_loses_tokens},
        {"a line is JSON, whatever came", a_line_is_json_whatever_came},
        {"all lines are in the file at the end", all_lines_are_in_the_file_at_the_end},
        {"a full disk is counted", a_full_disk_is_counted},
        {"a place that is not there is told", a_place_that_is_not_there_is_told},
    };

    return check_run(tests, countof(tests));
}
