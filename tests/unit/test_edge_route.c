/* Whose a request is: hosts and headers, friendly and hostile. */
#include "check.h"
#include "serve/edge/edge.h"

#define ID "isv6ril5xadwn1k9t2jye"

struct row {
    const char *host, *id, *port; /* NULL: no such header */
    const char *domain;
    enum edge_verdict want;
    uint16_t want_port;
};

static const struct row rows[] = {
    /* headers, on hosts that cannot name a sandbox */
    {"127.0.0.1:3000", ID, "49983", "", EDGE_OURS, 49983},
    {"127.0.0.1", ID, "8080", NULL, EDGE_OURS, 8080},
    {"[::1]:3000", ID, "8080", "", EDGE_OURS, 8080},
    {"[2001:db8::1]", ID, "8080", "", EDGE_OURS, 8080},
    {"localhost:3000", ID, "65535", "", EDGE_OURS, 65535},
    {"LocalHost", ID, "1", "", EDGE_OURS, 1},
    {"sandbox.example.com", ID, "49983", "example.com", EDGE_OURS, 49983},
    {"sandbox.other.org:443", ID, "49983", "", EDGE_OURS, 49983},
    {"127.0.0.1:3000", NULL, NULL, "", EDGE_NOT_OURS, 0},
    {"sandbox.example.com", NULL, NULL, "example.com", EDGE_NOT_OURS, 0},
    {"127.0.0.1", "", "", "", EDGE_NOT_OURS, 0},
    {"127.0.0.1", ID, NULL, "", EDGE_BAD, 0},
    {"127.0.0.1", NULL, "49983", "", EDGE_BAD, 0},
    {"127.0.0.1", ID, "0", "", EDGE_BAD, 0}, /* the agent's control surface */
    {"127.0.0.1", ID, "00000", "", EDGE_BAD, 0},
    {"127.0.0.1", ID, "65536", "", EDGE_BAD, 0},
    {"127.0.0.1", ID, "131119", "", EDGE_BAD, 0},
    {"127.0.0.1", ID, "99999999999999999999", "", EDGE_BAD, 0},
    {"127.0.0.1", ID, "-1", "", EDGE_BAD, 0},
    {"127.0.0.1", ID, "+80", "", EDGE_BAD, 0},
    {"127.0.0.1", ID, "0x50", "", EDGE_BAD, 0},
    {"127.0.0.1", ID, "80 81", "", EDGE_BAD, 0},
    {"127.0.0.1", "SBX_UPPER", "80", "", EDGE_BAD, 0},
    {"127.0.0.1", "sbx:123", "80", "", EDGE_BAD, 0},
    {"127.0.0.1", "../../etc", "80", "", EDGE_BAD, 0},
    {"127.0.0.1", ID "-6532622b", "80", "", EDGE_BAD, 0},

    /* headers do not count where the host names a sandbox, or is the API's */
    {"80-" ID ".example.com", "iother", "49983", "example.com", EDGE_OURS, 80},
    {"api.example.com", ID, "49983", "example.com", EDGE_NOT_OURS, 0},
    {"myhost", ID, "49983", "", EDGE_NOT_OURS, 0},

    /* names under the domain */
    {"49983-" ID ".example.com", NULL, NULL, "example.com", EDGE_OURS, 49983},
    {"49983-" ID ".EXAMPLE.com.:443", NULL, NULL, "example.com", EDGE_OURS, 49983},
    {"49983-" ID ".localhost:3000", NULL, NULL, "localhost:3000", EDGE_OURS, 49983},
    {"49983-" ID ".localhost:3000", NULL, NULL, "example.com", EDGE_OURS, 49983},
    {"0-" ID ".localhost", NULL, NULL, "example.com", EDGE_BAD, 0},
    {"49983-" ID ".x.localhost", NULL, NULL, "example.com", EDGE_NOT_OURS, 0},
    {"49983-" ID "-6532622b.example.com", NULL, NULL, "example.com", EDGE_OURS, 49983},
    {"49983-" ID "-6532622b-x.example.com", NULL, NULL, "example.com", EDGE_BAD, 0},
    {"49983-" ID "-.example.com", NULL, NULL, "example.com", EDGE_BAD, 0},
    {"abcd-" ID ".example.com", NULL, NULL, "example.com", EDGE_BAD, 0},
    {"0-" ID ".example.com", NULL, NULL, "example.com", EDGE_BAD, 0},
    {"-" ID ".example.com", NULL, NULL, "example.com", EDGE_BAD, 0},
    {"80-.example.com", NULL, NULL, "example.com", EDGE_BAD, 0},
    {"80-I_X.example.com", NULL, NULL, "example.com", EDGE_BAD, 0},
    {ID ".example.com", NULL, NULL, "example.com", EDGE_NOT_OURS, 0},
    {"example.com", NULL, NULL, "example.com", EDGE_NOT_OURS, 0},
    {"80-" ID ".evil.com", NULL, NULL, "example.com", EDGE_NOT_OURS, 0},
    {"80-" ID ".x.example.com", NULL, NULL, "example.com", EDGE_NOT_OURS, 0},
    {"80-" ID ".notexample.com", NULL, NULL, "example.com", EDGE_NOT_OURS, 0},

    /* any domain, when none is set: only what is a target beyond doubt */
    {"49983-" ID ".any.thing:3000", NULL, NULL, "", EDGE_OURS, 49983},
    {"49983-" ID "-6532622b.any.thing", NULL, NULL, NULL, EDGE_OURS, 49983},
    {"my-dashboard.corp.net", NULL, NULL, "", EDGE_NOT_OURS, 0},
    {"0-" ID ".any.thing", NULL, NULL, "", EDGE_NOT_OURS, 0},
    {"49983-" ID, NULL, NULL, "", EDGE_NOT_OURS, 0},
    {"49983-" ID ":8080", NULL, NULL, "", EDGE_NOT_OURS, 0},
    {"49983-" ID ".", NULL, NULL, "", EDGE_NOT_OURS, 0},

    /* not a host at all */
    {"", NULL, NULL, "", EDGE_NOT_OURS, 0},
    {".", NULL, NULL, "", EDGE_NOT_OURS, 0},
    {":", NULL, NULL, "", EDGE_NOT_OURS, 0},
    {"[", ID, "80", "", EDGE_NOT_OURS, 0},
    {"[::1", NULL, NULL, "", EDGE_NOT_OURS, 0},
    {"sandbox.", ID, "80", "", EDGE_NOT_OURS, 0},
};

static enum edge_verdict route(const struct row *row, struct edge_target *out)
{
    struct http_header headers[2];
    struct http_request req = {.authority = str_of(row->host), .headers = headers};

    if (row->id) {
        headers[req.headers_n++] = (struct http_header){STR("e2b-sandbox-id"), str_of(row->id)};
    }
    if (row->port) {
        headers[req.headers_n++] = (struct http_header){STR("e2b-sandbox-port"), str_of(row->port)};
    }
    return edge_route(&req, row->domain, out);
}

static void table_of_hosts(void)
{
    for (size_t i = 0; i < countof(rows); i++) {
        struct edge_target target;
        enum edge_verdict got = route(&rows[i], &target);
        CHECK_THAT(got == rows[i].want, "row %zu, host '%s': verdict %d, want %d", i, rows[i].host,
                   (int)got, (int)rows[i].want);
        if (got == EDGE_OURS) {
            CHECK_INT(target.port, rows[i].want_port);
            CHECK(str_eq(target.id, STR(ID)));
        } else if (got == EDGE_BAD) {
            CHECK(target.reason && target.reason[0]);
        }
    }
}

static void repeated_headers_are_refused(void)
{
    const struct http_header headers[] = {{STR("e2b-sandbox-id"), STR(ID)},
                                          {STR("e2b-sandbox-port"), STR("49983")},
                                          {STR("e2b-sandbox-id"), STR("iother")}};
    struct http_request req = {
        .authority = STR("127.0.0.1"), .headers = headers, .headers_n = countof(headers)};
    struct edge_target target;

    CHECK_INT(edge_route(&req, "", &target), EDGE_BAD);
    req.headers_n = 2;
    CHECK_INT(edge_route(&req, "", &target), EDGE_OURS);
}

static void what_named_the_sandbox_is_told(void)
{
    static const struct row by_headers = {"127.0.0.1", ID, "49983", "", EDGE_OURS, 49983};
    static const struct row by_name = {
        "49983-" ID ".example.com", ID, "49983", "example.com", EDGE_OURS, 49983};
    struct edge_target target;

    CHECK_INT(route(&by_headers, &target), EDGE_OURS);
    CHECK(target.by_headers);
    CHECK_INT(route(&by_name, &target), EDGE_OURS);
    CHECK(!target.by_headers);
}

static void bytes_that_are_no_text(void)
{
    struct http_request req = {.authority = {"80-i\0x.example.com", 18}};
    struct edge_target target;

    CHECK_INT(edge_route(&req, "example.com", &target), EDGE_BAD);
    req.authority = (struct str){"127.0.0.1\0", 10};
    CHECK_INT(edge_route(&req, "example.com", &target), EDGE_NOT_OURS);
}

/* With the dashboard's token the headers count with every name of the daemon, but for that of a
 * sandbox. */
static void a_page_uses_headers_with_every_name(void)
{
    static const char *const own[] = {"api.example.com", "example.com", "myhost", "127.0.0.1:3000",
                                      "my-dashboard.corp.net"};
    const struct http_header headers[] = {{STR("e2b-sandbox-id"), STR(ID)},
                                          {STR("e2b-sandbox-port"), STR("8000")},
                                          {STR("x-atoll-csrf"), STR("agent")}};
    struct http_request req = {.headers = headers, .headers_n = countof(headers)};
    struct edge_target target;

    for (size_t i = 0; i < countof(own); i++) {
        req.authority = str_of(own[i]);
        CHECK_INT(edge_route(&req, "example.com", &target), EDGE_OURS);
        CHECK(target.by_headers && target.port == 8000 && str_eq(target.id, STR(ID)));
    }
    req.authority = STR("80-iother.example.com");
    CHECK_INT(edge_route(&req, "example.com", &target), EDGE_OURS);
    CHECK(!target.by_headers && target.port == 80 && str_eq(target.id, STR("iother")));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"hosts and headers", table_of_hosts},
        {"repeated headers are refused", repeated_headers_are_refused},
        {"what named the sandbox is told", what_named_the_sandbox_is_told},
        {"bytes that are no text", bytes_that_are_no_text},
        {"a page uses headers with every name", a_page_uses_headers_with_every_name},
    };

    return check_run(tests, countof(tests));
}
