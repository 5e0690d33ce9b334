#include <errno.h>

#include "check.h"
#include "serve/api/fields.h"
#include "serve/api/list_query.h"

static const char *refusal(const char *query)
{
    static struct err err;
    scoped_list_query parsed = {0};

    err = (struct err){0};
    return list_query_parse(str_of(query), &parsed, &err) == 0 ? "" : err.msg;
}

static void defaults(void)
{
    scoped_list_query query = {0};
    struct err err;

    CHECK_INT(list_query_parse(STR(""), &query, &err), 0);
    CHECK(query.running && query.paused && !query.ascending && !query.continues);
    CHECK(query.limit == 100 && !query.metadata && !query.template_name);
    CHECK(query.started_after_ms == INT64_MIN);
}

static void parameters(void)
{
    scoped_list_query query = {0};
    struct err err;

    CHECK_INT(list_query_parse(STR("state=paused&order=asc&limit=7&template=my%2Fbase"
                                   "&startedAfter=1970-01-01T00%3A00%3A01.5%2B00%3A00&x=y"),
                               &query, &err),
              0);
    CHECK(!query.running && query.paused && query.ascending && query.limit == 7);
    CHECK_STR(query.template_name, "my/base");
    CHECK_INT(query.started_after_ms, 1500);
}

static void refusals(void)
{
    CHECK_STR(refusal("limit=0"), "validation error: limit must be between 1 and 100");
    CHECK_STR(refusal("limit=101"), "validation error: limit must be between 1 and 100");
    CHECK_STR(refusal("limit=-1"), "validation error: limit must be between 1 and 100");
    CHECK_STR(refusal("limit=1x"), "validation error: limit must be between 1 and 100");
    CHECK_STR(refusal("limit="), "validation error: limit must be between 1 and 100");
    CHECK_STR(refusal("limit=99999999999999999999"),
              "validation error: limit must be between 1 and 100");
    CHECK(strstr(refusal("state=dead"), "state must be"));
    CHECK(strstr(refusal("state=running,"), "state must be"));
    CHECK(strstr(refusal("order=up"), "order must be"));
    CHECK(strstr(refusal("startedAfter=yesterday"), "startedAfter must be"));
    CHECK(strstr(refusal("template=base:v1"), "cannot name a tag"));
    CHECK(strstr(refusal("template="), "Invalid template"));
    CHECK(strstr(refusal("metadata=a"), "Error parsing metadata"));
    CHECK(strstr(refusal("metadata=a%3Db%3Dc"), "Error parsing metadata"));
    CHECK(strstr(refusal("metadata=a%3D%25zz"), "Error parsing metadata"));
    CHECK(strstr(refusal("metadata=a%3D%2500"), "Error parsing metadata"));
    CHECK(strstr(refusal("metadata=a%3D%25ff"), "Error parsing metadata"));
    CHECK(strstr(refusal("metadata=%zz"), "metadata is not a valid query parameter"));
    CHECK_STR(refusal("nextToken=x!"), "Invalid next token");
    CHECK_STR(refusal("nextToken=aGVsbG8"), "Invalid next token");
    CHECK_STR(refusal("nextToken="), "");
}

static void metadata(void)
{
    scoped_json *own = json_pack("{ssssss}", "user", "abc", "a&b", "c=d e", "\xc3\xa9", "%");
    struct err err;

    static const struct {
        const char *query;
        bool matches;
    } cases[] = {
        {"metadata=user%3Dabc", true},  /* encoded once, as people type it */
        {"metadata=user%3Dabd", false}, /* another value */
        {"metadata=User%3Dabc", false}, /* another key */
        {"metadata=user%3Dabc%26x%3Dy", false},
        /* as the packages send it: keys and values encoded twice, the whole once more */
        {"metadata=a%252526b%3Dc%25253Dd%252520e", true},
        {"metadata=user%3Dabc%26%2525C3%2525A9%3D%252525", true},
        {"metadata=", true},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        scoped_list_query query = {0};

        CHECK_INT(list_query_parse_v1(str_of(cases[i].query), &query, &err), 0);
        CHECK_THAT(metadata_matches(own, query.metadata) == cases[i].matches, "%s", cases[i].query);
    }
}

static void tokens(void)
{
    struct sandbox_position at = {1700000000123, "iabcdefghij0123456789"}, back = {0};
    char token[LIST_TOKEN_BYTES];

    list_token_write(&at, false, token);
    CHECK_INT(strspn(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
              strlen(token));
    CHECK_INT(list_token_read(str_of(token), false, &back), 0);
    CHECK_INT(back.created_ms, at.created_ms);
    CHECK_STR(back.id, at.id);
    CHECK_INT(list_token_read(str_of(token), true, &back), -EINVAL);
    for (size_t cut = 0; cut < strlen(token); cut++) { /* a part never stands for the whole */
        if (list_token_read((struct str){token, cut}, false, &back) == 0) {
            CHECK(strcmp(back.id, at.id) != 0);
        }
    }
    list_token_write(&at, true, token);
    CHECK_INT(list_token_read(str_of(token), true, &back), 0);
    at.created_ms = 0;
    list_token_write(&at, true, token);
    CHECK_INT(list_token_read(str_of(token), true, &back), 0);
    CHECK_INT(back.created_ms, 0);
}

static void order(void)
{
    struct sandbox_position a = {1, "a"}, b = {1, "b"}, c = {2, "a"};

    CHECK(position_before(&a, &b, true) && position_before(&b, &c, true));
    CHECK(position_before(&c, &b, false) && position_before(&b, &a, false));
    CHECK(!position_before(&a, &a, true) && !position_before(&a, &a, false));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"an empty query", defaults},
        {"every parameter", parameters},
        {"what is refused", refusals},
        {"metadata is decoded three times", metadata},
        {"tokens go there and back, and fit one order", tokens},
        {"positions have an order", order},
    };

    return check_run(tests, countof(tests));
}
