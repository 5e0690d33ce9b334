/* Webhooks with the real store, libcurl, and an endpoint on the same loop. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <uv.h>

#include "check.h"
#include "lib/base/clock.h"
#include "lib/http/server.h"
#include "lib/web/address.h"
#include "serve/store/store.h"
#include "serve/telemetry/webhooks.h"
#include "tmpdir.h"

enum { GOT_MAX = 64, PATIENCE_MS = 60 * 1000 };

static struct {
    uv_loop_t loop;
    struct store *store;
    struct webhooks *webhooks;
    struct http_server *http;
    char path[64];
    bool stopped;
    int status;   /* what the endpoint answers */
    int failures; /* how often it answers 500 before */
    int got_n;    /* bodies that it has taken */
    char got[GOT_MAX][16];
    char signature[64], delivery[64];
} t;

/* ---- the endpoint ---- */

static void on_body(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    (void)ctx;
    if (error < 0) {
        return;
    }
    if (t.failures > 0) {
        t.failures--;
        http_reply(ex, 500, NULL, NULL, 0);
        return;
    }
    if (t.got_n < GOT_MAX && t.status == 200) {
        (void)str_copy(t.got[t.got_n++], sizeof(t.got[0]), body);
    }
    (void)str_copy(t.signature, sizeof(t.signature),
                   http_header_get(http_request(ex), "e2b-signature"));
    (void)str_copy(t.delivery, sizeof(t.delivery),
                   http_header_get(http_request(ex), "e2b-delivery-id"));
    http_reply(ex, t.status, NULL, NULL, 0);
}

static void on_request(void *ctx, struct http_exchange *ex)
{
    http_gather(ex, 4096, on_body, NULL, ctx);
}

/* ---- the whole ---- */

static void open_webhooks(bool allow_local)
{
    struct webhooks_options options = {&t.loop, t.store, allow_local};
    struct err err;

    if (webhooks_new(&options, &t.webhooks, &err) < 0) {
        abort();
    }
}

static void setup(const struct tmpdir *dir)
{
    struct http_server_options http = {.loop = &t.loop, .on_request = on_request};
    struct team_row team = {.id = "team", .name = "team", .created_ms = 1};
    struct err err;

    memset(&t, 0, sizeof(t));
    t.status = 200;
    (void)snprintf(t.path, sizeof(t.path), "%s/state.db", dir->path);
    if (uv_loop_init(&t.loop) < 0 || store_open(&t.loop, t.path, &t.store, &err) < 0 ||
        http_server_new(&http, &t.http, &err) < 0 ||
        http_server_listen(t.http, "127.0.0.1:0", NULL, &err) < 0) {
        abort();
    }
    store_team_save(t.store, &team, NULL, NULL);
    open_webhooks(true);
}

static void on_stopped(void *ctx)
{
    (void)ctx;
    t.stopped = true;
}

static void teardown(void)
{
    webhooks_free(t.webhooks);
    http_server_stop(t.http, 1000, on_stopped, NULL);
    while (!t.stopped) {
        (void)uv_run(&t.loop, UV_RUN_ONCE);
    }
    http_server_free(t.http);
    store_close(t.store);
    (void)uv_run(&t.loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&t.loop) != 0) {
        printf("# the loop still has handles\n");
        check_failed = true;
    }
}

static void on_beat(uv_timer_t *timer)
{
    (void)timer;
}

static bool run_until(bool (*check)(void))
{
    int64_t deadline = clock_mono_ms() + PATIENCE_MS;
    uv_timer_t beat;

    (void)uv_timer_init(&t.loop, &beat);
    (void)uv_timer_start(&beat, on_beat, 10, 10);
    while (!check() && clock_mono_ms() < deadline) {
        (void)uv_run(&t.loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&beat, NULL);
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    return check();
}

static int answers, answer_error;

static void on_done(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)err;
    answers++;
    answer_error = error;
}

static bool answered(void)
{
    return answers > 0;
}

static bool make_webhook(const char *id)
{
    char url[64];
    struct webhook_row row = {id, "team", "name", url, ",.created,.killed,", "secret", true, 1};

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/hook", http_server_port(t.http));
    answers = 0;
    webhook_create(t.webhooks, &row, on_done, NULL);
    return run_until(answered) && answer_error == 0;
}

static void event(const char *sandbox, const char *body)
{
    struct sandbox_row row = {
        .id = sandbox, .team_id = "team", .template_id = "t", .state = "running"};
    struct event_row what = {.id = body,
                             .team_id = "team",
                             .sandbox_id = sandbox,
                             .type = ".created",
                             .timestamp_ms = clock_wall_ms(),
                             .body = body};

    store_sandbox_save(t.store, &row, &what, STORE_LAZY, NULL, NULL);
}

static int wanted_n;

static bool all_came(void)
{
    return t.got_n >= wanted_n;
}

/* ---- pure ---- */

static void signs(void)
{
    char out[WEBHOOK_SIGNATURE_BYTES];

    webhook_sign("secret", "{\"a\":1}", out);
    CHECK_STR(out, "N7005LKS7534v-cOP1BSYTkklJDDwllM8gF1unZl4B0");
}

static bool own(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        return address_is_own((const struct sockaddr *)&in);
    }
    if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1) {
        return address_is_own((const struct sockaddr *)&in6);
    }
    abort();
}

static void knows_its_own_addresses(void)
{
    static const char *const ours[] = {
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",
        "169.254.169.254",
        "100.100.100.200",
        "192.0.0.192",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "::ffff:0:7f00:1",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::",
        "2001::1",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
    };
    static const char *const strangers[] = {"192.0.2.1",         "198.51.100.7", "2001:db8::1",
                                            "::ffff:192.0.2.1",  "128.0.0.1",    "223.255.255.255",
                                            "::ffff:0:192.0.2.1"};

    for (size_t i = 0; i < countof(ours); i++) {
        CHECK_THAT(own(ours[i]), "%s is ours", ours[i]);
    }
    for (size_t i = 0; i < countof(strangers); i++) {
        CHECK_THAT(!own(strangers[i]), "%s is a stranger's", strangers[i]);
    }
    CHECK(address_is_own(&(const struct sockaddr){.sa_family = AF_UNIX}));
}

static void knows_its_interfaces(void)
{
    struct ifaddrs *all = NULL;

    CHECK_INT(getifaddrs(&all), 0);
    for (const struct ifaddrs *it = all; it && !check_failed; it = it->ifa_next) {
        int family = it->ifa_addr ? it->ifa_addr->sa_family : 0;
        if ((family == AF_INET || family == AF_INET6) && !address_is_own(it->ifa_addr)) {
            printf("# the address of %s is not known as ours\n", it->ifa_name);
            check_failed = true;
        }
    }
    freeifaddrs(all);
}

static void checks_urls(void)
{
    static const char *const good[] = {"http://example.com", "https://example.com:8443/a?b=c",
                                       "http://192.0.2.1/", "http://[2001:db8::1]:80/"};
    static const char *const bad[] = {"",           "example.com",        "ftp://example.com/",
                                      "http://",    "file:///etc/passwd", "gopher://x/",
                                      "http://a b/"};
    static const char *const local[] = {
        "http://127.0.0.1/",          "http://127.1/",           "http://0x7f000001/",
        "http://2130706433/",         "http://[::1]/",           "http://0/",
        "http://[::ffff:127.0.0.1]/", "http://169.254.169.254/x"};
    struct err err;

    for (size_t i = 0; i < countof(good); i++) {
        CHECK_THAT(post_check_url(good[i], false, &err) == 0, "%s: %s", good[i], err.msg);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(post_check_url(bad[i], true, &err) == -EINVAL, "%s was taken", bad[i]);
    }
    for (size_t i = 0; i < countof(local); i++) {
        CHECK_THAT(post_check_url(local[i], false, &err) == -EINVAL, "%s was taken", local[i]);
        CHECK_THAT(post_check_url(local[i], true, &err) == 0, "%s: %s", local[i], err.msg);
    }
}

/* ---- deliveries ---- */

static void delivers_in_order(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK(make_webhook("w"));
    for (int i = 0; i < 20; i++) {
        char body[16];

        (void)snprintf(body, sizeof(body), "%d", i);
        event(i % 2 ? "odd" : "even", body);
    }
    wanted_n = 20;
    CHECK(run_until(all_came));
    int last[2] = {-1, -1};
    for (int i = 0; i < 20; i++) {
        int number = atoi(t.got[i]);

        CHECK_THAT(number > last[number % 2], "%d came behind %d", number, last[number % 2]);
        last[number % 2] = number;
    }
    CHECK_INT(strlen(t.signature), 43);
    CHECK_INT(strlen(t.delivery), 36);
    teardown();
}

static void tries_again(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK(make_webhook("w"));
    t.failures = 2;
    event("a", "1");
    event("a", "2");
    wanted_n = 2;
    CHECK(run_until(all_came));
    CHECK_STR(t.got[0], "1");
    CHECK_STR(t.got[1], "2");
    CHECK_INT(t.failures, 0);
    teardown();
}

static bool no_failures_left(void)
{
    return t.failures == 0;
}

static void goes_on_after_a_restart(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK(make_webhook("w"));
    t.failures = 1;
    event("a", "1");
    event("a", "2");
    CHECK(run_until(no_failures_left));
    webhooks_free(t.webhooks);
    event("a", "3"); /* nobody is there to notice */
    open_webhooks(true);
    wanted_n = 3;
    CHECK(run_until(all_came));
    CHECK_STR(t.got[0], "1");
    CHECK_STR(t.got[1], "2");
    CHECK_STR(t.got[2], "3");
    teardown();
}

static struct {
    int calls, status;
    char error[256];
} trial;

static void on_tested(void *ctx, const char *delivery_id, const struct post_result *result)
{
    (void)ctx, (void)delivery_id;
    trial.calls++;
    trial.status = result->status;
    (void)snprintf(trial.error, sizeof(trial.error), "%s", result->error ? result->error : "");
}

static bool tested(void)
{
    return trial.calls > 0;
}

static bool try_webhook(void)
{
    trial.calls = 0;
    webhook_test(t.webhooks, "w", on_tested, NULL);
    return run_until(tested);
}

static void refuses_its_own_machine(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK(make_webhook("w"));
    CHECK(try_webhook());
    CHECK_INT(trial.status, 200);
    CHECK_STR(trial.error, "");

    webhooks_free(t.webhooks);
    open_webhooks(false); /* the same URL, which the operator allows no more */
    CHECK(try_webhook());
    CHECK_INT(trial.status, 0);
    CHECK_THAT(strstr(trial.error, "127.0.0.1 is an address of this machine"), "it said '%s'",
               trial.error);
    teardown();
}

static void says_what_was_answered(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK(make_webhook("w"));
    t.status = 302;
    CHECK(try_webhook());
    CHECK(strstr(trial.error, "redirects are not followed"));
    t.status = 404;
    CHECK(try_webhook());
    CHECK_STR(trial.error, "the endpoint answered 404");
    CHECK_INT(trial.status, 404);
    teardown();
}

static void ends_in_the_middle(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK(make_webhook("w"));
    for (int i = 0; i < 20; i++) {
        event(i % 2 ? "odd" : "even", "1");
    }
    wanted_n = 2;
    CHECK(run_until(all_came));
    trial.calls = 0;
    webhook_test(t.webhooks, "w", on_tested, NULL);
    answers = 0;
    webhook_delete(t.webhooks, "w", on_done, NULL);
    CHECK(!webhooks_find(t.webhooks, "team", "w"));
    CHECK(run_until(answered));
    teardown();
    CHECK_INT(trial.calls, 1);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"the signature is the one of the original", signs},
        {"addresses of this machine are known", knows_its_own_addresses},
        {"those of its interfaces too", knows_its_interfaces},
        {"URLs are checked", checks_urls},
        {"events are delivered in order", delivers_in_order},
        {"a failure is tried again, and what is behind it waits", tries_again},
        {"what is owed outlives the daemon", goes_on_after_a_restart},
        {"the machine itself is not called", refuses_its_own_machine},
        {"a failure says what was answered", says_what_was_answered},
        {"a deleted webhook ends cleanly", ends_in_the_middle},
    };

    return check_run(tests, countof(tests));
}
