/* Connections to the agent and to services that are kept and used again. */
#include <errno.h>
#include <utlist.h>

#include "edge_house.h"

static void keeps_connections_to_the_agent(void)
{
    start();
    int c = client();
    say(c, "GET /one HTTP/1.1\r\n" HEADERS "49983\r\n\r\n");
    int s = service();
    CHECK(strstr(hear(s, "\r\n\r\n"), "/one"));
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    (void)hear(c, "ok");
    say(c, "GET /two HTTP/1.1\r\n" HEADERS "49983\r\n\r\n");
    CHECK(strstr(hear(s, "\r\n\r\n"), "/two")); /* on the same connection */
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    (void)hear(c, "\r\n\r\nok");
    CHECK_INT(only.dials, 1);

    /* The agent closes just as it is asked again: asked once more, on a new connection. */
    say(c, "GET /three HTTP/1.1\r\n" HEADERS "49983\r\n\r\n");
    CHECK(strstr(hear(s, "\r\n\r\n"), "/three"));
    (void)close(s);
    s = service();
    CHECK(strstr(hear(s, "\r\n\r\n"), "/three"));
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 200 ", 13) == 0);
    CHECK_INT(only.dials, 2);
    (void)close(c), (void)close(s);
    finish();
}

/* One request on the client's connection, answered by the service; the answer allows keep-alive. */
static void exchange(int c, int s, const char *request)
{
    say(c, request);
    CHECK(strlen(hear(s, "\r\n\r\n")) > 4);
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 200 ", 13) == 0);
    CHECK_STR(hear(c, "ok"), "ok");
}

/* A service that has answered one request; its connection is kept. */
static int kept_service(int c)
{
    say(c, "GET /first HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();

    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    (void)hear(c, "\r\n\r\nok");
    return s;
}

static void keeps_connections_to_services(void)
{
    start();
    int c = client(), other = client();
    int s = kept_service(c);
    exchange(c, s, "GET /two HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    exchange(other, s, "OPTIONS /three HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    CHECK_INT(only.dials, 1);
    (void)close(c), (void)close(other), (void)close(s);
    finish();
}

static void a_kept_connection_is_of_its_port_alone(void)
{
    start();
    int c = client();
    int s = kept_service(c);
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8081\r\n\r\n");
    int there = service();
    CHECK(strstr(hear(there, "\r\n\r\n"), "GET / "));
    say(there, "HTTP/1.1 204 Fine\r\n\r\n");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 204 ", 13) == 0);
    CHECK_INT(only.dials, 2);
    (void)close(c), (void)close(s), (void)close(there);
    finish();
}

/* What could not be asked again gets a connection of its own, and the kept one ends for it. */
static void what_changes_something_gets_a_fresh_connection(void)
{
    start();
    int c = client();
    int s = kept_service(c);
    say(c, "POST / HTTP/1.1\r\n" HEADERS "8080\r\nContent-Length: 4\r\n\r\nbody");
    int fresh = service();
    CHECK(how_it_ends(s) <= 0);
    (void)hear(fresh, "body");
    say(fresh, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    (void)hear(c, "\r\n\r\nok");
    exchange(c, fresh, "GET /after HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    CHECK_INT(only.dials, 2);
    (void)close(c), (void)close(s), (void)close(fresh);
    finish();
}

static void a_service_that_closes_a_kept_connection_is_asked_again(void)
{
    start();
    int c = client();
    int s = kept_service(c);
    say(c, "GET /again HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    CHECK(strstr(hear(s, "\r\n\r\n"), "/again"));
    (void)close(s);
    s = service();
    CHECK(strstr(hear(s, "\r\n\r\n"), "/again"));
    (void)close(s); /* on a fresh connection it is not asked a third time */
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 502 ", 13) == 0);
    CHECK_INT(only.dials, 2);
    (void)close(c);
    finish();
}

/* Answers one request, after which the connection to the service must end. */
static void check_not_kept(const char *request, const char *answer, const char *end)
{
    int c = client();
    say(c, request);
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, answer);
    CHECK(strstr(hear(c, end), end));
    CHECK_THAT(how_it_ends(s) <= 0, "kept after: %s", request);
    (void)close(c), (void)close(s);
}

static void keeps_nothing_that_is_not_clean(void)
{
    static const char upgrade[] =
        "GET / HTTP/1.1\r\n" HEADERS "8080\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    start();
    check_not_kept("GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n",
                   "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok");
    check_not_kept("GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n",
                   "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok");
    check_not_kept(upgrade, ok, "ok");
    /* It answers without having had the body. */
    check_not_kept("POST / HTTP/1.1\r\n" HEADERS "8080\r\nContent-Length: 9\r\n\r\n", ok, "ok");
    CHECK_INT(only.dials, 4);
    finish();
}

static void nothing_is_kept_of_a_sandbox_that_pauses_or_ends(void)
{
    static void (*const ends[])(void) = {pause_sandbox, kill_sandbox};

    for (size_t i = 0; i < countof(ends); i++) {
        start();
        int c = client();
        int s = kept_service(c);
        on_loop(ends[i]);
        CHECK(how_it_ends(s) <= 0);
        (void)close(c), (void)close(s);
        finish();
    }
}

/* One that was answered in part, one that was not, and a call to the agent. */
static void a_pause_holds_what_services_answer(void)
{
    for (int paused = 0; paused < 2; paused++) {
        start();
        int begun = client(), asked = client(), call = client();
        say(begun, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
        int s1 = service();
        (void)hear(s1, "\r\n\r\n");
        say(s1, "HTTP/1.0 200 OK\r\n\r\nfirst"); /* its end is the connection's */
        (void)hear(begun, "first\r\n");
        say(asked, "POST / HTTP/1.1\r\n" HEADERS "8080\r\nContent-Length: 0\r\n\r\n");
        int s2 = service();
        (void)hear(s2, "\r\n\r\n");
        say(call, "GET / HTTP/1.1\r\n" HEADERS "49983\r\n\r\n");
        int agent = service();
        (void)hear(agent, "\r\n\r\n");

        on_loop(pause_sandbox);
        CHECK(!only.watches->settled); /* for the agent's */
        on_loop(cut_off);
        CHECK(strncmp(hear(call, "\r\n\r\n"), "HTTP/1.1 409 ", 13) == 0);
        say(s1, "second");
        (void)close(s1); /* ends with the jail: nobody takes it for the answer's end */
        say(s2, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        on_loop(paused ? have_paused : call_off);
        CHECK(strncmp(hear(asked, "\r\n\r\n"), paused ? "HTTP/1.1 409 " : "HTTP/1.1 200 ", 13) ==
              0);
        CHECK(paused || strstr(hear(begun, "second\r\n"), "second"));
        CHECK_THAT(paused ? how_it_ends(begun) < 0
                          : strstr(hear(begun, "0\r\n\r\n"), "0\r\n\r\n") != 0,
                   "paused: %d", paused);
        (void)close(begun), (void)close(asked), (void)close(call), (void)close(s2),
            (void)close(agent);
        only.paused = only.pausing = false;
        finish();
    }
}

static void keeps_them_up_to_a_limit_and_not_for_long(void)
{
    enum { KEPT_MAX = 16 };
    int clients[KEPT_MAX + 1], services[KEPT_MAX + 1];

    start();
    for (int i = 0; i <= KEPT_MAX; i++) {
        clients[i] = client();
        say(clients[i], "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
        services[i] = service();
        (void)hear(services[i], "\r\n\r\n");
    }
    for (int i = 0; i <= KEPT_MAX; i++) {
        say(services[i], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        (void)hear(clients[i], "ok");
    }
    CHECK(how_it_ends(services[0]) <= 0); /* the first to fall idle made room */
    for (int i = 1; i <= KEPT_MAX; i++) {
        CHECK(how_it_ends(services[i]) <= 0); /* in time */
    }
    for (int i = 0; i <= KEPT_MAX; i++) {
        (void)close(clients[i]), (void)close(services[i]);
    }
    finish();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"keeps connections to the agent", keeps_connections_to_the_agent},
        {"keeps connections to services", keeps_connections_to_services},
        {"a kept connection is of its port alone", a_kept_connection_is_of_its_port_alone},
        {"what changes something gets a fresh connection",
         what_changes_something_gets_a_fresh_connection},
        {"a service that closes a kept connection is asked again",
         a_service_that_closes_a_kept_connection_is_asked_again},
        {"keeps nothing that is not clean", keeps_nothing_that_is_not_clean},
        {"nothing is kept of a sandbox that pauses or ends",
         nothing_is_kept_of_a_sandbox_that_pauses_or_ends},
        {"a pause holds what services answer", a_pause_holds_what_services_answer},
        {"keeps them up to a limit and not for long", keeps_them_up_to_a_limit_and_not_for_long},
    };

    return check_run(tests, countof(tests));
}
