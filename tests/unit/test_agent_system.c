/* The agent beside its services: channel, /init, tokens, CORS, figures. */
#include <errno.h>

#include "agent_fixture.h"
#include "check.h"
#include "lib/base/fdpass.h"
#include "tcp_pair.h"

static struct agent_child agent;
static int channel = -1;

static int channel_attach(uint32_t version, struct channel_message *answer)
{
    struct channel_message hello = {.op = CHANNEL_HELLO, .seq = 7, .value = version};
    struct sockaddr_un address;
    struct timeval timeout = {.tv_sec = READ_TIMEOUT_S};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    (void)channel_address(&agent, &address);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        send(fd, &hello, sizeof(hello), 0) != sizeof(hello) ||
        recv(fd, answer, sizeof(*answer), 0) != sizeof(*answer)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int answer_status(uint32_t seq)
{
    struct channel_message answer;

    if (recv(channel, &answer, sizeof(answer), 0) != sizeof(answer) || answer.seq != seq ||
        answer.op != CHANNEL_CONNECT) {
        return -EPROTO;
    }
    return answer.status;
}

/* Gives the agent one end of a connection: the other one, or -errno as the agent said it. */
static int channel_connect(uint32_t port)
{
    struct channel_message ask = {.op = CHANNEL_CONNECT, .seq = port + 1, .value = port};
    int pair[2];

    tcp_pair(pair);
    (void)fcntl(pair[1], F_SETFL, O_NONBLOCK);
    ssize_t n = fdpass_send(channel, &ask, sizeof(ask), &pair[1], 1, 0);
    (void)close(pair[1]);
    int status = n == (ssize_t)sizeof(ask) ? answer_status(ask.seq) : -EPROTO;
    if (status < 0) {
        (void)close(pair[0]);
    }
    return status < 0 ? status : pair[0];
}

static int request(struct client *c, const char *method, const char *path, const char *headers,
                   const char *body)
{
    return client_request(c, method, path, headers, str_of(body)) ? c->status : -1;
}

static int over_tcp(const char *method, const char *path, const char *headers, const char *body)
{
    scoped_client(c);

    client_open(&c, agent.port);
    return request(&c, method, path, headers, body);
}

static int over_control(const char *method, const char *path, const char *body)
{
    scoped_client(c);

    client_take_fd(&c, channel_connect(CHANNEL_PORT_CONTROL));
    return request(&c, method, path, "", body);
}

static void greeting_is_checked(void)
{
    struct channel_message answer;
    int fd = channel_attach(CHANNEL_VERSION + 1, &answer);

    CHECK(fd >= 0);
    CHECK_INT(answer.status, -EPROTONOSUPPORT);
    CHECK_INT(recv(fd, &answer, sizeof(answer), 0), 0); /* and is hung up */
    (void)close(fd);
    channel = channel_attach(CHANNEL_VERSION, &answer);
    CHECK(channel >= 0);
    CHECK_INT(answer.op, CHANNEL_HELLO);
    CHECK_INT(answer.seq, 7);
    CHECK_INT(answer.status, 0);
    CHECK_INT(answer.value, CHANNEL_VERSION);
}

static void health_is_open(void)
{
    scoped_client(c);

    CHECK_INT(over_tcp("GET", "/health", "", ""), 204);
    CHECK_INT(over_tcp("POST", "/health", "", ""), 405);
    CHECK_INT(over_tcp("GET", "/health/", "", ""), 404);
    CHECK_INT(over_tcp("GET", "//health", "", ""), 404);
    CHECK_INT(over_tcp("GET", "/%68ealth", "", ""), 404);
    client_take_fd(&c, channel_connect(AGENT_PORT));
    CHECK_INT(request(&c, "GET", "/health", "", ""), 204);
}

static void init_is_for_control_alone(void)
{
    scoped_client(edge);

    CHECK_INT(over_tcp("POST", "/init", "", "{}"), 404);
    client_take_fd(&edge, channel_connect(AGENT_PORT));
    CHECK_INT(request(&edge, "POST", "/init", "", "{}"), 404);
    CHECK_INT(over_control("POST", "/init", "{"), 400);
    CHECK_INT(over_control("POST", "/init", "[]"), 400);
    CHECK_INT(over_control("POST", "/init", "{\"envVars\":{\"A\":1}}"), 400);
    CHECK_INT(over_control("POST", "/init", "{\"envVars\":{\"A=\":\"1\"}}"), 400);
    CHECK_INT(over_control("POST", "/init", "{\"timestamp\":\"yesterday\"}"), 400);
    CHECK_INT(over_control("POST", "/init", "{\"memoryMB\":-1}"), 400);
}

static json_t *get_json(const char *path, const char *headers)
{
    scoped_client(c);
    char text[8192];
    char all[256];
    size_t n = 0;

    (void)snprintf(all, sizeof(all), "Connection: close\r\n%s", headers);
    client_open(&c, agent.port);
    if (request(&c, "GET", path, all, "") != 200) {
        return NULL;
    }
    while (n < sizeof(text) && client_body(&c, text + n, 1)) {
        n++;
    }
    return json_loadb(text, n, 0, NULL);
}

static void init_sets_token_and_environment(void)
{
    static const char body[] = "{\"envVars\":{\"MINE\":\"1\"},\"accessToken\":\"sesame\","
                               "\"timestamp\":\"2026-01-02T03:04:05Z\",\"sandboxID\":\"isb\","
                               "\"templateID\":\"tpl\",\"memoryMB\":512,\"cpuCount\":3,"
                               "\"diskSizeMB\":1024,\"teamID\":\"team\",\"later\":{}}";
    static const char token[] = "X-Access-Token: sesame\r\n";

    CHECK_INT(over_control("POST", "/init", body), 204);
    CHECK_INT(over_tcp("GET", "/envs", "", ""), 401);
    CHECK_INT(over_tcp("GET", "/envs", "X-Access-Token: sesamf\r\n", ""), 401);
    CHECK_INT(over_tcp("GET", "/envs", "X-Access-Token: \r\n", ""), 401);
    CHECK_INT(over_tcp("POST", "/process.Process/List", "Content-Type: application/json\r\n", "{}"),
              401);
    CHECK_INT(over_tcp("GET", "/nix", "", ""), 401);
    CHECK_INT(over_tcp("GET", "/health", "", ""), 204);
    json_auto_t *envs = get_json("/envs", token);
    CHECK_INT(json_object_size(envs), 5);
    CHECK_STR(json_text(envs, "MINE", NULL), "1");
    CHECK_STR(json_text(envs, "E2B_SANDBOX", NULL), "true");
    CHECK_STR(json_text(envs, "E2B_SANDBOX_ID", NULL), "isb");
    CHECK_STR(json_text(envs, "E2B_TEMPLATE_ID", NULL), "tpl");
    CHECK_STR(json_text(envs, "E2B_TEAM_ID", NULL), "team");
    json_auto_t *metrics = get_json("/metrics", token);
    CHECK_INT(json_integer_value(json_object_get(metrics, "cpu_count")), 3);
    CHECK_INT(json_integer_value(json_object_get(metrics, "mem_total")), 512LL << 20);
    CHECK_INT(json_integer_value(json_object_get(metrics, "mem_total_mib")), 512);
    CHECK_INT(json_integer_value(json_object_get(metrics, "disk_total")), 1024LL << 20);
    CHECK(json_is_real(json_object_get(metrics, "cpu_used_pct")));
    CHECK(json_integer_value(json_object_get(metrics, "ts")) > 0);
    CHECK(json_integer_value(json_object_get(metrics, "mem_used")) > 0);
}

static void older_init_does_nothing(void)
{
    CHECK_INT(over_control("POST", "/init", "{\"timestamp\":\"2025-01-01T00:00:00Z\"}"), 204);
    CHECK_INT(over_tcp("GET", "/envs", "", ""), 401);
    CHECK_INT(over_control("POST", "/init", "{\"timestamp\":\"2026-02-01T00:00:00Z\"}"), 204);
    CHECK_INT(over_tcp("GET", "/envs", "", ""), 200);
}

static void preflight_is_answered(void)
{
    scoped_client(c);
    scoped_client(d);

    client_open(&c, agent.port);
    client_write(&c,
                 "OPTIONS /files HTTP/1.1\r\nHost: t\r\nOrigin: http://x\r\n"
                 "Access-Control-Request-Method: POST\r\n"
                 "Access-Control-Request-Headers: a, b\r\n\r\n",
                 strlen("OPTIONS /files HTTP/1.1\r\nHost: t\r\nOrigin: http://x\r\n"
                        "Access-Control-Request-Method: POST\r\n"
                        "Access-Control-Request-Headers: a, b\r\n\r\n"));
    CHECK(client_fill(&c));
    CHECK_INT(buf_append(&c.in, "", 1), 0);
    CHECK(strstr(buf_at(&c.in), "HTTP/1.1 204 "));
    CHECK(strstr(buf_at(&c.in), "access-control-allow-origin: *\r\n"));
    CHECK(strstr(buf_at(&c.in), "access-control-allow-headers: a, b\r\n"));
    CHECK(strstr(buf_at(&c.in), "access-control-max-age: 7200\r\n"));
    client_open(&d, agent.port);
    client_write(&d, "GET /nix HTTP/1.1\r\nHost: t\r\nOrigin: http://x\r\n\r\n",
                 strlen("GET /nix HTTP/1.1\r\nHost: t\r\nOrigin: http://x\r\n\r\n"));
    CHECK(client_fill(&d));
    CHECK_INT(buf_append(&d.in, "", 1), 0);
    CHECK(strstr(buf_at(&d.in), "HTTP/1.1 404 "));
    CHECK(strstr(buf_at(&d.in), "access-control-allow-origin: *\r\n"));
}

/* The daemon reaches services itself: the agent serves what is meant for it. */
static void other_connections_are_refused(void)
{
    struct channel_message none = {.op = CHANNEL_CONNECT, .seq = 5, .value = AGENT_PORT};

    CHECK_INT(channel_connect(8080), -EINVAL);
    CHECK_INT(channel_connect(70000), -EINVAL);
    CHECK_INT(send(channel, &none, sizeof(none), 0), sizeof(none)); /* without a connection */
    CHECK_INT(answer_status(5), -EBADF);
}

static void second_daemon_attaches(void)
{
    struct channel_message answer;
    int old = channel;

    channel = channel_attach(CHANNEL_VERSION, &answer);
    CHECK(channel >= 0);
    CHECK_INT(over_control("GET", "/health", ""), 204);
    (void)send(old, "x", 1, 0); /* breaks the protocol: only that one is hung up */
    CHECK_INT(recv(old, &answer, sizeof(answer), 0), 0);
    (void)close(old);
    CHECK_INT(over_control("GET", "/health", ""), 204);
}

/* Lets a process die of SIGKILL, answers the agent's question with `count`, and gives the end's
 * error. */
static void killed_with_count(uint32_t count, char *error, size_t size)
{
    scoped_client(c);
    struct channel_message ask;
    uint8_t flags;

    error[0] = '\0';
    client_open(&c, agent.port);
    CHECK(client_stream(&c, "/process.Process/Start", "",
                        "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"kill -9 $$\"]}}"));
    CHECK_INT(recv(channel, &ask, sizeof(ask), 0), sizeof(ask));
    CHECK_INT(ask.op, CHANNEL_OOM);
    struct channel_message answer = {.op = CHANNEL_OOM, .seq = ask.seq, .value = count};
    CHECK_INT(send(channel, &answer, sizeof(answer), 0), sizeof(answer));
    for (;;) {
        json_auto_t *message = client_next(&c, &flags);
        CHECK(message && flags == 0);
        const json_t *end = json_object_get(json_object_get(message, "event"), "end");
        if (end) {
            CHECK_STR(json_text(end, "status", NULL), "signal: killed");
            (void)snprintf(error, size, "%s", json_text(end, "error", NULL));
            return;
        }
    }
}

static void out_of_memory_is_named(void)
{
    char error[256];

    killed_with_count(0, error, sizeof(error));
    CHECK_STR(error, "signal: killed");
    killed_with_count(1, error, sizeof(error));
    CHECK_STR(error, "signal: killed (out of memory: the sandbox reached its memory limit)");
    killed_with_count(1, error, sizeof(error));
    CHECK_STR(error, "signal: killed");
}

static void agent_is_still_there(void)
{
    (void)close(channel);
    CHECK(agent_stop(&agent));
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"the greeting is checked", greeting_is_checked},
        {"health needs nothing; paths are taken as they are", health_is_open},
        {"/init exists for the daemon alone, and refuses what is wrong", init_is_for_control_alone},
        {"/init sets token, environment and limits", init_sets_token_and_environment},
        {"an /init that was overtaken does nothing", older_init_does_nothing},
        {"a browser's preflight is answered", preflight_is_answered},
        {"a connection that is not for the agent is refused", other_connections_are_refused},
        {"a second daemon attaches while the first dies", second_daemon_attaches},
        {"death for lack of memory is named", out_of_memory_is_named},
        {"the agent has survived", agent_is_still_there},
    };

    if (argc != 2 || !agent_start(&agent, argv[1], true)) {
        printf("Bail out! the agent does not start\n");
        return 1;
    }
    return check_run(tests, countof(tests));
}
