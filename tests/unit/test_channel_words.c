/* Messages of an agent that are not about connections: questions, log lines, quiet. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "channel_fixture.h"
#include "lib/base/fd.h"

/* ---- questions ---- */

static void questions_share_a_count(void)
{
    setup();
    greet();
    say(CHANNEL_OOM, 10, 0, 0);
    say(CHANNEL_OOM, 11, 0, 0);
    CHECK_INT(oom_asked, 1);
    agent_channel_answer_oom(channel, 3);
    struct channel_message answer = hear();
    CHECK_INT(answer.op, CHANNEL_OOM);
    CHECK_INT(answer.seq, 10);
    CHECK_INT(answer.value, 3);
    CHECK_INT(oom_asked, 2); /* 11 came after the first count was asked for */
    agent_channel_answer_oom(channel, 4);
    answer = hear();
    CHECK_INT(answer.seq, 11);
    CHECK_INT(answer.value, 4);
    teardown();
}

static void too_many_questions_break(void)
{
    setup();
    greet();
    for (uint32_t i = 0; i <= CHANNEL_QUESTIONS_MAX; i++) {
        say(CHANNEL_OOM, i, 0, 0);
    }
    CHECK_INT(broken, 1);
    CHECK_INT(oom_asked, 1);
    teardown();
}

/* ---- log lines ---- */

static void say_line(uint32_t seq, uint32_t level, const char *text, size_t len)
{
    char data[sizeof(struct channel_message) + sizeof(struct channel_log) + 2 * 4096];
    struct channel_message message = {.op = CHANNEL_LOG, .seq = seq};
    struct channel_log log = {.wall_ms = 1234, .level = level, .lost = 2};

    memcpy(data, &message, sizeof(message));
    memcpy(data + sizeof(message), &log, sizeof(log));
    memcpy(data + sizeof(message) + sizeof(log), text, len);
    say_with(data, sizeof(message) + sizeof(log) + len, NULL, 0);
}

static void begin(void)
{
    setup();
    greet();
}

static void lines_come_within_credit(void)
{
    begin();
    agent_channel_credit_logs(channel, 7);
    struct channel_message credit = hear();
    CHECK_INT(credit.op, CHANNEL_LOG);
    CHECK_INT(credit.seq, 7);
    CHECK_INT(credit.value, SANDBOX_LOG_WINDOW);
    say_line(8, LOG_WARN, "{\"a\":1}", 7);
    say_line(7 + SANDBOX_LOG_WINDOW, LOG_INFO, "x", 1);
    CHECK_INT(lines_n, 2);
    CHECK_STR(texts[0], "{\"a\":1}");
    CHECK_INT(lines[0].seq, 8);
    CHECK_INT(lines[0].lost, 2);
    CHECK_INT(lines[0].wall_ms, 1234);
    CHECK_INT(lines[0].level, LOG_WARN);
    CHECK_INT(broken, 0);
    teardown();
}

/* An agent that was taken over may send anything. */
static void bad_lines_break(void)
{
    static const struct {
        uint32_t seq, level;
        size_t len;
    } bad[] = {
        {SANDBOX_LOG_WINDOW + 1, LOG_INFO, 5},    /* beyond the credit */
        {0, LOG_INFO, 5},                         /* before it */
        {1, LOG_ERROR + 1, 5},                    /* no level */
        {1, LOG_INFO, 0},                         /* no text */
        {1, LOG_INFO, CHANNEL_LOG_BYTES_MAX + 1}, /* too much of it */
    };
    static char text[2 * CHANNEL_LOG_BYTES_MAX];

    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < countof(bad); i++) {
        begin();
        agent_channel_credit_logs(channel, 0);
        say_line(bad[i].seq, bad[i].level, text, bad[i].len);
        CHECK_INT(broken, 1);
        CHECK_INT(lines_n, 0);
        teardown();
    }
    begin(); /* nothing was asked for */
    say_line(1, LOG_INFO, "x", 1);
    CHECK_INT(broken, 1);
    teardown();
}

static void the_longest_line_fits(void)
{
    static char text[CHANNEL_LOG_BYTES_MAX];

    memset(text, 'x', sizeof(text));
    begin();
    agent_channel_credit_logs(channel, 0);
    say_line(1, LOG_INFO, text, sizeof(text));
    CHECK_INT(lines_n, 1);
    CHECK_INT(strlen(texts[0]), CHANNEL_LOG_BYTES_MAX);
    teardown();
}

static void an_older_agent_has_no_log(void)
{
    begin();
    agent_channel_credit_logs(channel, 0);
    say(CHANNEL_LOG, 0, -EPROTONOSUPPORT, 0);
    CHECK_INT(broken, 0);
    CHECK_INT(lines_n, 0);
    teardown();
}

static int quiet;

static void on_quiet(void *ctx, int error)
{
    (void)ctx;
    quiet = error == 0 ? 1 : error;
}

static struct channel_message ask_quiet(void)
{
    quiet = 0;
    agent_channel_quiet(channel, CHANNEL_QUIET_HOLD, on_quiet);
    turn();
    return hear();
}

/* It is quiet when its end of the channel is seen to be closed; that is no break. */
static void quiet_is_known_by_the_close(void)
{
    for (int unread = 0; unread < 2; unread++) {
        setup();
        greet();
        struct channel_message asked = ask_quiet();
        CHECK_INT(asked.op, CHANNEL_QUIET);
        CHECK_INT(asked.value, CHANNEL_QUIET_HOLD);
        agent_channel_connect(channel, AGENT_PORT, on_answer, NULL);
        if (!unread) {
            (void)hear(); /* else the close resets, before the answer is read */
        }
        struct channel_message answer = {.op = CHANNEL_QUIET, .seq = asked.seq};
        (void)send(agent, &answer, sizeof(answer), MSG_NOSIGNAL);
        fd_closep(&agent);
        turn();
        CHECK_INT(quiet, 1);
        CHECK_INT(broken, 0);
        CHECK_INT(answers_n, 1);
        CHECK_INT(answers[0], -ECONNRESET);
        channel = NULL;
        teardown();
    }
}

static void on_answer_again(void *ctx, int fd_or_error)
{
    answers[answers_n++] = fd_or_error;
    agent_channel_connect(ctx, AGENT_PORT, on_answer, NULL);
}

/* The edge asks again when a request fails, before anybody is told that the channel is gone. */
static void asking_again_while_it_closes_is_refused(void)
{
    setup();
    greet();
    agent_channel_connect(channel, AGENT_PORT, on_answer_again, channel);
    (void)hear();
    struct channel_message asked = ask_quiet();
    say(CHANNEL_QUIET, asked.seq, 0, 0);
    fd_closep(&agent);
    turn();
    CHECK_INT(quiet, 1);
    CHECK_INT(answers_n, 2);
    CHECK(answers[0] < 0 && answers[1] < 0);
    channel = NULL;
    teardown();
}

static void who_cannot_be_quiet_says_so(void)
{
    setup();
    greet();
    struct channel_message asked = ask_quiet();
    say(CHANNEL_QUIET, asked.seq, -EPROTONOSUPPORT, 0);
    CHECK_INT(quiet, -EPROTONOSUPPORT);
    CHECK_INT(broken, 0);
    (void)ask_quiet();
    fd_closep(&agent); /* without an answer */
    turn();
    CHECK_INT(quiet, -ECONNRESET);
    CHECK_INT(broken, 1);
    channel = NULL;
    teardown();

    setup();
    greet();
    say(CHANNEL_QUIET, 7, 0, 0);
    CHECK_INT(broken, 1);
    channel = NULL;
    teardown();
}

/* Its word alone would hold up a pause, and with it the end of the sandbox's time. */
static void who_says_it_is_quiet_and_stays_is_cut_off(void)
{
    setup();
    greet();
    struct channel_message asked = ask_quiet();
    say(CHANNEL_QUIET, asked.seq, 0, 0);
    CHECK_INT(quiet, 0);
    while (quiet == 0 && uv_run(&loop, UV_RUN_ONCE)) {
        ; /* until CHANNEL_TIMEOUT_MS have passed */
    }
    CHECK_INT(quiet, -ECONNRESET);
    CHECK_INT(broken, 1);
    CHECK(strstr(broken_why, "does not close") != NULL);
    teardown();
}

static void last_words_are_heard(void)
{
    struct channel_message message = {.op = CHANNEL_LOG, .seq = 1};
    struct channel_log log = {.level = LOG_INFO};
    char data[sizeof(message) + sizeof(log) + 1];

    begin();
    agent_channel_credit_logs(channel, 0);
    memcpy(data, &message, sizeof(message));
    memcpy(data + sizeof(message), &log, sizeof(log));
    data[sizeof(data) - 1] = 'x';
    CHECK_INT(send(agent, data, sizeof(data), 0), sizeof(data)); /* and the loop does not run */
    agent_channel_drain_logs(channel);
    CHECK_INT(lines_n, 1);
    teardown();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"questions share a count", questions_share_a_count},
        {"too many questions break", too_many_questions_break},
        {"lines come within credit", lines_come_within_credit},
        {"bad lines break", bad_lines_break},
        {"the longest line fits", the_longest_line_fits},
        {"an older agent has no log", an_older_agent_has_no_log},
        {"quiet is known by the close", quiet_is_known_by_the_close},
        {"asking again while it closes is refused", asking_again_while_it_closes_is_refused},
        {"who cannot be quiet says so", who_cannot_be_quiet_says_so},
        {"who says it is quiet and stays is cut off", who_says_it_is_quiet_and_stays_is_cut_off},
        {"last words are heard", last_words_are_heard},
    };

    return check_run(tests, countof(tests));
}
