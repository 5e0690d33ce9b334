/* Calls of tools as fibers that are clients of a real server, on one loop. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "check.h"
#include "http_app.h"
#include "lib/base/fiber.h"
#include "serve/api/fields.h"
#include "tools/call.h"
#include "tools/client.h"
#include "tools/front_end.h"
#include "tools/side_fiber.h"

enum { LONG_BYTES = 3 * 1000 * 1000, MANY = 20 };

/* ---- a house with a server and the tools; what the last calls came to ---- */

static struct app app;
static struct tools *tools;
static unsigned adopted, done_n, stopped_n;
static int last_error;
static char last_sentence[256], last_text[64], progress[128];

static int dial(void *ctx, struct err *err)
{
    int pair[2];

    (void)ctx;
    adopted++;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        return err_sys(err, "make a connection");
    }
    int r = http_server_adopt(app.server, pair[1], NULL, err);
    return r < 0 ? r : pair[0];
}

static bool start_with(struct http_server_options options)
{
    const struct tools_options use = {.loop = &app.loop, .dial = dial, .sandbox_s_max = 3600};
    struct err err;

    memset(&app, 0, sizeof(app));
    adopted = done_n = stopped_n = 0;
    progress[0] = last_text[0] = '\0';
    return app_start(&app, options, NULL) && tools_new(&use, &tools, &err) == 0;
}

static bool start(void)
{
    return start_with((struct http_server_options){0});
}

static void on_stopped(void *ctx)
{
    (void)ctx;
    stopped_n++;
}

static bool end(void)
{
    tools_stop(tools, on_stopped, NULL);
    bool stopped = APP_UNTIL(&app, stopped_n == 1);
    tools_free(tools);
    return app_end(&app) && stopped;
}

static void on_done(void *ctx, int error, const json_t *out, const struct err *err)
{
    const char *text = json_string_value(json_object_get(out, "text"));

    (void)ctx;
    done_n++;
    last_error = error;
    (void)snprintf(last_sentence, sizeof(last_sentence), "%s", error < 0 ? err->msg : "");
    (void)snprintf(last_text, sizeof(last_text), "%s", text ? text : "");
}

static void on_progress(void *ctx, uint32_t done, uint32_t all, const char *text)
{
    size_t used = strlen(progress);

    (void)ctx;
    (void)snprintf(progress + used, sizeof(progress) - used, "[%u/%u %s]", done, all, text);
}

static const struct call_listener listener = {.progress = on_progress, .done = on_done};
static const struct tools_who who = {"team-1", {"e2b_key", 7}};

static struct tool_call *begin(tool_run *run)
{
    struct tool_call *call = NULL;
    struct err err;

    return call_start_run(tools, run, &who, json_object(), &listener, NULL, &call, &err) == 0
               ? call
               : NULL;
}

/* Runs one call to its end. */
static bool play(tool_run *run)
{
    unsigned before = done_n;

    return begin(run) && APP_UNTIL(&app, done_n > before);
}

/* ---- asking ---- */

static int say(json_t **out, const char *text)
{
    *out = json_pack("{ss}", "text", text);
    return 0;
}

static int ask(struct tool_call *call, const char *method, const char *target, struct str body,
               struct buf *answer, struct err *err)
{
    const struct ask_plan plan = {.method = method, .target = target, .body = body};
    scoped_ask *open = NULL;

    int r = ask_open(call_tools(call), &plan, &open, err);
    r = r == 0 ? ask_gather(open, answer, err) : r;
    return r == 0 ? ask_status(open) : r;
}

static int run_hello(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    scoped_buf(answer, 100);

    (void)input;
    int r = ask(call, "GET", "/hello", (struct str){0}, &answer, err);
    if (r < 0) {
        return r;
    }
    return r == 200 && str_eq(buf_str(&answer), STR("hello")) ? say(out, "good") : say(out, "bad");
}

static void a_call_asks_the_server_on_connections_that_are_used_again(void)
{
    CHECK(start());
    for (int i = 0; i < 5; i++) {
        CHECK(play(run_hello));
        CHECK_INT(last_error, 0);
        CHECK_STR(last_text, "good");
    }
    CHECK_INT(adopted, 1);
    CHECK_INT(app.requests, 5);
    CHECK(end());
}

static void a_connection_that_was_closed_while_idle_is_not_missed(void)
{
    CHECK(start_with((struct http_server_options){.idle_timeout_ms = 20}));
    CHECK(play(run_hello));
    uint64_t until_ns = uv_hrtime() + 200 * 1000000ULL;
    APP_UNTIL(&app, uv_hrtime() > until_ns || adopted > 1);
    CHECK(play(run_hello));
    CHECK_STR(last_text, "good");
    CHECK_INT(adopted, 2);
    CHECK(end());
}

static int run_long(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    char *sent = malloc(LONG_BYTES);
    scoped_buf(answer, LONG_BYTES);

    (void)input;
    for (size_t i = 0; i < LONG_BYTES; i++) {
        sent[i] = (char)('a' + i % 23);
    }
    int r = ask(call, "POST", "/echo", (struct str){sent, LONG_BYTES}, &answer, err);
    bool same = r == 200 && str_eq(buf_str(&answer), (struct str){sent, LONG_BYTES});
    free(sent);
    return r < 0 ? r : say(out, same ? "same" : "other");
}

static void bodies_longer_than_a_window_travel_both_ways(void)
{
    CHECK(start());
    CHECK(play(run_long));
    CHECK_STR(last_text, "same");
    CHECK(end());
}

static int run_too_long(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    scoped_buf(answer, 1000);

    (void)input, (void)out;
    return ask(call, "GET", "/down?n=100000", (struct str){0}, &answer, err);
}

static int run_cut_off(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    scoped_buf(answer, 10000);

    (void)input, (void)out;
    return ask(call, "GET", "/abort", (struct str){0}, &answer, err);
}

static void answers_that_are_too_long_or_cut_off_are_errors(void)
{
    CHECK(start());
    CHECK(play(run_too_long));
    CHECK_INT(last_error, -EMSGSIZE);
    CHECK(play(run_cut_off));
    CHECK_INT(last_error, -EIO);
    CHECK(end());
}

static int run_refused(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    (void)input, (void)out;
    return call_api(call, "GET", "/early", NULL, NULL, err);
}

static void what_the_api_refuses_is_an_errno_and_its_status(void)
{
    CHECK(start());
    CHECK(play(run_refused));
    CHECK_INT(last_error, -EPERM);
    CHECK_INT(call_status_of(-EPERM), 403);
    for (int status = 400; status < 600; status++) {
        int error = call_errno_of(status);
        CHECK(error < 0 && (error == -EIO || call_status_of(error) == status));
    }
    CHECK_INT(call_status_of(-EEXIST), 409);
    CHECK_INT(call_status_of(-EIO), 502); /* a sandbox that went away is no fault of ours */
    CHECK_INT(call_status_of(-EPROTO), 500);
    CHECK(end());
}

/* ---- leaving ---- */

static bool cleaned;

static int run_waits(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    scoped_buf(answer, 100);
    scoped_buf(empty, 100);
    struct err ignored;

    (void)input, (void)out;
    int r = ask(call, "GET", "/wait", (struct str){0}, &answer, err);
    fiber_shield();
    cleaned = ask(call, "GET", "/empty", (struct str){0}, &empty, &ignored) == 204;
    fiber_unshield();
    return r;
}

static int run_limited(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    const struct ask_plan plan = {.method = "GET", .target = "/wait", .limit_ms = 50};
    scoped_ask *open = NULL;

    (void)input, (void)out;
    fiber_shield();
    int r = ask_open(call_tools(call), &plan, &open, err);
    fiber_unshield();
    return r;
}

static void a_shielded_wait_ends_at_its_limit(void)
{
    CHECK(start());
    CHECK(play(run_hello)); /* a connection that is used again is no excuse to ask twice */
    CHECK(play(run_limited));
    CHECK_INT(last_error, -ETIMEDOUT);
    CHECK(play(run_hello));
    CHECK_INT(last_error, 0);
    CHECK(end());
}

static void a_call_that_is_cancelled_cleans_up_and_is_told(void)
{
    CHECK(start());
    cleaned = false;
    struct tool_call *call = begin(run_waits);
    CHECK(APP_UNTIL(&app, app.waiting));
    call_cancel(call);
    CHECK(APP_UNTIL(&app, done_n == 1));
    CHECK_INT(last_error, -ECANCELED);
    CHECK(cleaned);
    CHECK(end());
}

static void a_call_that_is_abandoned_cleans_up_and_tells_nobody(void)
{
    CHECK(start());
    cleaned = false;
    struct tool_call *call = begin(run_waits);
    CHECK(APP_UNTIL(&app, app.waiting));
    call_abandon(call);
    CHECK(APP_UNTIL(&app, cleaned));
    CHECK(end());
    CHECK_INT(done_n, 0);
}

static void a_call_can_be_cancelled_before_it_has_begun(void)
{
    CHECK(start());
    struct tool_call *call = begin(run_hello);
    call_cancel(call);
    CHECK(APP_UNTIL(&app, done_n == 1));
    CHECK_INT(last_error, -ECANCELED);
    CHECK_INT(app.requests, 0);
    CHECK(end());
}

static void a_stop_cancels_all_and_tells_when_they_are_done(void)
{
    struct tool_call *call = NULL;
    struct err err;

    CHECK(start());
    cleaned = false;
    for (int i = 0; i < 3; i++) {
        CHECK(begin(run_waits));
    }
    CHECK(APP_UNTIL(&app, app.requests == 3));
    tools_stop(tools, on_stopped, NULL);
    CHECK(APP_UNTIL(&app, stopped_n == 1));
    CHECK_INT(done_n, 3);
    CHECK(cleaned);
    CHECK_INT(call_start_run(tools, run_hello, &who, json_object(), &listener, NULL, &call, &err),
              -EAGAIN);
    tools_free(tools);
    CHECK(app_end(&app));
}

/* ---- limits and input ---- */

static void a_team_has_so_many_calls_at_a_time(void)
{
    const struct tools_who other = {"team-2", {"e2b_other", 9}};
    struct tool_call *call = NULL;
    struct err err;

    CHECK(start());
    for (int i = 0; i < TOOLS_CALLS_PER_TEAM_MAX; i++) {
        CHECK(begin(run_hello));
    }
    CHECK_INT(call_start_run(tools, run_hello, &who, json_object(), &listener, NULL, &call, &err),
              -EBUSY);
    CHECK_INT(call_start_run(tools, run_hello, &other, json_object(), &listener, NULL, &call, &err),
              0);
    CHECK(APP_UNTIL(&app, done_n == TOOLS_CALLS_PER_TEAM_MAX + 1));
    CHECK(end());
}

static void wrong_input_never_begins(void)
{
    const struct tool *tool = tool_find(STR("kill_sandbox"));
    struct tool_call *call = NULL;
    struct err err;

    CHECK(start());
    CHECK_INT(call_start(tools, tool, &who, json_pack("{si}", "sandbox_id", 5), &listener, NULL,
                         &call, &err),
              -EINVAL);
    CHECK_STR(err.msg, "sandbox_id: must be a string");
    CHECK(end());
    CHECK_INT(done_n, 0);
}

/* ---- beside ---- */

static unsigned at_once, most_at_once, ran;

static void one(void *ctx, size_t i)
{
    struct tool_call *call = ctx;

    (void)i;
    at_once++;
    most_at_once = at_once > most_at_once ? at_once : most_at_once;
    ran += call_sleep(call, 1) == 0;
    at_once--;
}

static int run_each(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    (void)input, (void)err;
    side_fiber_each(MANY, 4, one, call);
    call_progress(call, 1, 2, "%s", "half");
    return say(out, "all");
}

static void work_beside_is_bounded_and_joined(void)
{
    CHECK(start());
    at_once = most_at_once = ran = 0;
    CHECK(play(run_each));
    CHECK_INT(ran, MANY);
    CHECK_INT(most_at_once, 4);
    CHECK_STR(progress, "[1/2 half]");
    CHECK(end());
}

static void long_one(void *ctx, size_t i)
{
    struct tool_call *call = ctx;

    (void)i;
    at_once++;
    ran += call_sleep(call, 1000 * 1000) == 0;
    at_once--;
}

static int run_each_long(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    (void)input, (void)err;
    side_fiber_each(MANY, 4, long_one, call);
    return say(out, "all");
}

static void a_cancellation_reaches_what_runs_beside(void)
{
    CHECK(start());
    at_once = ran = 0;
    struct tool_call *call = begin(run_each_long);
    CHECK(APP_UNTIL(&app, at_once == 4));
    call_cancel(call);
    CHECK(APP_UNTIL(&app, done_n == 1));
    CHECK_INT(at_once, 0);
    CHECK_INT(ran, 0);
    CHECK(end());
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a call asks the server on connections that are used again",
         a_call_asks_the_server_on_connections_that_are_used_again},
        {"a connection that was closed while idle is not missed",
         a_connection_that_was_closed_while_idle_is_not_missed},
        {"bodies longer than a window travel both ways",
         bodies_longer_than_a_window_travel_both_ways},
        {"answers that are too long or cut off are errors",
         answers_that_are_too_long_or_cut_off_are_errors},
        {"what the API refuses is an errno and its status",
         what_the_api_refuses_is_an_errno_and_its_status},
        {"a shielded wait ends at its limit", a_shielded_wait_ends_at_its_limit},
        {"a call that is cancelled cleans up and is told",
         a_call_that_is_cancelled_cleans_up_and_is_told},
        {"a call that is abandoned cleans up and tells nobody",
         a_call_that_is_abandoned_cleans_up_and_tells_nobody},
        {"a call can be cancelled before it has begun",
         a_call_can_be_cancelled_before_it_has_begun},
        {"a stop cancels all and tells when they are done",
         a_stop_cancels_all_and_tells_when_they_are_done},
        {"a team has so many calls at a time", a_team_has_so_many_calls_at_a_time},
        {"wrong input never begins", wrong_input_never_begins},
        {"work beside is bounded and joined", work_beside_is_bounded_and_joined},
        {"a cancellation reaches what runs beside", a_cancellation_reaches_what_runs_beside},
    };

    return check_run(tests, countof(tests));
}
