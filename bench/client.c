#include "client.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANSWER_BYTES_MAX = 64 * 1024,
    LINE_BYTES = 512,
    TAIL_BYTES = 256, /* more than a stream's last two messages */
};

/* The last bytes of an answer, however long. */
struct tail {
    char at[TAIL_BYTES];
    size_t n;
};

/* One of many at once. */
struct stream {
    CURL *curl;
    struct curl_slist *headers;
    struct tail tail;
};

struct client {
    CURL *curl;
    const char *api_url, *sandbox_url, *key;
    char answer[ANSWER_BYTES_MAX];
    size_t answer_n;   /* kept */
    size_t answer_all; /* seen */
    struct tail tail;
    size_t upload_left;
};

static const char *env_or_exit(const char *name)
{
    const char *value = getenv(name);

    if (!value || !*value) {
        fprintf(stderr, "bench: %s is not set: run it under tools/with-daemon\n", name);
        exit(2);
    }
    return value;
}

struct client *client_new(void)
{
    struct client *c = calloc(1, sizeof(*c));

    if (!c) {
        abort();
    }
    c->api_url = env_or_exit("E2B_API_URL");
    c->sandbox_url = env_or_exit("E2B_SANDBOX_URL");
    c->key = env_or_exit("E2B_API_KEY");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    c->curl = curl_easy_init();
    return c;
}

void client_free(struct client *c)
{
    curl_easy_cleanup(c->curl);
    free(c);
}

static void tail_take(struct tail *tail, const char *data, size_t len)
{
    size_t new = len < sizeof(tail->at) ? len : sizeof(tail->at);
    size_t room = sizeof(tail->at) - new;
    size_t old = tail->n < room ? tail->n : room;

    memmove(tail->at, tail->at + tail->n - old, old);
    memcpy(tail->at + old, data + len - new, new);
    tail->n = old + new;
}

/* Whether the stream that ends so has told of a command's end. */
static int tail_exited(const struct tail *tail, const char *program)
{
    if (!memmem(tail->at, tail->n, "\"exited\":true", 13)) {
        fprintf(stderr, "bench: %s did not end well\n", program);
        return -1;
    }
    return 0;
}

static size_t stream_take(char *data, size_t size, size_t n, void *ctx)
{
    struct stream *stream = ctx;

    tail_take(&stream->tail, data, size * n);
    return size * n;
}

static size_t answer_take(char *data, size_t size, size_t n, void *ctx)
{
    struct client *c = ctx;
    size_t len = size * n;
    size_t room = sizeof(c->answer) - 1 - c->answer_n;
    size_t keep = len < room ? len : room;

    memcpy(c->answer + c->answer_n, data, keep);
    c->answer_n += keep;
    c->answer[c->answer_n] = '\0';
    c->answer_all += len;
    tail_take(&c->tail, data, len);
    return len;
}

static size_t upload_give(char *out, size_t size, size_t n, void *ctx)
{
    struct client *c = ctx;
    size_t len = size * n < c->upload_left ? size * n : c->upload_left;

    memset(out, 0, len);
    c->upload_left -= len;
    return len;
}

static int perform(struct client *c, const char *what, struct curl_slist *headers)
{
    long status = 0;

    c->answer_n = c->answer_all = c->tail.n = 0;
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, answer_take);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_BUFFERSIZE, 256L * 1024);
    CURLcode code = curl_easy_perform(c->curl);
    curl_slist_free_all(headers);
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_reset(c->curl); /* keeps the connection */
    if (code != CURLE_OK || status >= 300) {
        fprintf(stderr, "bench: %s: status %ld, %s %.200s\n", what, status,
                curl_easy_strerror(code), c->answer_n ? c->answer : "");
        return -1;
    }
    return 0;
}

static struct curl_slist *header_add(struct curl_slist *list, const char *name, const char *value)
{
    char line[LINE_BYTES];

    (void)snprintf(line, sizeof(line), "%s: %s", name, value);
    return curl_slist_append(list, line);
}

static struct curl_slist *box_headers(const struct client_box *box, const char *type)
{
    struct curl_slist *list = header_add(NULL, "E2b-Sandbox-Id", box->id);

    list = header_add(list, "E2b-Sandbox-Port", "49983");
    list = header_add(list, "X-Access-Token", box->token);
    list = header_add(list, "Content-Type", type);
    return header_add(list, "Expect", ""); /* no wait for 100-continue */
}

int client_create(struct client *c, struct client_box *box)
{
    char url[LINE_BYTES];

    (void)snprintf(url, sizeof(url), "%s/v2/sandboxes", c->api_url);
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    curl_easy_setopt(c->curl, CURLOPT_COPYPOSTFIELDS, "{\"templateID\":\"base\",\"timeout\":600}");
    struct curl_slist *headers = header_add(NULL, "X-API-Key", c->key);
    if (perform(c, "create", header_add(headers, "Content-Type", "application/json")) < 0) {
        return -1;
    }
    json_t *root = json_loads(c->answer, 0, NULL);
    const char *id = json_string_value(json_object_get(root, "sandboxID"));
    const char *token = json_string_value(json_object_get(root, "envdAccessToken"));
    if (!id || !token) {
        fprintf(stderr, "bench: create answered %s\n", c->answer);
        return -1;
    }
    (void)snprintf(box->id, sizeof(box->id), "%s", id);
    (void)snprintf(box->token, sizeof(box->token), "%s", token);
    json_decref(root);
    return 0;
}

int client_kill(struct client *c, const struct client_box *box)
{
    char url[LINE_BYTES];

    (void)snprintf(url, sizeof(url), "%s/sandboxes/%s", c->api_url, box->id);
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, "DELETE");
    return perform(c, "kill", header_add(NULL, "X-API-Key", c->key));
}

/* Prepares a request to start a program; the headers are the caller's to free. */
static struct curl_slist *run_setup(const struct client *c, CURL *curl,
                                    const struct client_box *box, const char *program,
                                    const char *args)
{
    char url[LINE_BYTES];
    char body[LINE_BYTES];

    (void)snprintf(url, sizeof(url), "%s/process.Process/Start", c->sandbox_url);
    int n = snprintf(body + 5, sizeof(body) - 5,
                     "{\"process\":{\"cmd\":\"%s\",\"args\":[%s]},\"stdin\":false}", program, args);
    uint32_t len = (uint32_t)n;
    body[0] = 0; /* the envelope: no flags, length in network order */
    for (int i = 0; i < 4; i++) {
        body[1 + i] = (char)(len >> (24 - 8 * i) & 0xff);
    }
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)(len + 5));
    curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, body);
    return header_add(box_headers(box, "application/connect+json"), "Connect-Protocol-Version",
                      "1");
}

int client_run(struct client *c, const struct client_box *box, const char *program,
               const char *args)
{
    struct curl_slist *headers = run_setup(c, c->curl, box, program, args);

    return perform(c, "run", headers) < 0 ? -1 : tail_exited(&c->tail, program);
}

int client_run_printing(struct client *c, const struct client_box *box, const char *program,
                        const char *args, size_t bytes)
{
    if (client_run(c, box, program, args) < 0) {
        return -1;
    }
    if (c->answer_all < bytes / 3 * 4) { /* base64 */
        fprintf(stderr, "bench: %s printed less than %zu bytes\n", program, bytes);
        return -1;
    }
    return 0;
}

static int multi_run(CURLM *multi)
{
    int running = 1;

    while (running > 0) {
        if (curl_multi_perform(multi, &running) != CURLM_OK ||
            (running > 0 && curl_multi_poll(multi, NULL, 0, 1000, NULL) != CURLM_OK)) {
            fprintf(stderr, "bench: the streams cannot be driven\n");
            return -1;
        }
    }
    return 0;
}

int client_run_many(struct client *c, const struct client_box *box, const char *program,
                    const char *args, size_t n)
{
    CURLM *multi = curl_multi_init();
    struct stream *streams = calloc(n, sizeof(*streams));

    if (!multi || !streams) {
        abort();
    }
    for (size_t i = 0; i < n; i++) {
        struct stream *stream = &streams[i];
        stream->curl = curl_easy_init();
        stream->headers = run_setup(c, stream->curl, box, program, args);
        curl_easy_setopt(stream->curl, CURLOPT_HTTPHEADER, stream->headers);
        curl_easy_setopt(stream->curl, CURLOPT_WRITEFUNCTION, stream_take);
        curl_easy_setopt(stream->curl, CURLOPT_WRITEDATA, stream);
        curl_multi_add_handle(multi, stream->curl);
    }
    int r = multi_run(multi);
    for (size_t i = 0; i < n; i++) {
        r = r < 0 ? r : tail_exited(&streams[i].tail, program);
        curl_multi_remove_handle(multi, streams[i].curl);
        curl_easy_cleanup(streams[i].curl);
        curl_slist_free_all(streams[i].headers);
    }
    free(streams);
    curl_multi_cleanup(multi);
    return r;
}

static void upload_setup(struct client *c, const char *url, size_t bytes)
{
    c->upload_left = bytes;
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    curl_easy_setopt(c->curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(c->curl, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
    curl_easy_setopt(c->curl, CURLOPT_READFUNCTION, upload_give);
    curl_easy_setopt(c->curl, CURLOPT_READDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)bytes);
}

static int whole(const struct client *c, size_t bytes)
{
    if (c->answer_all != bytes) {
        fprintf(stderr, "bench: %zu of %zu bytes arrived\n", c->answer_all, bytes);
        return -1;
    }
    return 0;
}

int client_upload(struct client *c, const struct client_box *box, const char *path, size_t bytes)
{
    char url[LINE_BYTES];

    (void)snprintf(url, sizeof(url), "%s/files?path=%s&username=user", c->sandbox_url, path);
    upload_setup(c, url, bytes);
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, "POST");
    return perform(c, "upload", box_headers(box, "application/octet-stream"));
}

int client_download(struct client *c, const struct client_box *box, const char *path, size_t bytes)
{
    char url[LINE_BYTES];

    (void)snprintf(url, sizeof(url), "%s/files?path=%s&username=user", c->sandbox_url, path);
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    return perform(c, "download", box_headers(box, "text/plain")) < 0 ? -1 : whole(c, bytes);
}

int client_put(struct client *c, const char *url, size_t bytes)
{
    upload_setup(c, url, bytes);
    return perform(c, "put", header_add(NULL, "Expect", ""));
}

int client_get(struct client *c, const char *url, size_t bytes)
{
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    return perform(c, "get", NULL) < 0 ? -1 : whole(c, bytes);
}
