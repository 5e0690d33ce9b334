/* The edge keeps a client's answer open while its sandbox is paused and resumed: commands and
 * cells. Agent and interpreter are played by the test. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "edge_house.h"
#include "lib/base/compiler.h"
#include "lib/rpc/frame.h"

enum { BODY_MAX = 16 * 1024, END = FRAME_END };

#define ABORTED "{\"error\":{\"code\":\"aborted\",\"message\":\"the sandbox is being paused\"}}"
#define START_JSON "{\"event\":{\"start\":{\"pid\":300}}}"
#define START_PROTO "\x0a\x05\x0a\x03\x08\xac\x02"

static char body[BODY_MAX]; /* what the client was given */
static size_t body_n;

/* ---- the agent ---- */

static bool one_by_one; /* every byte in a chunk and a packet of its own */

static void send_chunk(int fd, const char *data, size_t len)
{
    char head[16];

    (void)snprintf(head, sizeof(head), "%zx\r\n", len);
    say(fd, head);
    (void)!send(fd, data, len, MSG_NOSIGNAL);
    say(fd, "\r\n");
}

static size_t envelope(char *out, int flags, const char *payload, size_t len)
{
    frame_head(out, (uint8_t)flags, len);
    memcpy(out + FRAME_HEAD_BYTES, payload, len);
    return FRAME_HEAD_BYTES + len;
}

static void send_envelope(int fd, int flags, const char *payload, size_t len)
{
    char whole[4096];
    size_t n = envelope(whole, flags, payload, len);

    for (size_t i = 0; i < n; i += one_by_one ? 1 : n) {
        send_chunk(fd, whole + i, one_by_one ? 1 : n);
    }
}

static void send_text(int fd, int flags, const char *payload)
{
    send_envelope(fd, flags, payload, strlen(payload));
}

static void answer(int fd, const char *more)
{
    say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n");
    say(fd, more);
    say(fd, "\r\n");
}

static void end(int fd)
{
    say(fd, "0\r\n\r\n");
}

/* ---- the client ---- */

/* Reads the body of a chunked answer until `want` bytes are there, or it ends: true. */
static bool read_body(int fd, size_t want)
{
    while (body_n < want) {
        size_t len = strtoul(hear(fd, "\r\n"), NULL, 16);

        for (size_t got = 0; got < len + 2;) {
            ssize_t n = recv(fd, body + body_n + got, len + 2 - got, 0);
            if (n <= 0 || body_n + len + 2 > BODY_MAX) {
                return false;
            }
            got += (size_t)n;
        }
        body_n += len;
        if (len == 0) {
            return true;
        }
    }
    return false;
}

/* ---- a command ---- */

struct way {
    const char *path;
    const char *codec;
    const char *start;
    size_t start_len;
    const char *request; /* how the edge asks for the rest */
    size_t request_len;
    bool one_by_one;
};

static const struct way ways[] = {
    {"Start", "json", START_JSON, sizeof(START_JSON) - 1, "\0\0\0\0\x17{\"process\":{\"pid\":300}}",
     28, false},
    {"Connect", "json", START_JSON, sizeof(START_JSON) - 1,
     "\0\0\0\0\x17{\"process\":{\"pid\":300}}", 28, true},
    {"Start", "proto", START_PROTO, sizeof(START_PROTO) - 1, "\0\0\0\0\x05\x0a\x03\x08\xac\x02", 10,
     true},
    {"Connect", "proto", START_PROTO, sizeof(START_PROTO) - 1, "\0\0\0\0\x05\x0a\x03\x08\xac\x02",
     10, false},
};

static size_t expect(char *out, const struct way *way, const char *const *texts, const char *last)
{
    size_t n = envelope(out, 0, way->start, way->start_len);

    for (; *texts; texts++) {
        n += envelope(out + n, 0, *texts, strlen(*texts));
    }
    return n + envelope(out + n, END, last, strlen(last));
}

/* A client whose command has said "one". */
static void begin(const struct way *way, int *client_fd, int *agent)
{
    int c = *client_fd = client();
    char head[512];

    one_by_one = way->one_by_one;
    body_n = 0;
    (void)snprintf(head, sizeof(head),
                   "POST /process.Process/%s HTTP/1.1\r\n" HEADERS "49983\r\n"
                   "X-Access-Token: " TOKEN "\r\nContent-Type: application/connect+%s\r\n"
                   "Connect-Timeout-Ms: 60000\r\nAtoll-Replay: off\r\nAtoll-Rejoin: 7\r\n"
                   "Content-Length: 1\r\n\r\nx",
                   way->path, way->codec);
    say(c, head);
    *agent = service();
    CHECK_STR(strstr(hear(*agent, "\r\n\r\nx"), "\r\n\r\n"), "\r\n\r\nx");
    answer(*agent, "Content-Type: application/connect\r\n");
    send_envelope(*agent, 0, way->start, way->start_len);
    send_text(*agent, 0, "one");
    (void)hear(c, "\r\n\r\n");
    (void)read_body(c, FRAME_HEAD_BYTES + way->start_len + FRAME_HEAD_BYTES + 3);
}

/* The agent ends the stream as before a pause, and the pause waits for nothing more. */
static void pause_stream(int agent)
{
    on_loop(pause_sandbox);
    send_text(agent, 0, "two");
    send_text(agent, END, ABORTED);
    end(agent);
    (void)close(agent);
    while (!only.watches->settled) {
        (void)usleep(1000);
    }
}

static void rejoined(const struct way *way, const char *together, int *out)
{
    int agent = *out = service();
    char got[64], want[64];
    const char *head = hear(agent, "\r\n\r\n");

    CHECK_THAT(strncmp(head, "POST /process.Process/Connect HTTP/1.1\r\n", 39) == 0, "%s", head);
    (void)snprintf(want, sizeof(want), "atoll-rejoin: %s\r\n", together);
    CHECK_THAT(strstr(head, want) && !strstr(head, "eplay") && !strstr(head, "ejoin: 7"), "%s",
               head);
    CHECK(strstr(head, TOKEN) && strstr(head, way->codec));
    const char *left = strstr(head, "imeout-ms: ");
    CHECK_THAT(left && atol(left + 11) > 0 && atol(left + 11) < 60000, "%s", head);
    CHECK_INT(recv(agent, got, way->request_len, MSG_WAITALL), (long)way->request_len);
    CHECK(memcmp(got, way->request, way->request_len) == 0);
}

static void check_body(const struct way *way, const char *const *texts, const char *last)
{
    char want[BODY_MAX];
    size_t n = expect(want, way, texts, last);

    CHECK_INT(body_n, n);
    CHECK(memcmp(body, want, n) == 0);
}

static void a_command_goes_on_over_a_pause(void)
{
    static const char *const texts[] = {"one", "two", "three", "four", "five", NULL};

    for (size_t i = 0; i < countof(ways); i++) {
        int agent = -1, c = -1;
        start();
        begin(&ways[i], &c, &agent);
        pause_stream(agent);
        on_loop(have_paused);
        on_loop(resume_sandbox);
        rejoined(&ways[i], "1", &agent);
        answer(agent, "");
        send_envelope(agent, 0, ways[i].start, ways[i].start_len);
        send_text(agent, 0, "three");

        /* And over another one, which fails. */
        (void)read_body(c, FRAME_HEAD_BYTES + ways[i].start_len + 8 + 8 + 10);
        on_loop(pause_sandbox);
        send_text(agent, 0, "four");
        send_text(agent, END, ABORTED);
        end(agent);
        (void)close(agent);
        while (!only.watches->settled) {
            (void)usleep(1000);
        }
        on_loop(call_off);
        rejoined(&ways[i], "1", &agent);
        answer(agent, "");
        send_envelope(agent, 0, ways[i].start, ways[i].start_len);
        send_text(agent, 0, "five");
        send_text(agent, END, "{}");
        end(agent);
        CHECK(read_body(c, BODY_MAX));
        check_body(&ways[i], texts, "{}");
        (void)close(c), (void)close(agent);
        finish();
    }
}

static void a_command_that_is_not_resumed_is_told(void)
{
    static void (*const ends[])(void) = {kill_sandbox, NULL};
    static const char *const texts[] = {"one", "two", NULL};

    for (size_t i = 0; i < countof(ends); i++) {
        int agent = -1, c = -1;
        start();
        begin(&ways[i], &c, &agent);
        pause_stream(agent);
        on_loop(have_paused);
        if (ends[i]) {
            on_loop(ends[i]);
        }
        CHECK(read_body(c, BODY_MAX));
        check_body(&ways[i], texts, ABORTED);
        if (!ends[i]) { /* its time was up: a resume asks for nothing */
            on_loop(resume_sandbox);
            CHECK_INT(only.dials, 1);
        }
        (void)close(c);
        finish();
    }
}

static void an_end_without_a_pause_is_passed_on(void)
{
    static const char *const texts[] = {"one", NULL};
    int agent = -1;

    start();
    int c = -1;
    begin(&ways[0], &c, &agent);
    send_text(agent, END, ABORTED);
    end(agent);
    CHECK(read_body(c, BODY_MAX));
    check_body(&ways[0], texts, ABORTED);
    (void)close(c), (void)close(agent);
    finish();
}

static void says_not_found(int fd)
{
    answer(fd, "");
    send_text(fd, END, "{\"error\":{\"code\":\"not_found\"}}");
    end(fd);
}

static void says_another_pid(int fd)
{
    answer(fd, "");
    send_text(fd, 0, "{\"event\":{\"start\":{\"pid\":301}}}");
    send_text(fd, 0, "not ours");
}

static void says_too_much(int fd)
{
    answer(fd, "");
    send_chunk(fd, "\0\xff\xff\xff\xff{\"event\"", 13);
}

static void says_no(int fd)
{
    say(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno");
}

static void says_nothing(int fd)
{
    answer(fd, "");
    end(fd);
}

static void says_it_packed(int fd)
{
    answer(fd, "");
    send_text(fd, FRAME_COMPRESSED, START_JSON);
}

static void says_only_a_head(int fd)
{
    answer(fd, "");
}

static void hangs_up(int fd)
{
    (void)shutdown(fd, SHUT_RDWR);
}

static void what_a_resumed_agent_says_is_checked(void)
{
    static void (*const says[])(int fd) = {says_not_found,   says_another_pid, says_too_much,
                                           says_no,          says_nothing,     says_it_packed,
                                           says_only_a_head, hangs_up};
    static const char *const texts[] = {"one", "two", NULL};

    for (size_t i = 0; i < countof(says); i++) {
        int agent = -1, c = -1;
        start();
        begin(&ways[0], &c, &agent);
        pause_stream(agent);
        on_loop(have_paused);
        on_loop(resume_sandbox);
        rejoined(&ways[0], "1", &agent);
        says[i](agent);
        CHECK_THAT(read_body(c, BODY_MAX), "case %zu", i);
        check_body(&ways[0], texts, ABORTED);
        (void)close(c), (void)close(agent);
        finish();
    }
}

static void a_stream_that_names_no_process_is_not_held(void)
{
    int agent = -1;

    start();
    struct way way = ways[0];
    way.start = "{\"event\":{\"start\":{\"pid\":-1}}}";
    way.start_len = strlen(way.start);
    int c = -1;
    begin(&way, &c, &agent);
    on_loop(pause_sandbox);
    send_text(agent, END, ABORTED);
    end(agent);
    CHECK(read_body(c, BODY_MAX));
    (void)close(c), (void)close(agent);
    finish();
}

static void a_client_that_leaves_is_forgotten(void)
{
    int agent = -1;

    start();
    int c = -1;
    begin(&ways[0], &c, &agent);
    pause_stream(agent);
    on_loop(have_paused);
    (void)close(c);
    while (only.watches) { /* the backend goes with its last request, when the edge next looks */
        (void)usleep(1000);
    }
    on_loop(resume_sandbox);
    CHECK_INT(only.dials, 1);
    finish();
}

static void streams_of_one_process_come_back_together(void)
{
    int agents[2] = {-1, -1}, clients[2];

    start();
    for (int i = 0; i < 2; i++) {
        begin(&ways[0], &clients[i], &agents[i]);
    }
    on_loop(pause_sandbox);
    for (int i = 0; i < 2; i++) {
        send_text(agents[i], END, ABORTED);
        end(agents[i]);
        (void)close(agents[i]);
    }
    while (!only.watches->settled) {
        (void)usleep(1000);
    }
    on_loop(have_paused);
    on_loop(resume_sandbox);
    for (int i = 0; i < 2; i++) {
        rejoined(&ways[0], "2", &agents[i]);
    }
    on_loop(kill_sandbox);
    for (int i = 0; i < 2; i++) {
        body_n = 0;
        CHECK(read_body(clients[i], BODY_MAX));
        CHECK_INT(body_n, FRAME_HEAD_BYTES + strlen(ABORTED));
        (void)close(clients[i]), (void)close(agents[i]);
    }
    finish();
}

static void a_pause_during_the_return_waits_again(void)
{
    static const char *const texts[] = {"one", "two", "three", NULL};
    int agent = -1;

    start();
    int c = -1;
    begin(&ways[0], &c, &agent);
    pause_stream(agent);
    on_loop(have_paused);
    on_loop(resume_sandbox);
    rejoined(&ways[0], "1", &agent);
    on_loop(pause_sandbox); /* it has not answered yet */
    CHECK(!only.watches->settled);
    on_loop(cut_off);
    CHECK(how_it_ends(agent) <= 0);
    (void)close(agent);
    on_loop(have_paused);
    on_loop(resume_sandbox);
    rejoined(&ways[0], "1", &agent);
    answer(agent, "");
    send_text(agent, 0, START_JSON);
    send_text(agent, 0, "three");
    send_text(agent, END, "{}");
    end(agent);
    CHECK(read_body(c, BODY_MAX));
    check_body(&ways[0], texts, "{}");
    (void)close(c), (void)close(agent);
    finish();
}

/* A single team has two thirds of the places: one of two. */
static void a_team_has_its_share_of_those_who_wait(void)
{
    int agents[2] = {-1, -1}, clients[2];

    held_max = 1;
    start();
    for (int i = 0; i < 2; i++) {
        begin(&ways[0], &clients[i], &agents[i]);
    }
    on_loop(pause_sandbox);
    for (int i = 0; i < 2; i++) {
        send_text(agents[i], END, ABORTED);
        end(agents[i]);
        if (i == 0) {
            while (!only.watches) {
            }
            (void)usleep(100 * 1000); /* the second comes second */
        }
    }
    body_n = 0;
    CHECK(read_body(clients[1], BODY_MAX)); /* at once */
    CHECK_INT(body_n, FRAME_HEAD_BYTES + strlen(ABORTED));
    on_loop(have_paused);
    on_loop(resume_sandbox);
    int agent = -1;
    rejoined(&ways[0], "1", &agent); /* the first */
    for (int i = 0; i < 2; i++) {
        (void)close(clients[i]), (void)close(agents[i]);
    }
    (void)close(agent);
    held_max = 0;
    finish();
}

/* ---- a cell ---- */

static char name[64]; /* "atoll-execution: ...\r\n" as the edge sent it */

/* A cell that its interpreter has, and has not answered. */
static int cell_ask(int *interpreter)
{
    int c = client();

    body_n = 0;
    say(c, "POST /execute HTTP/1.1\r\n" HEADERS "49999\r\nX-Access-Token: " TOKEN "\r\n"
           "Atoll-Execution: mine\r\nContent-Length: 2\r\n\r\n{}");
    *interpreter = service();
    const char *head = hear(*interpreter, "{}");
    const char *at = strstr(head, "atoll-execution: ");
    name[0] = '\0';
    if (at && !strstr(head, "mine")) {
        (void)snprintf(name, sizeof(name), "%.*s\r\n", (int)strcspn(at, "\r"), at);
    }
    return c;
}

static int cell(int *interpreter, bool named)
{
    int c = cell_ask(interpreter);

    answer(*interpreter, named ? name : "");
    send_chunk(*interpreter, "first\n", 6);
    const char *answered = hear(c, "\r\n\r\n");
    if (strstr(answered, "xecution")) {
        name[0] = '\0'; /* it is no business of the client's */
    }
    (void)read_body(c, 6);
    return c;
}

static void cell_asked_for(int *interpreter, int from)
{
    char want[128];

    *interpreter = service();
    const char *head = hear(*interpreter, "\r\n\r\n");
    (void)snprintf(want, sizeof(want), "GET /executions/%.32s?from=%d HTTP/1.1\r\n",
                   strchr(name, ' ') + 1, from);
    CHECK_THAT(strncmp(head, want, strlen(want)) == 0, "%s", head);
    CHECK(strstr(head, TOKEN));
}

static void a_cell_goes_on_over_a_pause(void)
{
    int interpreter = -1;

    start();
    int c = cell(&interpreter, true);
    CHECK(name[0]);
    on_loop(pause_sandbox);
    CHECK(only.watches->settled);
    send_chunk(interpreter, "lost\n", 5); /* with the connection */
    on_loop(have_paused);
    (void)close(interpreter);
    on_loop(resume_sandbox);
    cell_asked_for(&interpreter, 6);
    answer(interpreter, name);
    send_chunk(interpreter, "second\n", 7);
    end(interpreter);
    CHECK(read_body(c, BODY_MAX));
    CHECK_INT(body_n, 13);
    CHECK(memcmp(body, "first\nsecond\n", 13) == 0);
    (void)close(c), (void)close(interpreter);
    finish();
}

static void cell_over_a_pause(int *interpreter, int from)
{
    on_loop(pause_sandbox);
    on_loop(have_paused);
    (void)close(*interpreter);
    on_loop(resume_sandbox);
    cell_asked_for(interpreter, from);
}

/* An interpreter takes a connection that ends before the pause for a client that leaves. */
static void a_cell_that_comes_back_keeps_its_connection_until_the_pause(void)
{
    for (int paused = 0; paused < 2; paused++) {
        int interpreter = -1;
        start();
        int c = cell(&interpreter, true);
        cell_over_a_pause(&interpreter, 6);
        on_loop(pause_sandbox); /* it has not answered yet */
        CHECK(only.watches->settled);
        struct pollfd ended = {.fd = interpreter, .events = POLLIN};
        CHECK_INT(poll(&ended, 1, 0), 0);
        on_loop(paused ? have_paused : call_off);
        if (paused) {
            CHECK(how_it_ends(interpreter) <= 0);
            (void)close(interpreter);
            on_loop(resume_sandbox);
            cell_asked_for(&interpreter, 6);
        }
        answer(interpreter, name);
        send_chunk(interpreter, "second\n", 7);
        end(interpreter);
        CHECK(read_body(c, BODY_MAX));
        CHECK_INT(body_n, 13);
        (void)close(c), (void)close(interpreter);
        finish();
    }
}

static void a_cell_without_an_answer_is_asked_for(void)
{
    for (int known = 0; known < 2; known++) {
        int interpreter = -1;
        start();
        int c = cell_ask(&interpreter);
        cell_over_a_pause(&interpreter, 0);
        if (known) {
            answer(interpreter, name);
            send_chunk(interpreter, "all\n", 4);
            end(interpreter);
            const char *head = hear(c, "\r\n\r\n");
            CHECK(strstr(head, " 200 ") && !strstr(head, "xecution"));
            CHECK(read_body(c, BODY_MAX));
            CHECK_INT(body_n, 4);
        } else {
            say(interpreter, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            CHECK(strstr(hear(c, "\r\n\r\n"), " 409 "));
        }
        (void)close(c), (void)close(interpreter);
        finish();
    }
}

static void a_request_that_was_not_sent_waits(void)
{
    start();
    only.refusals = 1; /* between two tries */
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "80\r\n\r\n");
    while (only.dials == 0) {
        (void)poll(NULL, 0, 1);
    }
    on_loop(pause_sandbox);
    on_loop(have_paused);
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    CHECK(strstr(hear(c, "\r\n\r\n"), " 200 "));
    (void)close(c), (void)close(s);
    finish();
}

static void a_cell_that_cannot_be_continued_is_reset(void)
{
    for (int named = 0; named < 2; named++) {
        int interpreter = -1;
        start();
        int c = cell(&interpreter, named);
        on_loop(pause_sandbox);
        on_loop(have_paused);
        (void)close(interpreter);
        if (named) { /* its interpreter is asked, and does not know it */
            on_loop(resume_sandbox);
            interpreter = service();
            (void)hear(interpreter, "\r\n\r\n");
            answer(interpreter, "Atoll-Execution: 00000000000000000000000000000000\r\n");
            (void)close(interpreter);
        }
        CHECK(how_it_ends(c) < 0);
        (void)close(c);
        finish();
    }
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a command goes on over a pause", a_command_goes_on_over_a_pause},
        {"a command that is not resumed is told", a_command_that_is_not_resumed_is_told},
        {"an end without a pause is passed on", an_end_without_a_pause_is_passed_on},
        {"what a resumed agent says is checked", what_a_resumed_agent_says_is_checked},
        {"a stream that names no process is not held", a_stream_that_names_no_process_is_not_held},
        {"a client that leaves is forgotten", a_client_that_leaves_is_forgotten},
        {"streams of one process come back together", streams_of_one_process_come_back_together},
        {"a pause during the return waits again", a_pause_during_the_return_waits_again},
        {"a team has its share of those who wait", a_team_has_its_share_of_those_who_wait},
        {"a cell goes on over a pause", a_cell_goes_on_over_a_pause},
        {"a cell that comes back keeps its connection until the pause",
         a_cell_that_comes_back_keeps_its_connection_until_the_pause},
        {"a cell without an answer is asked for", a_cell_without_an_answer_is_asked_for},
        {"a cell that cannot be continued is reset", a_cell_that_cannot_be_continued_is_reset},
        {"a request that was not sent waits", a_request_that_was_not_sent_waits},
    };

    return check_run(tests, countof(tests));
}
