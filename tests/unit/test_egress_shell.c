/* API shells: what a definition may say, and which requests pass it. */
#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "serve/egress/shell.h"

#define KEY "\"header\":{\"name\":\"Authorization\",\"value\":\"Bearer ${e2b.secrets.k}\"}"

static struct shell *shell_of(const char *text)
{
    json_t *definition = json_loads(text, 0, NULL);
    struct shell *shell = NULL;
    struct err err;

    if (shell_new("api", definition, &shell, &err) < 0) {
        printf("# %s\n", err.msg);
    }
    json_decref(definition);
    return shell;
}

static void patterns_say_what_they_look_like(void)
{
    static const struct {
        const char *pattern, *path;
        bool has;
    } rows[] = {
        {"/a", "/a", true},
        {"/a", "/a/", false},
        {"/a", "/A", false},
        {"/a/*", "/a/b", true},
        {"/a/*", "/a/", true},
        {"/a/*", "/a/b/c", false},
        {"/a/*", "/a", false},
        {"/a/**", "/a/b/c", true},
        {"/a/**", "/a/", true},
        {"/a/**", "/a", false},
        {"/**", "/", true},
        {"/**", "/any/thing", true},
        {"/*/b", "/a/b", true},
        {"/*/b", "/a/c/b", false},
        {"/**/b", "/a/c/b", true},
        {"/**/b/*", "/a/b/c/b/d", true},
        {"/**/b/*", "/a/b/c/d", false},
        {"/v*/x*.json", "/v12/xyz.json", true},
        {"/v*/x*.json", "/v12/xy/z.json", false},
        {"/repos/*/issues", "/repos/a/issues", true},
        {"/repos/*/issues", "/repos/a/b/issues", false},
        {"/a***b", "/a/x/b", true},
        {"*", "", true},
        {"", "", true},
        {"", "/", false},
        /* the star is the last place of a word of 64, and the one behind it the first of the next
         */
        {"/23456789/123456789/123456789/123456789/123456789/123456789/123*/x",
         "/23456789/123456789/123456789/123456789/123456789/123456789/123/x", true},
        {"/23456789/123456789/123456789/123456789/123456789/123456789/123*/x",
         "/23456789/123456789/123456789/123456789/123456789/123456789/123yz/x", true},
        {"/23456789/123456789/123456789/123456789/123456789/123456789/123*/x",
         "/23456789/123456789/123456789/123456789/123456789/123456789/123/z/x", false},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        CHECK_THAT(shell_pattern_has(str_of(rows[i].pattern), str_of(rows[i].path)) == rows[i].has,
                   "%s and %s", rows[i].pattern, rows[i].path);
    }
}

/* Teams write patterns, and their programs ask for paths: both may mean harm. */
static void a_pattern_of_many_beginnings_takes_no_time(void)
{
    char pattern[SHELL_PATTERN_BYTES_MAX + 1], path[SHELL_PATH_BYTES_MAX + 1];

    memset(pattern, 'a', sizeof(pattern));
    memset(path, 'a', sizeof(path));
    memcpy(pattern, "/**a*", 5);
    pattern[sizeof(pattern) - 2] = 'b';
    pattern[sizeof(pattern) - 1] = path[sizeof(path) - 1] = '\0';
    path[0] = '/';
    for (int i = 0; i < SHELL_PATTERNS_MAX; i++) {
        CHECK(!shell_pattern_has(str_of(pattern), str_of(path)));
    }
    path[sizeof(path) - 2] = 'b';
    CHECK(shell_pattern_has(str_of(pattern), str_of(path)));
}

static void requests_are_read_as_a_strict_server_reads_them(void)
{
    static const struct {
        const char *method, *path;
        int want;
    } rows[] = {
        {"GET", "/users/1", 0},
        {"GET", "/users/a%20b", 0},
        {"GET", "/%75sers/1", 0}, /* the same path to every server */
        {"POST", "/users/1", -EPERM},
        {"get", "/users/1", -EPERM},
        {"GET", "/admin", -EPERM},
        {"GET", "/users/1/keys", -EPERM},
        {"GET", "", -EPERM},
        {"GET", "/users/..", -EINVAL},
        {"GET", "/users/../admin", -EINVAL},
        {"GET", "/users/.", -EINVAL},
        {"GET", "/users/%2e%2e", -EINVAL},
        {"GET", "/users/%2E./x", -EINVAL},
        {"GET", "/users/..;x/admin", -EINVAL},
        {"GET", "/users//1", -EINVAL},
        {"GET", "//users/1", -EINVAL},
        {"GET", "/users/a%2fb", -EINVAL},
        {"GET", "/users/a%2F..%2Fadmin", -EINVAL},
        {"GET", "/users/a%5cb", -EINVAL},
        {"GET", "/users/a\\b", -EINVAL},
        {"GET", "/users/%252e%252e", -EINVAL},
        {"GET", "/users/%", -EINVAL},
        {"GET", "/users/%zz", -EINVAL},
        {"GET", "/users/%00", -EINVAL},
        {"GET", "/users/a%0d%0ab", -EINVAL},
    };
    struct shell *shell =
        shell_of("{\"baseUrl\":\"https://api.test/v1/\",\"paths\":[\"/users/*\"]," KEY "}");
    struct err err;

    CHECK(shell);
    for (size_t i = 0; i < countof(rows); i++) {
        int r = shell_allows(shell, str_of(rows[i].method), str_of(rows[i].path), &err);
        CHECK_THAT(r == rows[i].want, "%s %s: %d", rows[i].method, rows[i].path, r);
    }
    shell_free(shell);
}

static void targets_carry_the_key_where_it_belongs(void)
{
    struct shell *shell = shell_of("{\"baseUrl\":\"http://api.test:8080/v1/\","
                                   "\"query\":{\"name\":\"api_key\",\"sealed\":true}}");
    static const struct {
        const char *path, *query, *want;
    } rows[] = {
        {"/a", "", "/v1/a?api_key=k%2F%26%3D%20y"},
        {"", "", "/v1?api_key=k%2F%26%3D%20y"},
        {"/a", "x=1&y=%26", "/v1/a?x=1&y=%26&api_key=k%2F%26%3D%20y"},
        {"/a", "api_key=mine&x=1", "/v1/a?x=1&api_key=k%2F%26%3D%20y"},
        {"/a", "API%5FKEY=mine&api_key&api_key2=1", "/v1/a?api_key2=1&api_key=k%2F%26%3D%20y"},
    };

    CHECK(shell && shell->port == 8080 && !shell->secure && shell->sealed);
    CHECK_STR(shell->authority, "api.test:8080");
    for (size_t i = 0; i < countof(rows); i++) {
        scoped_buf(out, 1024);
        CHECK_INT(
            shell_target(shell, str_of(rows[i].path), str_of(rows[i].query), STR("k/&= y"), &out),
            0);
        CHECK_THAT(str_eq(buf_str(&out), str_of(rows[i].want)), "%.*s", (int)buf_len(&out),
                   buf_at(&out));
    }
    shell_free(shell);
}

static void redirects_stay_within_the_base(void)
{
    struct shell *shell = shell_of("{\"baseUrl\":\"https://api.test/v1\"," KEY "}");
    static const struct {
        const char *location, *want; /* NULL: refused */
    } rows[] = {
        {"/v1/b", "http://shell.atoll.internal/api/b"},
        {"https://api.test/v1/b?x=1", "http://shell.atoll.internal/api/b?x=1"},
        {"https://API.test:443/v1", "http://shell.atoll.internal/api"},
        {"b/c", "b/c"},
        {"/other", NULL},
        {"/v1x", NULL},
        {"//evil.test/v1", NULL},
        {"https://evil.test/v1/b", NULL},
        {"http://api.test/v1/b", NULL},
        {"https://api.test:444/v1/b", NULL},
        {"javascript:alert(1)", NULL},
    };
    struct guard *guard = guard_new();
    struct err err;

    guard_ready(guard);
    CHECK(shell);
    for (size_t i = 0; i < countof(rows); i++) {
        scoped_buf(out, 1024);
        int r = shell_location(shell, guard, str_of(rows[i].location), &out, &err);
        CHECK_THAT((r == 0) == (rows[i].want != NULL), "%s: %d", rows[i].location, r);
        CHECK_THAT(r < 0 || str_eq(buf_str(&out), str_of(rows[i].want)), "%.*s", (int)buf_len(&out),
                   buf_at(&out));
    }
    guard_free(guard);
    shell_free(shell);
}

/* The key is looked for before the sentence is cut: the last one here begins where the cut is. */
static void a_redirect_is_told_without_the_key(void)
{
    static const char *const locations[] = {
        "https://evil.test/?key=s3cr3t-of-the-team",
        "https://evil.test/?key=s3cr3t%2Dof%2Dthe%2Dteam",
        "https://evil.test/czNjcjN0LW9mLXRoZS10ZWFt",
        "//s3cr3t-of-the-team.evil.test/",
        "https://evil.test/a/path/that/is/as/long/as/a/sentence/has/room/for/another/side/and/then/"
        "some"
        "/s3cr3t-of-the-team",
    };
    struct shell *shell = shell_of("{\"baseUrl\":\"https://api.test/v1\"," KEY "}");
    struct guard *guard = guard_new();
    struct err err;

    CHECK(shell && guard_add(guard, STR("s3cr3t-of-the-team"), &err) == 0);
    guard_ready(guard);
    for (size_t i = 0; i < countof(locations); i++) {
        scoped_buf(out, 1024);
        CHECK_INT(shell_location(shell, guard, str_of(locations[i]), &out, &err), -EPERM);
        CHECK_THAT(!strstr(err.msg, "s3cr") && !strstr(err.msg, "czNj"), "%s", err.msg);
        CHECK_THAT(strstr(err.msg, "shell \"api\" does not cover"), "%s", err.msg);
    }
    guard_free(guard);
    shell_free(shell);
}

static void what_asks_for_another_method_or_path_is_refused(void)
{
    static const struct {
        const char *header, *query;
        int want;
    } rows[] = {
        {"accept", "a=1&b=2", 0},
        {"accept", "method=flickr.photos.search&x_method=1", 0},
        {"x-http-method-override", "", -EINVAL},
        {"X_HTTP-Method_Override", "", -EINVAL},
        {"x-method-override", "", -EINVAL},
        {"x-http-method", "", -EINVAL},
        {"x-original-url", "", -EINVAL},
        {"x-rewrite-url", "", -EINVAL},
        {"accept", "_method=DELETE", -EINVAL},
        {"accept", "a=1&%5Fmethod=DELETE", -EINVAL},
        {"accept", "a=1;_METHOD=DELETE", -EINVAL},
        {"accept", "x-http-method-override=PUT", -EINVAL},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        const struct http_header header = {str_of(rows[i].header), STR("DELETE")};
        struct err err;
        int r = shell_overrides(&header, 1, str_of(rows[i].query), &err);

        CHECK_THAT(r == rows[i].want, "%s ?%s: %d", rows[i].header, rows[i].query, r);
    }
}

static void what_is_wrong_with_a_definition_is_said(void)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"{}", "baseUrl"},
        {"{\"baseUrl\":\"ftp://x\"," KEY "}", "baseUrl"},
        {"{\"baseUrl\":\"https://\"," KEY "}", "baseUrl"},
        {"{\"baseUrl\":\"https://u:p@x\"," KEY "}", "baseUrl"},
        {"{\"baseUrl\":\"https://x/?a\"," KEY "}", "baseUrl"},
        {"{\"baseUrl\":\"https://x:0\"," KEY "}", "baseUrl"},
        {"{\"baseUrl\":\"https://x:99999\"," KEY "}", "baseUrl"},
        {"{\"baseUrl\":\"https://x/../y\"," KEY "}", "baseUrl"},
        {"{\"baseUrl\":\"https://x\",\"methods\":[]," KEY "}", "methods"},
        {"{\"baseUrl\":\"https://x\",\"methods\":[\"TRACE\"]," KEY "}", "methods"},
        {"{\"baseUrl\":\"https://x\",\"methods\":[\"GET PUT\"]," KEY "}", "methods"},
        {"{\"baseUrl\":\"https://x\",\"paths\":[\"x\"]," KEY "}", "paths[0]"},
        {"{\"baseUrl\":\"https://x\",\"paths\":[\"/a\",\"/%2e\"]," KEY "}", "paths[1]"},
        {"{\"baseUrl\":\"https://x\",\"paths\":\"/\"," KEY "}", "paths"},
        {"{\"baseUrl\":\"https://x\"}", "header and query"},
        {"{\"baseUrl\":\"https://x\",\"query\":{\"name\":\"k\",\"value\":\"v\"}," KEY "}",
         "header and query"},
        {"{\"baseUrl\":\"https://x\",\"header\":{\"name\":\"Host\",\"value\":\"v\"}}",
         "header.name"},
        {"{\"baseUrl\":\"https://x\",\"header\":{\"name\":\"a b\",\"value\":\"v\"}}",
         "header.name"},
        {"{\"baseUrl\":\"https://x\",\"query\":{\"name\":\"k\"}}", "query.value"},
        {"{\"baseUrl\":\"https://x\",\"extra\":1," KEY "}", "extra"},
        {"{\"baseUrl\":\"https://x\",\"description\":1," KEY "}", "description"},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        json_t *definition = json_loads(rows[i].text, 0, NULL);
        struct shell *shell = NULL;
        struct err err = {0};

        CHECK_THAT(shell_new("api", definition, &shell, &err) == -EINVAL, "%s", rows[i].text);
        CHECK_THAT(strstr(err.msg, rows[i].said), "%s: %s", rows[i].text, err.msg);
        json_decref(definition);
    }
}

int main(void)
{
    static const struct check_test tests[] = {
        {"patterns say what they look like", patterns_say_what_they_look_like},
        {"a pattern of many beginnings takes no time", a_pattern_of_many_beginnings_takes_no_time},
        {"requests are read as a strict server reads them",
         requests_are_read_as_a_strict_server_reads_them},
        {"targets carry the key where it belongs", targets_carry_the_key_where_it_belongs},
        {"redirects stay within the base", redirects_stay_within_the_base},
        {"a redirect is told without the key", a_redirect_is_told_without_the_key},
        {"what asks for another method or path is refused",
         what_asks_for_another_method_or_path_is_refused},
        {"what is wrong with a definition is said", what_is_wrong_with_a_definition_is_said},
    };

    return check_run(tests, countof(tests));
}
