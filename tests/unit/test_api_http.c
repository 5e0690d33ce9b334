/* The API over a real server, store and table of sandboxes. There is no keeper behind it, so that
 * what it says then is tested too; what needs running sandboxes is tested with the whole daemon. */
#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <uv.h>

#include "check.h"
#include "lib/http/server.h"
#include "serve/api/api.h"
#include "serve/api/fields.h"
#include "tmpdir.h"

enum {
    REPLY_BYTES_MAX = 256 * 1024,
    REQUEST_BYTES_MAX = 12 * 1024 * 1024,
};

static struct {
    uv_loop_t loop;
    struct store *store;
    struct templates *templates;
    struct keeper_client *keeper;
    struct builds *builds;
    struct volumes *volumes;
    char files[128];
    struct sandboxes *sandboxes;
    struct api *api;
    struct http_server *http;
    bool stopped;
    char key_path[64];
    char key[64]; /* the default key's text */
} t;

/* ---- the server ---- */

static void on_request(void *ctx, struct http_exchange *ex)
{
    (void)ctx;
    api_handle(t.api, ex);
}

static void on_ready(void *ctx)
{
    (void)ctx;
}

static void on_keeper(void *ctx, bool connected)
{
    (void)ctx;
    if (t.sandboxes) {
        sandboxes_keeper_changed(t.sandboxes, connected);
    }
}

static int start_parts(const struct tmpdir *dir, struct err *err)
{
    char path[64], socket[64];

    (void)snprintf(path, sizeof(path), "%s/state.db", dir->path);
    (void)snprintf(socket, sizeof(socket), "%s/keeper.sock", dir->path);
    int r = store_open(&t.loop, path, &t.store, err);
    if (r == 0) {
        r = templates_new(t.store, &t.templates, err);
    }
    if (r < 0) {
        return r;
    }
    templates_put_builtin(t.templates, &(struct template_builtin){.alias = "base",
                                                                  .layers = "base-1",
                                                                  .cpu_count = 2,
                                                                  .memory_mb = 512,
                                                                  .disk_mb = 1024});
    t.keeper = keeper_client_new(&t.loop, socket, on_keeper, NULL);
    struct sandboxes_options sandboxes = {
        .loop = &t.loop, .store = t.store, .keeper = t.keeper, .templates = t.templates};
    r = sandboxes_new(&sandboxes, on_ready, NULL, &t.sandboxes, err);
    if (r < 0) {
        return r;
    }
    (void)snprintf(t.files, sizeof(t.files), "%s/files", dir->path);
    struct builds_options builds = {.loop = &t.loop,
                                    .store = t.store,
                                    .keeper = t.keeper,
                                    .templates = t.templates,
                                    .sandboxes = t.sandboxes,
                                    .files = t.files,
                                    .image = {.loop = &t.loop, .state = dir->path},
                                    .running_max = 1};
    r = builds_new(&builds, &t.builds, err);
    if (r < 0) {
        return r;
    }
    struct volumes_options volumes = {.loop = &t.loop,
                                      .store = t.store,
                                      .keeper = t.keeper,
                                      .sandboxes = t.sandboxes,
                                      .size_mb = 64};
    r = volumes_new(&volumes, &t.volumes, err);
    if (r < 0) {
        return r;
    }
    struct api_options api = {.loop = &t.loop,
                              .store = t.store,
                              .keeper = t.keeper,
                              .sandboxes = t.sandboxes,
                              .templates = t.templates,
                              .builds = t.builds,
                              .volumes = t.volumes,
                              .team_sandboxes_max = 100,
                              .sandbox_s_max = SANDBOX_TIMEOUT_S_MAX};
    return api_new(&api, &t.api, err);
}

static bool key_read(void)
{
    FILE *file = fopen(t.key_path, "r");
    bool ok = file && fscanf(file, "%63s", t.key) == 1;

    if (file) {
        (void)fclose(file);
    }
    return ok;
}

static bool start(const struct tmpdir *dir)
{
    struct http_server_options options = {.loop = &t.loop, .on_request = on_request};
    struct err err = {0};

    memset(&t, 0, sizeof(t));
    (void)snprintf(t.key_path, sizeof(t.key_path), "%s/key", dir->path);
    (void)uv_loop_init(&t.loop);
    options.loop = &t.loop;
    bool ok = start_parts(dir, &err) == 0 &&
              api_prepare_default_key(t.api, t.key_path, &err) == 0 &&
              http_server_new(&options, &t.http, &err) == 0 &&
              http_server_listen(t.http, "127.0.0.1:0", NULL, &err) == 0 && key_read();
    if (!ok) {
        printf("# %s\n", err.msg);
    }
    return ok;
}

static void on_stopped(void *ctx)
{
    (void)ctx;
    t.stopped = true;
}

static void stop(void)
{
    http_server_stop(t.http, 1000, on_stopped, NULL);
    while (!t.stopped) {
        (void)uv_run(&t.loop, UV_RUN_ONCE);
    }
    http_server_free(t.http);
    api_free(t.api);
    volumes_free(t.volumes);
    builds_free(t.builds);
    sandboxes_free(t.sandboxes);
    keeper_client_free(t.keeper);
    store_close(t.store);
    templates_free(t.templates);
    (void)uv_run(&t.loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&t.loop) != 0) {
        printf("# the loop still has handles\n");
        check_failed = true;
    }
}

/* ---- a client, on a thread of its own ---- */

static struct {
    char *request;
    size_t request_len;
    char reply[REPLY_BYTES_MAX];
    size_t reply_len;
    uv_async_t done;
    bool finished;
    bool hang_up; /* closes without waiting for the answer */
} client;

static void client_run(void *arg)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)http_server_port(t.http))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t sent = 0;

    (void)arg;
    (void)inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0) {
        while (sent < client.request_len) {
            ssize_t n = send(fd, client.request + sent, client.request_len - sent, MSG_NOSIGNAL);
            if (n <= 0) {
                break; /* refused early: the answer is there to be read */
            }
            sent += (size_t)n;
        }
        while (!client.hang_up && client.reply_len < sizeof(client.reply) - 1) {
            ssize_t n = recv(fd, client.reply + client.reply_len,
                             sizeof(client.reply) - 1 - client.reply_len, 0);
            if (n <= 0) {
                break;
            }
            client.reply_len += (size_t)n;
        }
    }
    (void)close(fd);
    (void)uv_async_send(&client.done);
}

static void on_client_done(uv_async_t *async)
{
    client.finished = true;
    uv_close((uv_handle_t *)async, NULL);
}

/* Status of the answer; its text is client.reply. 0: there was none. */
static int exchange(void)
{
    uv_thread_t thread;

    client.reply_len = 0;
    client.finished = false;
    (void)uv_async_init(&t.loop, &client.done, on_client_done);
    if (uv_thread_create(&thread, client_run, NULL) < 0) {
        abort();
    }
    while (!client.finished) {
        (void)uv_run(&t.loop, UV_RUN_ONCE);
    }
    (void)uv_thread_join(&thread);
    client.reply[client.reply_len] = '\0';
    return client.reply_len > 12 ? atoi(client.reply + 9) : 0;
}

static int ask_with(const char *method, const char *path, const char *headers, const char *body)
{
    size_t size = REQUEST_BYTES_MAX;

    client.request = malloc(size);
    if (!client.request) {
        abort();
    }
    client.request_len =
        (size_t)snprintf(client.request, size,
                         "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                         "Content-Length: %zu\r\n%s\r\n%s",
                         method, path, strlen(body), headers, body);
    int status = exchange();
    free(client.request);
    return status;
}

static int ask(const char *method, const char *path, const char *body)
{
    char headers[128];

    (void)snprintf(headers, sizeof(headers), "X-API-KEY: %s\r\n", t.key);
    return ask_with(method, path, headers, body);
}

static const char *reply_body(void)
{
    const char *at = strstr(client.reply, "\r\n\r\n");

    return at ? at + 4 : "";
}

/* A text field of the answer's object, or of its first element; "" when it is not there. */
static const char *reply_text(const char *name)
{
    static char text[512];
    scoped_json *json = json_loads(reply_body(), 0, NULL);
    const json_t *object = json_is_array(json) ? json_array_get(json, 0) : json;
    const char *value = json_string_value(json_object_get(object, name));

    (void)snprintf(text, sizeof(text), "%s", value ? value : "");
    return text;
}

static long long reply_code(void)
{
    scoped_json *json = json_loads(reply_body(), 0, NULL);

    return json_integer_value(json_object_get(json, "code"));
}

#define REFUSED(status, sentence, asking)                                                          \
    do {                                                                                           \
        CHECK_INT((asking), (status));                                                             \
        CHECK_INT(reply_code(), (status));                                                         \
        CHECK_STR(reply_text("message"), (sentence));                                              \
    } while (0)

/* ---- tests ---- */

static void keys_are_wanted(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char bearer[128];

    CHECK(start(&dir));
    REFUSED(401,
            "authorization header is missing: send the API key as X-API-Key, or as "
            "Authorization: Bearer KEY",
            ask_with("GET", "/teams", "", ""));
    REFUSED(401, "authorization header is malformed: a key begins with e2b_",
            ask_with("GET", "/teams", "X-API-Key: hello\r\n", ""));
    REFUSED(401, "Invalid API key format", ask_with("GET", "/teams", "X-API-Key: e2b_123\r\n", ""));
    REFUSED(401, "Invalid API key: Cannot get the team for the given API key",
            ask_with("GET", "/teams", "X-API-Key: e2b_0123456789012345678901234567890123456789\r\n",
                     ""));
    CHECK_INT(ask("GET", "/teams", ""), 200);
    CHECK_STR(reply_text("apiKey"), t.key);
    CHECK_STR(reply_text("name"), "default");
    (void)snprintf(bearer, sizeof(bearer), "Authorization: Bearer %s\r\n", t.key);
    CHECK_INT(ask_with("GET", "/teams", bearer, ""), 200);
    CHECK(strstr(client.reply, "\"isDefault\":true"));
    stop();
}

static void the_default_key_stays(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct stat st;
    char first[64], second[64];

    CHECK(start(&dir));
    CHECK(stat(t.key_path, &st) == 0 && (st.st_mode & 0777) == 0600);
    memcpy(first, t.key, sizeof(first));
    stop();

    CHECK(start(&dir));
    CHECK_STR(t.key, first);
    stop();

    FILE *file = fopen(t.key_path, "w"); /* somebody broke the file */
    CHECK(file && fputs("e2b_nonsense\n", file) >= 0 && fclose(file) == 0);
    CHECK(start(&dir));
    CHECK(strcmp(t.key, first) != 0);
    memcpy(second, t.key, sizeof(second));
    CHECK_INT(ask("GET", "/teams", ""), 200);
    memcpy(t.key, first, sizeof(first)); /* the old one was not taken away */
    CHECK_INT(ask("GET", "/teams", ""), 200);
    stop();
    CHECK(start(&dir));
    CHECK_STR(t.key, second);
    stop();
}

/* Whoever may read the file is never locked out. */
static void a_revoked_default_key_is_replaced(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[80], first[64];

    CHECK(start(&dir));
    memcpy(first, t.key, sizeof(first));
    CHECK_INT(ask("GET", "/api-keys", ""), 200);
    (void)snprintf(path, sizeof(path), "/api-keys/%s", reply_text("id"));
    CHECK_INT(ask("DELETE", path, ""), 204);
    CHECK_INT(ask("GET", "/api-keys", ""), 401);
    CHECK(key_read() && strcmp(t.key, first) != 0);
    CHECK_INT(ask("GET", "/api-keys", ""), 200);
    stop();

    (void)snprintf(first, sizeof(first), "%s", t.key);
    CHECK(start(&dir)); /* it is on disk */
    CHECK_STR(t.key, first);
    CHECK_INT(ask("GET", "/api-keys", ""), 200);
    stop();
}

static void keys_come_and_go(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[80], made[64], own[64];

    CHECK(start(&dir));
    memcpy(own, t.key, sizeof(own));
    CHECK_INT(ask("POST", "/api-keys", "{\"name\":\"ci\"}"), 201);
    CHECK_STR(reply_text("name"), "ci");
    CHECK(strstr(client.reply, "\"lastUsed\":null"));
    CHECK(strstr(client.reply, "\"valueLength\":40"));
    (void)snprintf(made, sizeof(made), "%s", reply_text("key"));
    (void)snprintf(path, sizeof(path), "/api-keys/%s", reply_text("id"));
    CHECK_INT(strlen(made), 44);

    memcpy(t.key, made, sizeof(made));
    CHECK_INT(ask("GET", "/api-keys", ""), 200);
    CHECK(!strstr(client.reply, made + 10)); /* never shown again */
    CHECK_INT(ask("PATCH", path, "{\"name\":\"renamed\"}"), 202);
    CHECK_INT(ask("GET", "/api-keys", ""), 200);
    CHECK(strstr(client.reply, "renamed") && !strstr(client.reply, "\"ci\""));
    stop();

    CHECK(start(&dir)); /* all of it is on disk */
    memcpy(t.key, made, sizeof(made));
    CHECK_INT(ask("GET", "/api-keys", ""), 200);
    CHECK(strstr(client.reply, "renamed"));
    memcpy(t.key, own, sizeof(own));
    CHECK_INT(ask("DELETE", path, ""), 204);
    REFUSED(404, "id not found", ask("DELETE", path, ""));
    REFUSED(404, "id not found", ask("PATCH", path, "{\"name\":\"x\"}"));
    memcpy(t.key, made, sizeof(made));
    CHECK_INT(ask("GET", "/api-keys", ""), 401);
    stop();

    CHECK(start(&dir));
    memcpy(t.key, made, sizeof(made));
    CHECK_INT(ask("GET", "/api-keys", ""), 401);
    memcpy(t.key, own, sizeof(own));
    REFUSED(400, "validation error: name must be 1 to 256 bytes",
            ask("POST", "/api-keys", "{\"name\":\"\"}"));
    REFUSED(400, "validation error: name must be a string",
            ask("POST", "/api-keys", "{\"name\":1}"));
    stop();
}

static void what_is_not_there_yet_says_so(void)
{
    scoped_tmpdir dir = tmpdir_make();

    CHECK(start(&dir));
    const char *sentence =
        "Building a template from a pushed image is not available on this server yet: use the "
        "SDK's Template, or `atoll template build`";
    REFUSED(501, sentence, ask("POST", "/templates", "{\"dockerfile\":\"FROM debian\"}"));
    REFUSED(400, "validation error: dockerfile is required", ask("POST", "/templates", "{}"));
    REFUSED(400, "validation error: alias must be a string",
            ask("POST", "/templates", "{\"alias\":1,\"dockerfile\":\"FROM debian\"}"));
    REFUSED(400, "Invalid alias: 'A B' is not of a-z 0-9 - _",
            ask("POST", "/templates", "{\"alias\":\"A B\",\"dockerfile\":\"FROM debian\"}"));
    REFUSED(400, "Team ID param mismatch with the API key",
            ask("POST", "/templates", "{\"teamID\":\"x\",\"dockerfile\":\"FROM debian\"}"));
    CHECK_INT(ask("POST", "/templates", "{\"cpuCount\":0,\"dockerfile\":\"FROM debian\"}"), 400);
    CHECK_INT(ask("POST", "/templates/nothing", "{\"dockerfile\":\"FROM debian\"}"), 404);
    CHECK_INT(ask("POST", "/templates/nothing/builds/1", ""), 400);
    CHECK_INT(ask("POST", "/templates/nothing/builds/00000000-0000-0000-0000-000000000000", ""),
              404);
    REFUSED(405, "validation error: this path does not take that method",
            ask("PUT", "/sandboxes/iabc/pause", ""));
    CHECK_INT(ask_with("POST", "/templates", "", ""), 401);
    stop();
}

static void paths_and_browsers(void)
{
    scoped_tmpdir dir = tmpdir_make();

    CHECK(start(&dir));
    CHECK_INT(ask_with("GET", "/", "", ""), 200); /* to whoever asks what this is */
    REFUSED(404, "validation error: no such endpoint", ask("GET", "/nothing", ""));
    REFUSED(404, "validation error: no such endpoint", ask("GET", "/sandboxes/", ""));
    REFUSED(403, "this address takes no upload: ask for a new one",
            ask("PUT", "/templates/nothing/files/0?token=x", "tar"));
    REFUSED(405, "validation error: this path does not take that method",
            ask("PUT", "/sandboxes", ""));
    REFUSED(400, "validation error: the path is not valid", ask("GET", "/sandboxes/%zz", ""));
    REFUSED(400, "validation error: the path is not valid", ask("GET", "/sandboxes/a%00b", ""));
    CHECK_INT(ask_with("OPTIONS", "/v2/sandboxes",
                       "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n", ""),
              204);
    CHECK(strstr(client.reply, "access-control-allow-origin: *"));
    CHECK(strstr(client.reply, "X-API-Key") && strstr(client.reply, "lang_version"));
    CHECK_INT(ask("GET", "/v2/sandboxes", ""), 200);
    CHECK(strstr(client.reply, "access-control-expose-headers: X-Next-Token"));
    CHECK(strstr(client.reply, "X-Total-Running: 0"));
    CHECK(!strstr(client.reply, "X-Next-Token:"));
    CHECK_STR(reply_body(), "[]");
    CHECK_INT(ask("GET", "/v2/sandboxes?state=paused&template=nothing", ""), 200);
    CHECK(!strstr(client.reply, "X-Total-Running: "));
    REFUSED(400, "Invalid next token", ask("GET", "/v2/sandboxes?nextToken=abc", ""));
    CHECK_INT(ask("GET", "/sandboxes", ""), 200);
    stop();
}

static void the_operator_makes_teams(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[128], header[128] = "X-Admin-Token: ", team[64];

    CHECK(start(&dir));
    (void)snprintf(path, sizeof(path), "%s/admin", dir.path);
    api_prepare_admin_token(t.api, path);
    FILE *file = fopen(path, "r");
    CHECK(file && fscanf(file, "%100s", header + strlen(header)) == 1);
    (void)fclose(file);
    (void)snprintf(header + strlen(header), sizeof(header) - strlen(header), "\r\n");

    CHECK_INT(ask("GET", "/admin/teams", ""), 401);
    CHECK_INT(ask_with("POST", "/admin/teams", header, "{\"name\":\"b\",\"limits\":{\"cpus\":4}}"),
              201);
    CHECK(strstr(client.reply, "\"cpus\":4"));
    (void)snprintf(team, sizeof(team), "%s", reply_text("teamID"));
    CHECK_INT(ask_with("POST", "/admin/teams", header, "{\"name\":\"b\"}"), 409);
    (void)snprintf(path, sizeof(path), "/admin/teams/%s/api-keys", team);
    CHECK_INT(ask_with("POST", path, header, "{\"name\":\"k\",\"limits\":{\"builds\":0}}"), 201);
    (void)snprintf(t.key, sizeof(t.key), "%s", reply_text("key"));
    CHECK_INT(ask("GET", "/v2/sandboxes", ""), 200);
    CHECK_INT(ask("POST", "/access-tokens", "{\"name\":\"x\"}"), 403); /* the key has limits */
    (void)snprintf(path, sizeof(path), "/teams/%s/usage", team);
    CHECK_INT(ask("GET", path, ""), 200);
    CHECK(strstr(client.reply, "\"sandboxSeconds\":0"));
    (void)snprintf(path, sizeof(path), "/admin/teams/%s", team);
    CHECK_INT(ask_with("PATCH", path, header, "{\"limits\":{\"cpus\":null}}"), 200);
    CHECK(strstr(client.reply, "\"cpus\":null"));
    CHECK_INT(ask_with("GET", "/nodes", header, ""), 200);
    CHECK_INT(ask_with("GET", "/nodes/nothing", header, ""), 404);
    CHECK_INT(ask_with("POST", "/nodes/nothing", header, "{\"status\":\"ready\"}"), 404);
    CHECK_INT(ask_with("GET", "/admin/teams/nothing", header, ""), 404);
    CHECK_INT(ask_with("POST", "/admin/teams/nothing/sandboxes/kill", header, ""), 404);
    CHECK_INT(ask_with("POST", "/admin/teams/nothing/builds/cancel", header, ""), 404);
    CHECK_INT(ask_with("GET", "/admin/teams/nothing/usage", header, ""), 404);
    CHECK_INT(ask_with("GET", "/admin/sandboxes/running-counts", header, ""), 200);
    CHECK_INT(ask_with("DELETE", "/admin/keys/nothing", header, ""), 404);
    CHECK_INT(ask_with("POST", "/admin/keys", header, "{\"name\":\"x\"}"), 201);
    (void)snprintf(path, sizeof(path), "/admin/keys/%s", reply_text("id"));
    CHECK_INT(ask_with("DELETE", path, header, ""), 204);
    CHECK_INT(ask("GET", "/dashboard/builds", ""), 200);
    CHECK_INT(ask("GET", "/dashboard/templates?limit=1", ""), 200);
    CHECK_INT(ask("GET", "/dashboard/templates/defaults", ""), 200);
    CHECK_INT(ask("GET", "/dashboard/templates/base/tags/groups", ""), 403);
    CHECK_INT(ask("POST", "/v3/templates", "{\"name\":\"mine\"}"), 202);
    CHECK_INT(ask("GET", "/dashboard/templates/mine", ""), 200);
    CHECK_INT(ask("GET", "/dashboard/templates/mine/tags/groups", ""), 200);
    CHECK_INT(ask("GET", "/dashboard/templates/mine/tags/count", ""), 200);
    CHECK_INT(ask("GET", "/dashboard/templates/mine/tags/exists?tag=x", ""), 200);
    CHECK_INT(ask("GET", "/dashboard/templates/mine/tags/x/assignments", ""), 200);
    CHECK_INT(ask("GET", "/dashboard/builds?limit=1", ""), 200);
    CHECK_INT(ask("GET", "/dashboard/builds?cursor=x", ""), 400);
    stop();
}

static void health_says_what_is_amiss(void)
{
    scoped_tmpdir dir = tmpdir_make();

    CHECK(start(&dir));
    CHECK_INT(ask_with("GET", "/health", "", ""), 200);
    CHECK_STR(reply_text("status"), "degraded");
    CHECK_STR(reply_text("version"), ATOLL_VERSION);
    CHECK(strstr(client.reply, "\"keeperConnected\":false"));
    CHECK(strstr(client.reply, "The keeper is away"));
    CHECK_INT(ask_with("GET", "/health", "publisher: e2b\r\n", ""), 503);
    CHECK_STR(reply_body(), "Service is unavailable");
    stop();
}

static void templates_are_listed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char id[32];

    CHECK(start(&dir));
    CHECK_INT(ask("GET", "/templates", ""), 200);
    (void)snprintf(id, sizeof(id), "%s", reply_text("templateID"));
    CHECK_INT(strlen(id), 20);
    CHECK(strstr(client.reply, "\"aliases\":[\"base\"]"));
    CHECK_INT(ask("GET", "/templates/aliases/base", ""), 200);
    CHECK_STR(reply_text("templateID"), id);
    CHECK_INT(ask("GET", "/templates/aliases/base%3Adefault", ""), 200);
    REFUSED(404, "tag 'v2' does not exist for template 'base'",
            ask("GET", "/templates/aliases/base%3Av2", ""));
    REFUSED(404, "template 'nothing' not found", ask("GET", "/templates/aliases/nothing", ""));
    REFUSED(400, "Team ID param mismatch with the API key",
            ask("GET", "/templates?teamID=other", ""));
    stop();
}

static void sandboxes_that_are_not_there(void)
{
    scoped_tmpdir dir = tmpdir_make();
    const char *missing = "Sandbox \"iabcdefghij0123456789\" doesn't exist or you don't have access"
                          " to it";

    CHECK(start(&dir));
    REFUSED(404, missing, ask("GET", "/sandboxes/iabcdefghij0123456789", ""));
    REFUSED(404, missing, ask("GET", "/sandboxes/iabcdefghij0123456789-client", ""));
    REFUSED(404, missing, ask("DELETE", "/sandboxes/iabcdefghij0123456789", ""));
    REFUSED(404, missing,
            ask("POST", "/sandboxes/iabcdefghij0123456789/timeout", "{\"timeout\":0}"));
    REFUSED(404, missing, ask("POST", "/sandboxes/iabcdefghij0123456789/refreshes", ""));
    REFUSED(404, missing, ask("POST", "/v2/sandboxes/iabcdefghij0123456789/connect", ""));
    REFUSED(404, missing,
            ask("POST", "/sandboxes/iabcdefghij0123456789/connect", "{\"timeout\":1}"));
    REFUSED(400, "Invalid sandbox ID", ask("GET", "/sandboxes/a-b-c", ""));
    REFUSED(400, "Invalid sandbox ID", ask("GET", "/sandboxes/..%2Fetc", ""));
    REFUSED(400, "validation error: timeout is required",
            ask("POST", "/sandboxes/iabc/timeout", "{}"));
    REFUSED(400, "validation error: timeout must be between 0 and 86400",
            ask("POST", "/sandboxes/iabc/timeout", "{\"timeout\":-1}"));
    REFUSED(400, "validation error: duration must be between 0 and 3600",
            ask("POST", "/sandboxes/iabc/refreshes", "{\"duration\":3601}"));
    REFUSED(400, "validation error: timeout is required",
            ask("POST", "/sandboxes/iabc/connect", "{}"));
    REFUSED(400, "validation error: the request has no body",
            ask("POST", "/sandboxes/iabc/connect", ""));
    stop();
}

static void creates_that_cannot_be(void)
{
    scoped_tmpdir dir = tmpdir_make();

    CHECK(start(&dir));
    REFUSED(404, "template 'nothing' not found",
            ask("POST", "/v2/sandboxes", "{\"templateID\":\"nothing\"}"));
    REFUSED(404, "tag 'v9' does not exist for template 'base'",
            ask("POST", "/v2/sandboxes", "{\"templateID\":\"base:v9\"}"));
    REFUSED(400, "Invalid template reference: '../x'",
            ask("POST", "/v2/sandboxes", "{\"templateID\":\"../x\"}"));
    REFUSED(400, "Timeout must be greater than 0",
            ask("POST", "/sandboxes", "{\"templateID\":\"base\",\"timeout\":0}"));
    CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"\xff\"}"), 400);
    CHECK_INT(reply_code(), 400);
    client.hang_up = true; /* these leave before their answer, which comes before the next one's */
    for (int i = 0; i < 5; i++) {
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"base\"}"), 0);
    }
    client.hang_up = false;
    CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"base\"}"), 503);
    CHECK_INT(reply_code(), 503);
    CHECK(strstr(client.reply, "Retry-After: 1"));
    char headers[160];
    (void)snprintf(headers, sizeof(headers), "X-API-Key: %s\r\nIdempotency-Key: Not_a_key\r\n",
                   t.key);
    CHECK_INT(ask_with("POST", "/v2/sandboxes", headers, "{\"templateID\":\"base\"}"), 400);
    stop();
}

static void bodies_have_a_limit(void)
{
    enum { LARGE = 10 * 1024 * 1024 };
    scoped_tmpdir dir = tmpdir_make();
    static char body[LARGE + 64];

    CHECK(start(&dir));
    int n = snprintf(body, LARGE, "{\"templateID\":\"base\",\"metadata\":{\"a\":\"");
    memset(body + n, 'x', LARGE);
    (void)snprintf(body + n + LARGE - 64, 64, "\"}}");
    REFUSED(413, "validation error: the body is larger than 1048576 bytes",
            ask("POST", "/v2/sandboxes", body));
    body[n + 100 * 1024] = '\0';
    REFUSED(413, "validation error: the body is larger than 65536 bytes",
            ask("POST", "/api-keys", body));
    CHECK_INT(ask_with("POST", "/v2/sandboxes", "", body), 401);
    stop();
}

static void clients_that_leave(void)
{
    scoped_tmpdir dir = tmpdir_make();

    CHECK(start(&dir));
    client.hang_up = true;
    for (int i = 0; i < 20; i++) {
        CHECK_INT(ask("POST", "/api-keys", "{\"name\":\"x\"}"), 0);
    }
    client.hang_up = false;
    CHECK_INT(ask("GET", "/teams", ""), 200);
    stop(); /* the sanitizers say whether anything was left behind */
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a key is wanted, and shown to its owner alone", keys_are_wanted},
        {"the default key stays, or is made anew", the_default_key_stays},
        {"a revoked default key is replaced at once", a_revoked_default_key_is_replaced},
        {"keys are made, renamed and revoked, across restarts", keys_come_and_go},
        {"what is not there yet says so", what_is_not_there_yet_says_so},
        {"unknown paths, other methods, browsers", paths_and_browsers},
        {"the operator makes teams", the_operator_makes_teams},
        {"health without a keeper", health_says_what_is_amiss},
        {"templates", templates_are_listed},
        {"sandboxes that are not there", sandboxes_that_are_not_there},
        {"creates that cannot be", creates_that_cannot_be},
        {"bodies have a limit", bodies_have_a_limit},
        {"clients that leave", clients_that_leave},
    };

    return check_run(tests, countof(tests));
}
