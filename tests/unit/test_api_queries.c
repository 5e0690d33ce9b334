/* Queries of metrics and logs: what is taken, and with what words the rest is refused. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "serve/api/logs_query.h"
#include "serve/api/query.h"

static void ranges(void)
{
    static const struct {
        const char *query;
        int64_t start_s, end_s;
    } good[] = {
        {"", INT64_MIN, INT64_MAX},
        {"start=5", 5, INT64_MAX},
        {"end=9&start=9", 9, 9},
        {"start=%35&x=y", 5, INT64_MAX},
    };
    static const char *const bad[] = {"start=9&end=8", "start=-1",   "start=",
                                      "start=1.5",     "end=1e9",    "start=%zz",
                                      "end=+1",        "start=5%00", "end=99999999999999999999"};
    struct err err;

    for (size_t i = 0; i < countof(good); i++) {
        struct query_range range = {0};
        CHECK_INT(query_range(str_of(good[i].query), &range, &err), 0);
        CHECK_INT(range.start_s, good[i].start_s);
        CHECK_INT(range.end_s, good[i].end_s);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        struct query_range range = {0};
        CHECK_THAT(query_range(str_of(bad[i]), &range, &err) == -EINVAL, "%s is taken", bad[i]);
        CHECK_THAT(strncmp(err.msg, "validation error: ", 18) == 0, "'%s'", err.msg);
    }
}

static void logs_of_the_first_version(void)
{
    struct logfile_query query;
    const int64_t now_ms = INT64_C(1700000000000);
    struct err err;

    CHECK_INT(logs_query_v1(STR(""), now_ms, &query, &err), 0);
    CHECK_INT(query.limit, LOGS_LIMIT_MAX);
    CHECK_INT(query.from_ms, now_ms - LOGS_KEPT_MS);
    CHECK_INT(logs_query_v1(STR("start=1699999999999&limit=7"), now_ms, &query, &err), 0);
    CHECK_INT(query.from_ms, INT64_C(1699999999999));
    CHECK_INT(query.limit, 7);
    CHECK_INT(logs_query_v1(STR("start=5&limit=100000"), now_ms, &query, &err), 0);
    CHECK_INT(query.from_ms, now_ms - LOGS_KEPT_MS);
    CHECK_INT(query.limit, LOGS_LIMIT_MAX);
    CHECK_INT(logs_query_v1(STR("limit=-1"), now_ms, &query, &err), -EINVAL);
    CHECK_INT(logs_query_v1(STR("start=yesterday"), now_ms, &query, &err), -EINVAL);
}

static void logs_of_the_second_version(void)
{
    static const char *const bad[] = {
        "cursor=abc",   "limit=1001",   "direction=up",
        "level=fatal",  "follow=maybe", "search=%ff",
        "search=a%00b", "direction=",   "follow=true&direction=backward"};
    struct logfile_query query;
    const int64_t now_ms = INT64_C(1700000000000);
    bool follow = false;
    struct err err;

    CHECK_INT(logs_query_v2(STR("cursor=1699999999999&direction=backward&level=warn&search=a%20b"),
                            now_ms, &query, &follow, &err),
              0);
    CHECK(query.backward && !follow && query.least == LOG_WARN);
    CHECK_INT(query.to_ms, INT64_C(1699999999999));
    CHECK_INT(query.from_ms, now_ms - LOGS_KEPT_MS);
    CHECK_STR(query.search, "a b");
    CHECK_INT(logs_query_v2(STR("cursor=1699999999999&follow=true"), now_ms, &query, &follow, &err),
              0);
    CHECK(follow && !query.backward && query.least == LOG_DEBUG);
    CHECK_INT(query.from_ms, INT64_C(1699999999999));
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(logs_query_v2(str_of(bad[i]), now_ms, &query, &follow, &err) == -EINVAL,
                   "%s is taken", bad[i]);
    }
}

static void pages_in_words(void)
{
    struct logfile_entry entry = {
        .wall_ms = 1000,
        .level = LOG_WARN,
        .line = STR(
            "{\"level\":\"warn\",\"message\":\"m\",\"pid\":7,\"more\":{\"a\":[1]},\"s\":\"t\"}")};
    const struct logfile_page page = {.entries = &entry, .n = 1};
    scoped_buf(out, 4096);

    CHECK_INT(logs_render_lines(&page, &out), 0);
    CHECK(str_eq(
        buf_str(&out),
        STR("{\"timestamp\":\"1970-01-01T00:00:01.000Z\",\"level\":\"warn\",\"message\":"
            "\"m\",\"fields\":{\"pid\":\"7\",\"more\":\"{\\\"a\\\":[1]}\",\"s\":\"t\"}}\n")));
    buf_clear(&out);
    CHECK_INT(logs_render_v1(&page, &out), 0);
    CHECK(str_starts(buf_str(&out), STR("{\"logs\":[{\"timestamp\":\"1970-01-01T00:00:01.000Z\","
                                        "\"line\":\"{\\\"level\\\":\\\"warn\\\"")));
    buf_clear(&out);
    CHECK_INT(logs_render_v2(&(struct logfile_page){0}, &out), 0);
    CHECK(str_eq(buf_str(&out), STR("{\"logs\":[]}")));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"ranges", ranges},
        {"logs of the first version", logs_of_the_first_version},
        {"logs of the second version", logs_of_the_second_version},
        {"pages in words", pages_in_words},
    };
    return check_run(tests, countof(tests));
}
