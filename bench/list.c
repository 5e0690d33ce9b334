/* Measures a page of 100 sandboxes out of 10,000 beside a page out of 10, over HTTP, and the
 * dashboard's page of 1000, and prints the ms of each as JSON.
 *
 * The API runs here, on a thread of its own, over a store with that many rows; no keeper is behind
 * it, so nothing is adopted and the table stays as it was loaded. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "lib/base/clock.h"
#include "lib/http/server.h"
#include "serve/api/api.h"

enum {
    FEW = 10,
    MANY = 10000,
    KEY_BYTES = 64,
};

struct house {
    uv_loop_t loop;
    uv_thread_t thread;
    uv_async_t stop;
    struct store *store;
    struct templates *templates;
    struct keeper_client *keeper;
    struct sandboxes *sandboxes;
    struct api *api;
    struct metrics *metrics;
    struct builds *builds;
    struct volumes *volumes;
    struct http_server *http;
    uv_check_t begins; /* of a round of the loop: what lies between both is work */
    uv_prepare_t ends;
    double begun_ms, held_ms; /* held: the longest round since it was asked for */
    char dir[64], key[KEY_BYTES];
};

static void die(const struct err *err)
{
    fprintf(stderr, "bench: %s\n", err->msg);
    exit(1);
}

/* ---- the rows ---- */

static void put_row(struct store *store, const char *team_id, int number)
{
    char id[ID_SANDBOX_LEN + 1];
    int64_t now = clock_wall_ms();
    struct sandbox_row row = {
        .id = id,
        .team_id = team_id,
        .template_id = "template",
        .template_alias = "base",
        .build_id = "",
        .state = "running",
        .started_ms = now - number,
        .created_ms = now - number,
        .end_ms = now + 3600 * 1000,
        .options_json = "{\"metadata\":{\"purpose\":\"bench\",\"user\":\"somebody\"}}",
        .cpu_count = 2,
        .memory_mb = 1024,
        .disk_mb = 1024,
    };
    struct event_row event = {.id = id,
                              .team_id = team_id,
                              .sandbox_id = id,
                              .type = "sandbox.lifecycle.created",
                              .timestamp_ms = now,
                              .body = "{}"};

    id_sandbox(id);
    store_sandbox_save(store, &row, &event, STORE_LAZY, NULL, NULL);
}

static void keep_team(void *ctx, const struct team_row *row)
{
    (void)snprintf(ctx, ID_UUID_LEN + 1, "%s", row->id);
}

/* ---- the house ---- */

static void on_request(void *ctx, struct http_exchange *ex)
{
    struct house *house = ctx;

    api_handle(house->api, ex);
}

static void on_nothing(void *ctx)
{
    (void)ctx;
}

static void on_keeper(void *ctx, bool connected)
{
    (void)ctx, (void)connected;
}

static void open_api(struct house *house)
{
    char path[96];
    struct err err;

    (void)snprintf(path, sizeof(path), "%s/no-keeper", house->dir);
    house->keeper = keeper_client_new(&house->loop, path, on_keeper, NULL);
    struct sandboxes_options sandboxes = {.loop = &house->loop,
                                          .store = house->store,
                                          .keeper = house->keeper,
                                          .templates = house->templates};
    if (sandboxes_new(&sandboxes, on_nothing, NULL, &house->sandboxes, &err) < 0) {
        die(&err);
    }
    char files[96];
    (void)snprintf(files, sizeof(files), "%s/files", house->dir);
    struct builds_options builds = {.loop = &house->loop,
                                    .store = house->store,
                                    .keeper = house->keeper,
                                    .templates = house->templates,
                                    .sandboxes = house->sandboxes,
                                    .files = files,
                                    .image = {.loop = &house->loop, .state = house->dir}};
    struct volumes_options volumes = {.loop = &house->loop,
                                      .store = house->store,
                                      .keeper = house->keeper,
                                      .sandboxes = house->sandboxes};
    if (builds_new(&builds, &house->builds, &err) < 0 ||
        volumes_new(&volumes, &house->volumes, &err) < 0) {
        die(&err);
    }
    house->metrics = metrics_new(&house->loop, house->sandboxes, house->keeper);
    struct api_options options = {.metrics = house->metrics,
                                  .builds = house->builds,
                                  .volumes = house->volumes,
                                  .loop = &house->loop,
                                  .store = house->store,
                                  .keeper = house->keeper,
                                  .sandboxes = house->sandboxes,
                                  .templates = house->templates,
                                  .team_sandboxes_max = MANY,
                                  .sandbox_s_max = SANDBOX_TIMEOUT_S_MAX};
    if (api_new(&options, &house->api, &err) < 0) {
        die(&err);
    }
}

static void open_store(struct house *house)
{
    char path[96];
    struct err err;

    (void)snprintf(path, sizeof(path), "%s/state.db", house->dir);
    if (store_open(&house->loop, path, &house->store, &err) < 0 ||
        templates_new(house->store, &house->templates, &err) < 0) {
        die(&err);
    }
}

static void close_state(struct house *house)
{
    api_free(house->api);
    volumes_free(house->volumes);
    builds_free(house->builds);
    metrics_free(house->metrics);
    sandboxes_free(house->sandboxes);
    keeper_client_free(house->keeper);
    templates_free(house->templates);
    store_close(house->store);
    (void)uv_run(&house->loop, UV_RUN_NOWAIT);
}

/* The first opening makes the team and its key, the second finds the rows. */
static void fill(struct house *house, int rows)
{
    char team[ID_UUID_LEN + 1] = "", path[96];
    struct err err;

    (void)snprintf(path, sizeof(path), "%s/key", house->dir);
    open_store(house);
    open_api(house);
    if (api_prepare_default_key(house->api, path, &err) < 0 ||
        store_load_teams(house->store, keep_team, team, &err) < 0) {
        die(&err);
    }
    for (int i = 0; i < rows; i++) {
        put_row(house->store, team, i);
    }
    close_state(house);

    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%63s", house->key) != 1) {
        exit(1);
    }
    (void)fclose(file);
}

static void on_stop(uv_async_t *async)
{
    uv_stop(async->loop);
}

static void on_begin(uv_check_t *check)
{
    container_of(check, struct house, begins)->begun_ms = now_ms();
}

static void on_end(uv_prepare_t *prepare)
{
    struct house *house = container_of(prepare, struct house, ends);
    double took = house->begun_ms > 0 ? now_ms() - house->begun_ms : 0;

    house->held_ms = took > house->held_ms ? took : house->held_ms;
}

static void house_run(void *arg)
{
    struct house *house = arg;

    (void)uv_run(&house->loop, UV_RUN_DEFAULT);
}

static void house_open(struct house *house, int rows)
{
    struct http_server_options http = {
        .loop = &house->loop, .on_request = on_request, .ctx = house};
    struct err err;

    (void)snprintf(house->dir, sizeof(house->dir), "/tmp/atoll-list.XXXXXX");
    if (!mkdtemp(house->dir) || uv_loop_init(&house->loop) < 0) {
        exit(1);
    }
    fill(house, rows);
    open_store(house);
    open_api(house);
    if (http_server_new(&http, &house->http, &err) < 0 ||
        http_server_listen(house->http, "127.0.0.1:0", NULL, &err) < 0) {
        die(&err);
    }
    (void)uv_async_init(&house->loop, &house->stop, on_stop);
    (void)uv_check_init(&house->loop, &house->begins);
    (void)uv_check_start(&house->begins, on_begin);
    (void)uv_prepare_init(&house->loop, &house->ends);
    (void)uv_prepare_start(&house->ends, on_end);
    if (uv_thread_create(&house->thread, house_run, house) < 0) {
        exit(1);
    }
}

static void house_close(struct house *house)
{
    static const char *const files[] = {"state.db", "state.db-wal", "state.db-shm",
                                        "key",      "files",        "blobs"};
    char path[96];

    (void)uv_async_send(&house->stop);
    (void)uv_thread_join(&house->thread);
    http_server_free(house->http);
    close_state(house);
    for (size_t i = 0; i < countof(files); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", house->dir, files[i]);
        (void)remove(path);
    }
    (void)rmdir(house->dir);
}

/* ---- the client ---- */

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    (void)data;
    *(size_t *)ctx += size * n;
    return size * n;
}

static void ask(CURL *easy, const struct house *house, const char *path, json_t *samples)
{
    char url[128], header[KEY_BYTES + 16];
    size_t bytes = 0;

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", http_server_port(house->http), path);
    (void)snprintf(header, sizeof(header), "X-API-Key: %s", house->key);
    struct curl_slist *headers = curl_slist_append(NULL, header);
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, &bytes);
    (void)curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
    double begin = now_ms();
    if (curl_easy_perform(easy) == CURLE_OK && bytes > 2) {
        (void)json_array_append_new(samples, json_real(now_ms() - begin));
    }
    curl_slist_free_all(headers);
}

int main(int argc, char **argv)
{
    static struct house few, many;
    int requests = argc > 1 ? atoi(argv[1]) : 1;
    json_t *of_few = json_array(), *tenth = json_array(), *of_many = json_array();
    json_t *filtered = json_array(), *wide = json_array(), *searched = json_array();
    json_t *held = json_array();

    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    house_open(&few, FEW);
    house_open(&many, MANY);
    CURL *one = curl_easy_init(), *other = curl_easy_init();
    for (int i = 0; i < requests; i++) {
        ask(one, &few, "/v2/sandboxes?limit=10", of_few);
        ask(other, &many, "/v2/sandboxes?limit=10", tenth);
        ask(other, &many, "/v2/sandboxes?limit=100", of_many);
        ask(other, &many, "/v2/sandboxes?limit=100&metadata=user%3Dsomebody", filtered);
        many.held_ms = 0; /* nothing runs there now */
        ask(other, &many, "/dashboard/sandboxes", wide);
        ask(other, &many, "/dashboard/sandboxes?text=nothing%20has%20this", searched);
        (void)json_array_append_new(held, json_real(many.held_ms));
    }
    json_t *all =
        json_pack("{so so so so so so so}", "a page of 10, out of 10", of_few,
                  "a page of 10, out of 10,000", tenth, "a page of 100, out of 10,000", of_many,
                  "the same, filtered", filtered, "a page of the dashboard, of 1000, out of 10,000",
                  wide, "a search of the dashboard, through 10,000", searched,
                  "the longest that either held the loop", held);
    (void)json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(all);
    curl_easy_cleanup(one);
    curl_easy_cleanup(other);
    house_close(&few);
    house_close(&many);
    curl_global_cleanup();
    return 0;
}
