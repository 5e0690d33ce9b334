/* What the edge passes on, what it answers itself, and how streams end. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "edge_house.h"
#include "wire/channel.h"

enum { WEB_PORT = 8080 };

static void passes_a_request_and_its_answer(void)
{
    start();
    int c = client();
    say(c, "POST /a%2fb?x=1&y HTTP/1.1\r\n" HEADERS "8080\r\nConnection: keep-alive, x-drop\r\n"
           "X-Drop: 1\r\nKeep-Alive: 5\r\nX-Stay: 2\r\nX-Forwarded-For: 10.0.0.1\r\n"
           "X-Forwarded-Proto: https\r\nContent-Length: 5\r\n\r\nhello");
    int s = service();
    const char *head = hear(s, "\r\n\r\n");
    CHECK(strncmp(head, "POST /a%2fb?x=1&y HTTP/1.1\r\n", 28) == 0);
    CHECK(strcasestr(head, "\r\nhost: 127.0.0.1\r\n"));
    CHECK(strcasestr(head, "\r\nx-stay: 2\r\n"));
    CHECK(strcasestr(head, "\r\nx-forwarded-for: 10.0.0.1, 127.0.0.1\r\n"));
    CHECK(strcasestr(head, "\r\nx-forwarded-proto: http\r\n"));
    CHECK(strcasestr(head, "\r\nx-forwarded-host: 127.0.0.1\r\n"));
    CHECK(strcasestr(head, "\r\ncontent-length: 5\r\n"));
    CHECK(!strcasestr(head, "x-drop") && !strcasestr(head, "keep-alive:"));
    CHECK_STR(hear(s, "hello"), "hello");
    say(s, "HTTP/1.1 201 Made\r\nContent-Length: 3\r\nX-Hop: 1\r\nConnection: close, x-hop\r\n"
           "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nyes");
    head = hear(c, "\r\n\r\n");
    CHECK(strncmp(head, "HTTP/1.1 201 ", 13) == 0);
    CHECK(strcasestr(head, "\r\ncontent-length: 3\r\n"));
    CHECK(strcasestr(head, "set-cookie: a=1\r\n") && strcasestr(head, "set-cookie: b=2\r\n"));
    CHECK(!strcasestr(head, "x-hop"));
    CHECK_STR(hear(c, "yes"), "yes");
    (void)close(c), (void)close(s);
    finish();
}

static void streams_both_ways_at_once(void)
{
    start();
    int c = client();
    say(c, "POST / HTTP/1.1\r\n" HEADERS "8080\r\nTransfer-Encoding: chunked\r\n\r\n");
    say(c, "3\r\none\r\n");
    int s = service();
    CHECK(strcasestr(hear(s, "\r\n\r\n"), "transfer-encoding: chunked"));
    (void)hear(s, "one\r\n");
    say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfrom\r\n");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 200 ", 13) == 0);
    (void)hear(c, "from\r\n");
    say(c, "3\r\ntwo\r\n0\r\n\r\n");
    CHECK(strstr(hear(s, "0\r\n\r\n"), "two"));
    say(s, "4\r\nback\r\n0\r\n\r\n");
    CHECK(strstr(hear(c, "0\r\n\r\n"), "back"));
    (void)close(c), (void)close(s);
    finish();
}

static void tunnels_websockets(void)
{
    start();
    int c = client();
    say(c, "GET /ws HTTP/1.1\r\n" HEADERS "8080\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Key: abc\r\n\r\n");
    int s = service();
    const char *head = hear(s, "\r\n\r\n");
    CHECK(strcasestr(head, "\r\nconnection: upgrade\r\n"));
    CHECK(strcasestr(head, "\r\nupgrade: websocket\r\n"));
    CHECK(strcasestr(head, "\r\nsec-websocket-key: abc\r\n"));
    say(s, "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Accept: def\r\n\r\n\x81\x02hi");
    head = hear(c, "\r\n\r\n");
    CHECK(strncmp(head, "HTTP/1.1 101 ", 13) == 0);
    CHECK(strcasestr(head, "upgrade: websocket\r\n"));
    CHECK(strcasestr(head, "sec-websocket-accept: def\r\n"));
    CHECK_STR(hear(c, "hi"), "\x81\x02hi");
    say(c, "\x82\x03raw");
    CHECK_STR(hear(s, "raw"), "\x82\x03raw");
    (void)close(c);
    CHECK(how_it_ends(s) <= 0);
    (void)close(s);
    finish();
}

static void a_refused_upgrade_is_an_answer(void)
{
    start();
    int c = client();
    say(c,
        "GET /ws HTTP/1.1\r\n" HEADERS "8080\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 403 ", 13) == 0);
    CHECK_STR(hear(c, "no"), "no");
    (void)close(c), (void)close(s);
    finish();
}

static void check_answer(const char *request, const char *status, const char *type,
                         const char *body)
{
    int c = client();
    say(c, request);
    const char *head = hear(c, "\r\n\r\n");
    CHECK_THAT(strncmp(head + 9, status, 3) == 0, "status is %.3s, want %s", head + 9, status);
    CHECK_THAT(strcasestr(head, type), "no '%s' in %s", type, head);
    /* Pages read why a port of ours, or an address without one, does not answer. */
    bool other = strstr(request, "Port: 81\r\n") || strstr(request, "Port: 8080\r\n");
    CHECK(!strcasestr(head, "access-control-allow-origin: *\r\n") == other);
    CHECK_STR(hear(c, body), body);
    (void)close(c);
}

static void answers_itself_in_the_documented_shapes(void)
{
    static const char json[] = "content-type: application/json; charset=utf-8";

    start();
    check_answer("GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: iunknown\r\n"
                 "E2b-Sandbox-Port: 49983\r\n\r\n",
                 "502", json,
                 "{\"sandboxId\":\"iunknown\",\"message\":\"The sandbox was not found\","
                 "\"code\":502}");
    check_answer("GET / HTTP/1.1\r\n" HEADERS "81\r\n\r\n", "502", json,
                 "{\"sandboxId\":\"" ID "\",\"message\":\"The sandbox is running but port is not "
                 "open\",\"port\":81,\"code\":502}");
    CHECK_INT(only.dials, 5);
    check_answer("POST /init HTTP/1.1\r\n" HEADERS "49983\r\nContent-Length: 0\r\n\r\n", "404",
                 json,
                 "{\"message\":\"This endpoint is reserved for the E2B control plane and is not "
                 "reachable through the sandbox URL\",\"path\":\"/init\",\"code\":404}");
    check_answer("GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: " ID "\r\n\r\n", "400",
                 "content-type: text/plain",
                 "missing header E2b-Sandbox-Port: send the port beside the sandbox's id, as "
                 "E2b-Sandbox-Port: 8000");
    check_answer("GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Port: 80\r\n\r\n", "400",
                 "content-type: text/plain",
                 "missing header E2b-Sandbox-Id: send the sandbox's id beside its port, as "
                 "E2b-Sandbox-Id: ID");
    check_answer("GET / HTTP/1.1\r\n" HEADERS "0\r\n\r\n", "400", "content-type: text/plain",
                 "Invalid sandbox port");
    check_answer("GET /files?path=x&signature=v1_no HTTP/1.1\r\nHost: localhost\r\n\r\n", "401",
                 json, "{\"code\":401,\"message\":\"invalid signature\"}");
    finish();
}

static void hides_control_routes_however_spelled(void)
{
    static const char *const paths[] = {"/init/", "//init",      "/%69nit", "/x/../freeze",
                                        "/INIT",  "/./fsthaw?x", "/upgrade"};

    start();
    for (size_t i = 0; i < countof(paths); i++) {
        char request[512];
        int c = client();
        (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n" HEADERS "49983\r\n\r\n",
                       paths[i]);
        say(c, request);
        const char *head = hear(c, "\r\n\r\n");
        CHECK_THAT(strncmp(head, "HTTP/1.1 404 ", 13) == 0, "%s: %.20s", paths[i], head);
        (void)close(c);
    }
    CHECK_INT(only.dials, 0);
    finish();
}

static void shows_people_a_page(void)
{
    start();
    int c = client();
    say(c, "GET / HTTP/1.1\r\nHost: 81-" ID ".some.test\r\nUser-Agent: Mozilla/5.0\r\n"
           "Accept: text/html\r\n\r\n");
    const char *head = hear(c, "\r\n\r\n");
    CHECK(strncmp(head, "HTTP/1.1 502 ", 13) == 0);
    CHECK(strcasestr(head, "content-type: text/html"));
    const char *body = hear(c, "</html>");
    CHECK(strstr(body, ID) && strstr(body, "no service running on port") && strstr(body, "81"));
    (void)close(c);
    finish();
}

static void everything_else_is_the_apis(void)
{
    start();
    int c = client();
    say(c, "GET /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 418 ", 13) == 0);
    (void)close(c);
    finish();
}

static void a_leaving_client_takes_the_service_along(void)
{
    start();
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    (void)hear(c, "x\r\n");
    (void)close(c);
    CHECK(how_it_ends(s) <= 0);
    (void)close(s);
    finish();
}

static void a_service_that_breaks_off_resets_the_client(void)
{
    start();
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    (void)hear(c, "only this");
    (void)close(s);
    CHECK_INT(how_it_ends(c), -ECONNRESET);
    (void)close(c);
    finish();
}

static void a_service_that_says_nothing_has_a_port_all_the_same(void)
{
    start();
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    (void)close(s);
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 502 ", 13) == 0);
    CHECK(
        strstr(hear(c, "}"),
               "port is not open: the service gave no HTTP answer\",\"port\":8080,\"code\":502}"));
    (void)close(c);
    finish();
}

static void a_kill_resets_streams_at_once(void)
{
    start();
    int open = client(), unanswered = client();
    say(open, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    (void)hear(open, "x\r\n");
    say(unanswered, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s2 = service();
    (void)hear(s2, "\r\n\r\n");

    on_loop(kill_sandbox);
    CHECK_INT(how_it_ends(open), -ECONNRESET);
    CHECK(how_it_ends(s) <= 0);
    CHECK(strncmp(hear(unanswered, "\r\n\r\n"), "HTTP/1.1 502 ", 13) == 0);
    check_answer("GET /health HTTP/1.1\r\n" HEADERS "49983\r\n\r\n", "502", "application/json",
                 "{\"sandboxId\":\"" ID "\",\"message\":\"The sandbox was not found\","
                 "\"code\":502}");
    (void)close(open), (void)close(unanswered), (void)close(s), (void)close(s2);
    finish();
}

static void waits_for_a_service_that_starts(void)
{
    start();
    only.refusals = 2;
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 204 Fine\r\n\r\n");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 204 ", 13) == 0);
    CHECK_INT(only.dials, 3);
    (void)close(c), (void)close(s);
    finish();
}

static void finds_the_sandbox_of_a_signed_link(void)
{
    start();
    int c = client();
    say(c, "GET /files?path=hello.txt&username=user&signature="
           "v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E HTTP/1.1\r\nHost: localhost\r\n\r\n");
    int s = service();
    CHECK(strncmp(hear(s, "\r\n\r\n"), "GET /files?path=hello.txt", 25) == 0);
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 200 ", 13) == 0);
    (void)close(c), (void)close(s);

    /* The same signature does not let write. */
    check_answer("POST /files?path=hello.txt&username=user&signature="
                 "v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E HTTP/1.1\r\nHost: localhost\r\n"
                 "Content-Length: 0\r\n\r\n",
                 "401", "application/json", "{\"code\":401,\"message\":\"invalid signature\"}");
    finish();
}

static void a_private_sandbox_wants_its_token(void)
{
    start();
    (void)json_object_set_new(only.options, "network", json_pack("{sb}", "allowPublicTraffic", 0));
    (void)json_object_set_new(only.options, "trafficAccessToken", json_string("secret"));
    check_answer("GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n", "403", "application/json",
                 "{\"sandboxId\":\"" ID "\",\"message\":\"Sandbox is secured with traffic access "
                 "token. Token header 'e2b-traffic-access-token' is missing\",\"code\":403}");
    check_answer("GET / HTTP/1.1\r\nE2b-Traffic-Access-Token: guess\r\n" HEADERS "8080\r\n\r\n",
                 "403", "application/json",
                 "{\"sandboxId\":\"" ID "\",\"message\":\"Sandbox is secured with traffic access "
                 "token. Provided token in header 'e2b-traffic-access-token' is "
                 "invalid\",\"code\":403}");
    CHECK_INT(only.dials, 0);
    int c = client();
    say(c, "GET / HTTP/1.1\r\nE2b-Traffic-Access-Token: secret\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    CHECK(s >= 0);
    (void)close(c), (void)close(s);
    finish();
}

/* ---- ports of ours ---- */

static void check_refused(const char *head_and_port, const char *status)
{
    char request[1024];
    int c = client();

    (void)snprintf(request, sizeof(request), "%s\r\nContent-Length: 0\r\n\r\n", head_and_port);
    say(c, request);
    const char *head = hear(c, "\r\n\r\n");
    CHECK_THAT(strncmp(head + 9, status, 3) == 0, "%s: %.20s", head_and_port, head);
    CHECK_INT(only.dials, 0);
    CHECK_INT(only.wakes, 0);
    (void)close(c);
}

static void check_passes(const char *head_and_port)
{
    char request[1024];
    int c = client();

    (void)snprintf(request, sizeof(request), "%s\r\nContent-Length: 0\r\n\r\n", head_and_port);
    say(c, request);
    int s = service();
    CHECK_THAT(s >= 0, "did not pass: %s", head_and_port);
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 204 No\r\nConnection: close\r\n\r\n");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 204 ", 13) == 0);
    (void)close(c), (void)close(s);
}

#define BY_NAME(port) " HTTP/1.1\r\nHost: " port "-" ID ".localhost:3000"
#define EVIL "\r\nOrigin: http://evil.test"
#define SECURE "\r\nX-Access-Token: " TOKEN

static void pages_of_other_sites_do_not_reach_ports_of_ours(void)
{
    static const char *const refused[] = {
        "POST /execute" BY_NAME("49999") EVIL "\r\nContent-Type: text/plain",
        "POST /execute" BY_NAME("49999") "\r\nOrigin: null",
        "POST /contexts" BY_NAME("49999") "\r\nOrigin: http://80-iother.localhost:3000",
        "GET /contexts" BY_NAME("49999") "\r\nSec-Fetch-Site: same-site",
        "GET /health" BY_NAME("49999") EVIL "\r\nConnection: Upgrade\r\nUpgrade: websocket",
        "GET /mcp" BY_NAME("50005") EVIL "\r\nConnection: Upgrade\r\nUpgrade: websocket",
        "GET /envs" BY_NAME("49983") EVIL,
        "POST /files/compose" BY_NAME("49983") EVIL,
    };

    start();
    only.paused = only.returns = true; /* a request that is let in would wake it */
    for (size_t i = 0; i < countof(refused); i++) {
        check_refused(refused[i], "403");
    }
    only.paused = only.returns = false;
    check_passes("OPTIONS /execute" BY_NAME("49999") EVIL);
    check_passes("GET /health" BY_NAME("49999") EVIL);
    check_passes("POST /execute" BY_NAME("49999") EVIL SECURE);
    check_passes("POST /contexts" BY_NAME("49999") EVIL "\r\nContent-Type: application/json");
    check_passes("GET /files?path=a" BY_NAME("49983") EVIL);
    check_passes("POST /execute" BY_NAME("8000") EVIL "\r\nContent-Type: text/plain");
    check_passes("GET /" BY_NAME("8000") "\r\nSec-Fetch-Site: cross-site");
    finish();
}

static void a_secure_sandbox_runs_code_for_its_token_alone(void)
{
    static const char *const refused[] = {
        "POST /execute" BY_NAME("49999"),
        "POST /execute" BY_NAME("49999") "\r\nX-Access-Token: wrong",
        "POST /contexts/../execute" BY_NAME("49999"),
        "POST /contexts/%2e%2e/execute" BY_NAME("49999"),
        "POST //execute" BY_NAME("49999"),
        "GET /contextsx" BY_NAME("49999"),
        "POST /health" BY_NAME("49999"),
    };

    start();
    only.paused = only.returns = true;
    for (size_t i = 0; i < countof(refused); i++) {
        check_refused(refused[i], "401");
    }
    only.paused = only.returns = false;
    check_passes("POST /execute" BY_NAME("49999") SECURE);
    check_passes("GET /contexts" BY_NAME("49999"));
    check_passes("DELETE /contexts/abc" BY_NAME("49999"));
    check_passes("GET /health" BY_NAME("49999"));
    check_passes("POST /mcp" BY_NAME("50005")); /* the gateway has a token of its own */
    check_passes("POST /execute" BY_NAME("8000"));
    only.token = NULL;
    check_passes("POST /execute" BY_NAME("49999"));
    finish();
}

/* A reader that does not read stops the writer behind it, and nothing is lost. */
static void slow_readers_stop_writers(void)
{
    enum { TOTAL = 64 * 1024 * 1024, BOUND = 32 * 1024 * 1024 };
    static char block[1 << 16];
    size_t sent = 0, got = 0;

    start();
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
    (void)hear(c, "\r\n\r\n");
    struct pollfd ready = {.fd = s, .events = POLLOUT};
    while (sent < TOTAL && poll(&ready, 1, 500) == 1) {
        size_t left = TOTAL - sent < sizeof(block) ? TOTAL - sent : sizeof(block);
        ssize_t n = send(s, block, left, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
    CHECK_THAT(sent < BOUND, "%zu bytes went to a client that read none", sent);
    while (got < TOTAL) {
        ssize_t n = recv(c, block, sizeof(block), 0);
        CHECK(n > 0);
        got += (size_t)n;
        n = sent < TOTAL
                ? send(s, block, TOTAL - sent < sizeof(block) ? TOTAL - sent : sizeof(block),
                       MSG_DONTWAIT | MSG_NOSIGNAL)
                : 0;
        sent += n > 0 ? (size_t)n : 0;
    }
    CHECK_INT(sent, TOTAL);
    (void)close(c), (void)close(s);
    finish();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"passes a request and its answer", passes_a_request_and_its_answer},
        {"streams both ways at once", streams_both_ways_at_once},
        {"tunnels websockets", tunnels_websockets},
        {"a refused upgrade is an answer", a_refused_upgrade_is_an_answer},
        {"answers itself in the documented shapes", answers_itself_in_the_documented_shapes},
        {"hides control routes however spelled", hides_control_routes_however_spelled},
        {"shows people a page", shows_people_a_page},
        {"everything else is the API's", everything_else_is_the_apis},
        {"a leaving client takes the service along", a_leaving_client_takes_the_service_along},
        {"a service that breaks off resets the client",
         a_service_that_breaks_off_resets_the_client},
        {"a service that says nothing has a port all the same",
         a_service_that_says_nothing_has_a_port_all_the_same},
        {"a kill resets streams at once", a_kill_resets_streams_at_once},
        {"waits for a service that starts", waits_for_a_service_that_starts},
        {"finds the sandbox of a signed link", finds_the_sandbox_of_a_signed_link},
        {"a private sandbox wants its token", a_private_sandbox_wants_its_token},
        {"pages of other sites do not reach ports of ours",
         pages_of_other_sites_do_not_reach_ports_of_ours},
        {"a secure sandbox runs code for its token alone",
         a_secure_sandbox_runs_code_for_its_token_alone},
        {"slow readers stop writers", slow_readers_stop_writers},
    };

    return check_run(tests, countof(tests));
}
