#include "client.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    LINE_BYTES = 512,
    FRAME_HEAD_BYTES = 5, /* Connect's envelope: flags, length */
    SANDBOX_S = 3600,
    BUFFER_BYTES = 256 * 1024,
    REQUEST_S = 120,
    KEPT_MAX = 256, /* connections */
};

struct client {
    CURL *curl;
    CURLM *multi;
    const char *api_url, *sandbox_url, *key;
    struct answer answer;
    size_t upload_left;
    char noise[BUFFER_BYTES]; /* random bytes: every byte value comes up in an upload */
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
    for (size_t n = 0; n < sizeof(c->noise);) {
        ssize_t got = getrandom(c->noise + n, sizeof(c->noise) - n, 0);
        n += got > 0 ? (size_t)got : 0;
    }
    c->api_url = env_or_exit("E2B_API_URL");
    c->sandbox_url = env_or_exit("E2B_SANDBOX_URL");
    c->key = env_or_exit("E2B_API_KEY");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    c->curl = curl_easy_init();
    c->multi = curl_multi_init();
    (void)curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)KEPT_MAX);
    return c;
}

CURLM *client_multi(struct client *c)
{
    return c->multi;
}

void client_free(struct client *c)
{
    curl_easy_cleanup(c->curl);
    curl_multi_cleanup(c->multi);
    curl_global_cleanup();
    free(c);
}

/* ---- what is answered ---- */

static size_t answer_take(char *data, size_t size, size_t n, void *ctx)
{
    struct answer *answer = ctx;
    size_t len = size * n;
    size_t new = len < ANSWER_BYTES ? len : ANSWER_BYTES;
    size_t old = answer->n < ANSWER_BYTES - new ? answer->n : ANSWER_BYTES - new;

    memmove(answer->at, answer->at + answer->n - old, old);
    memcpy(answer->at + old, data + len - new, new);
    answer->n = old + new;
    answer->at[answer->n] = '\0';
    answer->all += len;
    return len;
}

int client_check(CURL *curl, CURLcode code, const char *what, const struct answer *answer)
{
    long status = 0;

    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status >= 300) {
        fprintf(stderr, "bench: %s: status %ld, %s %.200s\n", what, status,
                curl_easy_strerror(code), answer->at);
        return -1;
    }
    return 0;
}

int client_read_created(const struct answer *answer, struct client_box *box)
{
    json_t *root = json_loadb(answer->at, answer->n, 0, NULL);
    const char *id = json_string_value(json_object_get(root, "sandboxID"));
    const char *token = json_string_value(json_object_get(root, "envdAccessToken"));

    if (id && token) {
        (void)snprintf(box->id, sizeof(box->id), "%s", id);
        (void)snprintf(box->token, sizeof(box->token), "%s", token);
    } else {
        fprintf(stderr, "bench: create answered %s\n", answer->at);
    }
    json_decref(root);
    return id && token ? 0 : -1;
}

int client_read_exited(const struct answer *answer)
{
    static const char well[] = "exit status 0"; /* in JSON and in binary messages alike */

    if (!memmem(answer->at, answer->n, well, sizeof(well) - 1)) {
        fprintf(stderr, "bench: a command did not end well\n");
        return -1;
    }
    return 0;
}

/* ---- what is asked ---- */

static struct curl_slist *header_add(struct curl_slist *list, const char *name, const char *value)
{
    char line[LINE_BYTES];

    (void)snprintf(line, sizeof(line), "%s: %s", name, value);
    return curl_slist_append(list, line);
}

static void ask(CURL *curl, struct answer *answer, const char *url)
{
    answer->n = answer->all = 0;
    answer->at[0] = '\0';
    curl_easy_reset(curl); /* keeps the connection */
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, answer_take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)REQUEST_S);
}

static void ask_at(const struct client *c, CURL *curl, struct answer *answer, const char *path)
{
    char url[LINE_BYTES];

    (void)snprintf(url, sizeof(url), "%s%s", c->api_url, path);
    ask(curl, answer, url);
}

static struct curl_slist *with_headers(CURL *curl, struct curl_slist *headers)
{
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    return headers;
}

struct curl_slist *client_ask_create(const struct client *c, CURL *curl, struct answer *answer,
                                     const char *template)
{
    char body[LINE_BYTES];

    (void)snprintf(body, sizeof(body), "{\"templateID\":\"%s\",\"timeout\":%d}", template,
                   SANDBOX_S);
    ask_at(c, curl, answer, "/v2/sandboxes");
    curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, body);
    return with_headers(curl, header_add(header_add(NULL, "X-API-Key", c->key), "Content-Type",
                                         "application/json"));
}

struct curl_slist *client_ask_kill(const struct client *c, CURL *curl, struct answer *answer,
                                   const struct client_box *box)
{
    char path[LINE_BYTES];

    (void)snprintf(path, sizeof(path), "/sandboxes/%s", box->id);
    ask_at(c, curl, answer, path);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE");
    return with_headers(curl, header_add(NULL, "X-API-Key", c->key));
}

/* type NULL: curl says it, as it does of a form. */
static struct curl_slist *box_headers(const struct client_box *box, const char *type)
{
    struct curl_slist *list = header_add(NULL, "E2b-Sandbox-Id", box->id);

    list = header_add(list, "E2b-Sandbox-Port", "49983");
    list = header_add(list, "X-Access-Token", box->token);
    list = type ? header_add(list, "Content-Type", type) : list;
    return header_add(list, "Expect", ""); /* no wait for 100-continue */
}

static json_t *run_json(const char *command)
{
    return json_pack("{s{sss[sss]}sb}", "process", "cmd", "/bin/bash", "args", "-l", "-c", command,
                     "stdin", 0);
}

/* Asks for the process that `body`, with room for its head, describes in `len` bytes. */
static struct curl_slist *ask_start(const struct client *c, CURL *curl, struct answer *answer,
                                    const struct client_box *box, char body[LINE_BYTES], size_t len,
                                    const char *type)
{
    char url[LINE_BYTES];

    if (len > LINE_BYTES - FRAME_HEAD_BYTES) {
        abort(); /* the commands are the measurement's own */
    }
    for (int i = 0; i < 4; i++) {
        body[1 + i] = (char)(len >> (24 - 8 * i) & 0xff);
    }
    (void)snprintf(url, sizeof(url), "%s/process.Process/Start", c->sandbox_url);
    ask(curl, answer, url);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)(len + FRAME_HEAD_BYTES));
    curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, body);
    return with_headers(curl, header_add(box_headers(box, type), "Connect-Protocol-Version", "1"));
}

struct curl_slist *client_ask_run(const struct client *c, CURL *curl, struct answer *answer,
                                  const struct client_box *box, const char *command)
{
    char body[LINE_BYTES] = {0};
    json_t *request = run_json(command);
    size_t len =
        json_dumpb(request, body + FRAME_HEAD_BYTES, sizeof(body) - FRAME_HEAD_BYTES, JSON_COMPACT);

    json_decref(request);
    return ask_start(c, curl, answer, box, body, len, "application/connect+json");
}

/* A field of a protobuf message that has a length; returns where the next begins. */
static char *field_put(char *at, unsigned id, const char *value, size_t len)
{
    if (len > 127) {
        abort(); /* its length would need a second byte */
    }
    *at++ = (char)(id << 3 | 2);
    *at++ = (char)len;
    memcpy(at, value, len);
    return at + len;
}

/* StartRequest{process = 1}, ProcessConfig{cmd = 1, args = 2} */
static struct curl_slist *ask_run_binary(const struct client *c, CURL *curl, struct answer *answer,
                                         const struct client_box *box, const char *command)
{
    char config[LINE_BYTES], body[LINE_BYTES] = {0};
    char *end = field_put(config, 1, "/bin/bash", strlen("/bin/bash"));

    end = field_put(end, 2, "-l", 2);
    end = field_put(end, 2, "-c", 2);
    end = field_put(end, 2, command, strlen(command));
    end = field_put(body + FRAME_HEAD_BYTES, 1, config, (size_t)(end - config));
    return ask_start(c, curl, answer, box, body, (size_t)(end - body - FRAME_HEAD_BYTES),
                     "application/connect+proto");
}

/* ---- one after the other ---- */

static int perform(struct client *c, const char *what, struct curl_slist *headers)
{
    CURLcode code = curl_easy_perform(c->curl);

    curl_slist_free_all(headers);
    return client_check(c->curl, code, what, &c->answer);
}

int client_list(struct client *c)
{
    ask_at(c, c->curl, &c->answer, "/v2/sandboxes?limit=100");
    return perform(c, "list", with_headers(c->curl, header_add(NULL, "X-API-Key", c->key)));
}

static int run(struct client *c, struct curl_slist *headers, size_t printed)
{
    if (perform(c, "run", headers) < 0 || client_read_exited(&c->answer) < 0) {
        return -1;
    }
    if (c->answer.all < printed) {
        fprintf(stderr, "bench: less than %zu bytes of output arrived\n", printed);
        return -1;
    }
    return 0;
}

int client_run(struct client *c, const struct client_box *box, const char *command, size_t printed)
{
    struct curl_slist *headers = client_ask_run(c, c->curl, &c->answer, box, command);

    return run(c, headers, printed / 3 * 4); /* base64 */
}

int client_run_binary(struct client *c, const struct client_box *box, const char *command,
                      size_t printed)
{
    return run(c, ask_run_binary(c, c->curl, &c->answer, box, command), printed);
}

static size_t upload_give(char *out, size_t size, size_t n, void *ctx)
{
    struct client *c = ctx;
    size_t len = size * n < c->upload_left ? size * n : c->upload_left;

    len = len < sizeof(c->noise) ? len : sizeof(c->noise);
    memcpy(out, c->noise, len);
    c->upload_left -= len;
    return len;
}

static void ask_upload(struct client *c, const char *url, size_t bytes)
{
    ask(c->curl, &c->answer, url);
    c->upload_left = bytes;
    curl_easy_setopt(c->curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(c->curl, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_BYTES);
    curl_easy_setopt(c->curl, CURLOPT_READFUNCTION, upload_give);
    curl_easy_setopt(c->curl, CURLOPT_READDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)bytes);
}

static int whole(const struct client *c, size_t bytes)
{
    if (c->answer.all != bytes) {
        fprintf(stderr, "bench: %zu of %zu bytes arrived\n", c->answer.all, bytes);
        return -1;
    }
    return 0;
}

static void file_url(const struct client *c, const char *path, char url[LINE_BYTES])
{
    (void)snprintf(url, LINE_BYTES, "%s/files?path=%s&username=user", c->sandbox_url, path);
}

int client_upload(struct client *c, const struct client_box *box, const char *path, size_t bytes)
{
    char url[LINE_BYTES];

    file_url(c, path, url);
    ask_upload(c, url, bytes);
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, "POST");
    return perform(c, "upload",
                   with_headers(c->curl, box_headers(box, "application/octet-stream")));
}

int client_upload_form(struct client *c, const struct client_box *box, const char *path,
                       size_t bytes)
{
    curl_mime *form = curl_mime_init(c->curl);
    curl_mimepart *file = curl_mime_addpart(form);
    struct curl_slist *headers = box_headers(box, NULL);
    char url[LINE_BYTES];

    file_url(c, path, url);
    ask(c->curl, &c->answer, url);
    c->upload_left = bytes;
    curl_mime_name(file, "file");
    curl_mime_filename(file, path);
    curl_mime_data_cb(file, (curl_off_t)bytes, upload_give, NULL, NULL, c);
    curl_easy_setopt(c->curl, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_BYTES);
    curl_easy_setopt(c->curl, CURLOPT_MIMEPOST, form);
    int r = perform(c, "upload as a form", with_headers(c->curl, headers));
    curl_easy_reset(c->curl); /* which held the form */
    curl_mime_free(form);
    return r;
}

int client_download(struct client *c, const struct client_box *box, const char *path, size_t bytes)
{
    char url[LINE_BYTES];

    file_url(c, path, url);
    ask(c->curl, &c->answer, url);
    struct curl_slist *headers = with_headers(c->curl, box_headers(box, "text/plain"));
    return perform(c, "download", headers) < 0 ? -1 : whole(c, bytes);
}

int client_put(struct client *c, const char *url, size_t bytes)
{
    ask_upload(c, url, bytes);
    return perform(c, "put", with_headers(c->curl, header_add(NULL, "Expect", "")));
}

int client_get(struct client *c, const char *url, size_t bytes)
{
    ask(c->curl, &c->answer, url);
    return perform(c, "get", NULL) < 0 ? -1 : whole(c, bytes);
}
