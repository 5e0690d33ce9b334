/* The exporter against a collector of the test's own: batches, refusals, and its bounds. The bodies
 * are read with OpenTelemetry's own messages in tests/system/test_otlp.py. */
#include <jansson.h>
#include <string.h>
#include <uv.h>

#include "check.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/http/server.h"
#include "serve/telemetry/otlp.h"

enum { WAIT_MS = 15 * 1000 };

static struct {
    uv_loop_t loop;
    struct http_server *http;
    struct otlp *otlp;
    uv_timer_t tick;
    int status; /* that the collector answers with */
    int posts, spans;
    bool authorized, stopped;
    char path[64];
} t;

/* ---- the collector ---- */

static void on_body(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    scoped_json *json = error == 0 ? json_loadb(body.at, body.len, 0, NULL) : NULL;
    const json_t *group = json_array_get(json_object_get(json, "resourceSpans"), 0);
    const json_t *scope = json_array_get(json_object_get(group, "scopeSpans"), 0);

    (void)ctx;
    if (error < 0) {
        return;
    }
    t.posts++;
    if (t.status == 200) {
        t.spans += (int)json_array_size(json_object_get(scope, "spans"));
    }
    http_reply(ex, t.status, "application/json", "{}", 2);
}

static void on_request(void *ctx, struct http_exchange *ex)
{
    (void)ctx;
    t.authorized = str_eq(http_header_get(http_request(ex), "authorization"), STR("Bearer a b"));
    (void)str_copy(t.path, sizeof(t.path), http_request(ex)->path);
    http_gather(ex, 64 * 1024 * 1024, on_body, NULL, NULL);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer; /* wakes the loop, so that waits end */
}

static bool start(void)
{
    struct http_server_options server = {.loop = &t.loop, .on_request = on_request};
    struct err err = {0};
    char url[64];

    memset(&t, 0, sizeof(t));
    t.status = 200;
    (void)uv_loop_init(&t.loop);
    (void)uv_timer_init(&t.loop, &t.tick);
    (void)uv_timer_start(&t.tick, on_tick, 10, 10);
    server.loop = &t.loop;
    if (http_server_new(&server, &t.http, &err) < 0 ||
        http_server_listen(t.http, "127.0.0.1:0", NULL, &err) < 0) {
        return false;
    }
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/", http_server_port(t.http));
    const struct otlp_options options = {.loop = &t.loop,
                                         .endpoint = url,
                                         .headers = "Authorization=Bearer%20a%20b, X-More=1",
                                         .sample = 1,
                                         .version = "1",
                                         .instance = ""};
    return otlp_new(&options, &t.otlp, &err) == 0;
}

static void on_stopped(void *ctx)
{
    (void)ctx;
    t.stopped = true;
}

static void stop(void)
{
    otlp_free(t.otlp);
    http_server_stop(t.http, 0, on_stopped, NULL);
    while (!t.stopped) {
        (void)uv_run(&t.loop, UV_RUN_ONCE);
    }
    http_server_free(t.http);
    uv_close((uv_handle_t *)&t.tick, NULL);
    (void)uv_run(&t.loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&t.loop), 0);
}

static struct otlp_figures figures(void)
{
    struct otlp_figures all[OTLP_SIGNALS];

    otlp_figures(t.otlp, all);
    return all[OTLP_TRACES];
}

static bool wait_until(bool (*reached)(void))
{
    int64_t end_ms = clock_mono_ms() + WAIT_MS;

    while (!reached() && clock_mono_ms() < end_ms) {
        (void)uv_run(&t.loop, UV_RUN_ONCE);
    }
    return reached();
}

static void report(int n)
{
    const struct tracer tracer = otlp_tracer(t.otlp);
    struct trace_place place;

    for (int i = 0; i < n; i++) {
        trace_begin(&place, 1);
        trace_step(&tracer, &place, "step\xff", clock_mono_us(), clock_mono_us(), NULL, 0);
    }
}

/* ---- tests ---- */

static bool three_came(void)
{
    return t.spans == 3 && figures().sent == 3;
}

static void spans_go_together_with_the_headers(void)
{
    CHECK(start());
    report(3);
    CHECK(wait_until(three_came));
    CHECK_INT(t.posts, 1);
    CHECK(t.authorized);
    CHECK_STR(t.path, "/v1/traces");
    stop();
}

static bool was_refused(void)
{
    return figures().posts_failed >= 1;
}

static void a_refusal_for_the_moment_is_tried_again(void)
{
    CHECK(start());
    t.status = 503;
    report(3);
    CHECK(wait_until(was_refused));
    CHECK_INT(figures().dropped, 0);
    t.status = 200;
    CHECK(wait_until(three_came));
    CHECK(t.posts >= 2);
    stop();
}

static bool was_dropped(void)
{
    return figures().dropped == 3;
}

static void another_refusal_drops_the_batch(void)
{
    CHECK(start());
    t.status = 400;
    report(3);
    CHECK(wait_until(was_dropped));
    CHECK_INT(t.posts, 1);
    CHECK_INT(figures().waiting, 0);
    stop();
}

static bool queue_came(void)
{
    return t.spans == OTLP_QUEUE_MAX;
}

static void a_full_queue_drops_what_comes(void)
{
    CHECK(start());
    report(OTLP_QUEUE_MAX + 10); /* before the loop runs */
    CHECK_INT(figures().dropped, 10);
    CHECK_INT(figures().waiting, OTLP_QUEUE_MAX);
    CHECK(wait_until(queue_came));
    CHECK_INT(t.posts, OTLP_QUEUE_MAX / OTLP_BATCH_MAX);
    report(5);
    stop(); /* with some that wait */
}

static void bad_options_are_refused(void)
{
    struct otlp_options options = {
        .loop = &t.loop, .endpoint = "gopher://x", .headers = "", .version = "", .instance = ""};
    struct otlp *otlp = NULL;
    struct err err;
    double ratio = 0;

    CHECK(otlp_new(&options, &otlp, &err) < 0);
    options.endpoint = "http://127.0.0.1:1";
    options.headers = "no-equals";
    CHECK(otlp_new(&options, &otlp, &err) < 0);
    options.headers = "A=x%0d%0aB: y";
    CHECK(otlp_new(&options, &otlp, &err) < 0);
    CHECK(!strstr(err.msg, "B: y"));
    CHECK(otlp_sample_parse("0.5", &ratio, &err) == 0 && ratio == 0.5);
    CHECK(otlp_sample_parse("1.1", &ratio, &err) < 0);
    CHECK(otlp_sample_parse("nan", &ratio, &err) < 0);
    CHECK(otlp_sample_parse("", &ratio, &err) < 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"spans go together, with the headers", spans_go_together_with_the_headers},
        {"a refusal for the moment is tried again", a_refusal_for_the_moment_is_tried_again},
        {"another refusal drops the batch", another_refusal_drops_the_batch},
        {"a full queue drops what comes", a_full_queue_drops_what_comes},
        {"bad options are refused", bad_options_are_refused},
    };

    return check_run(tests, countof(tests));
}
