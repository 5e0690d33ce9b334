/*      request ─► 401 ─► token ─► request ─► done
 *         ▲                          │ cut off, refused, 5xx
 *         └────────── a while ───────┘ at most IMAGE_TRIES_MAX times in a row
 */
#include "serve/template/image/registry.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/encode.h"
#include "lib/guard/said.h"
#include "serve/template/image/challenge.h"
#include "serve/template/image/internal.h"

enum {
    URL_BYTES = 1024,
    PATH_BYTES = 256,
    TOKEN_BYTES_MAX = 64 * 1024, /* of the answer that holds one */
    RETRY_FIRST_MS = 500,        /* and twice as long each time */
    REDIRECTS_MAX = 5,
    PROGRESS_BYTES = 1024 * 1024, /* a try that brought so much does not count as one */
};

#define GCP_KEY_USER "_json_key"

struct registry {
    uv_loop_t *loop;
    struct multi *multi;
    bool plain_http;
    char host[REFERENCE_HOST_BYTES]; /* asked */
    char repository[REFERENCE_REPOSITORY_BYTES];
    char *user, *password; /* NULL: none */
    char *aws_region;      /* user and password are keys that buy others */
    char *bearer;          /* NULL: none yet */
    bool basic;            /* user and password go with each request */

    /* The request under way. */
    struct transfer transfer;
    bool is_busy;
    enum { ASKS_ANSWER, ASKS_TOKEN, ASKS_AWS } asks;
    struct curl_slist *headers;
    char path[PATH_BYTES];
    const char *accept;
    const struct registry_sink *sink;
    void *ctx;
    uint32_t tries;
    bool authenticated; /* in this try */
    bool begun;
    uint64_t got;
    char challenge[2 * CHALLENGE_TEXT_BYTES];
    uint64_t range_from;
    struct buf token;
    uv_timer_t timer;
};

static void ask(struct registry *reg);

/* ---- ends ---- */

static void transfer_drop(struct registry *reg)
{
    if (reg->transfer.easy) {
        transfer_end(&reg->transfer);
    }
    curl_slist_free_all(move_ptr(&reg->headers));
}

static void finish(struct registry *reg, const struct err *err)
{
    transfer_drop(reg);
    reg->is_busy = false;
    reg->sink->done(reg->ctx, err);
}

static void fail(struct registry *reg, int code, const char *why)
{
    struct err err;

    (void)err_set(&err, code, "%s", ours(why));
    finish(reg, &err);
}

/* The answer has another status than expected. */
static void fail_status(struct registry *reg, long status)
{
    struct err err;
    bool known = (reg->bearer || reg->basic) && reg->user;

    if (status == 404) {
        (void)err_set(&err, ENOENT, "there is no %s of %s in the registry %s", ours(reg->path),
                      ours(reg->repository), ours(reg->host));
    } else if (status == 401 || status == 403) {
        (void)err_set(&err, EACCES, "the registry %s does not give %s %s (%ld)", ours(reg->host),
                      ours(reg->repository),
                      known ? "to these credentials" : "to those without credentials", status);
    } else if (status == 429) {
        (void)err_set(&err, EIO, "the registry %s has had too many requests from here",
                      ours(reg->host));
    } else {
        (void)err_set(&err, EIO, "the registry %s answered %ld for %s", ours(reg->host), status,
                      ours(reg->path));
    }
    finish(reg, &err);
}

/* Redacts the credentials that the registry has seen: it may repeat them in a redirect. */
static struct guard *shown_guard(const struct registry *reg)
{
    const char *const shown[] = {reg->password, reg->bearer};
    struct guard *guard = guard_new();
    scoped_buf(both, TOKEN_BYTES_MAX);
    scoped_buf(basic, (size_t)2 * TOKEN_BYTES_MAX);
    struct err err;
    int r = 0;

    for (size_t i = 0; r == 0 && i < countof(shown); i++) {
        r = guard_add(guard, str_of(shown[i]), &err);
    }
    if (r == 0 && reg->user && reg->password &&
        buf_printf(&both, "%s:%s", reg->user, reg->password) == 0 &&
        base64_encode(&basic, buf_at(&both), buf_len(&both), BASE64_STD_NOPAD) == 0) {
        r = guard_add(guard, buf_str(&basic), &err);
    }
    buf_wipe(&both);
    buf_wipe(&basic);
    guard_ready(guard);
    if (r < 0) { /* credentials that cannot be searched for may be in the text */
        guard_free(guard);
        return NULL;
    }
    return guard;
}

static void fail_transfer(struct registry *reg, CURLcode code)
{
    struct guard *guard = shown_guard(reg);
    struct said said;
    const char *reason =
        guard ? transfer_reason(&reg->transfer, code, guard, &said) : curl_easy_strerror(code);
    struct err err;

    guard_free(guard);

    if (reg->transfer.refused[0]) {
        (void)err_set(&err, EACCES,
                      "%s is an address of this machine, which images may not come from unless "
                      "registry_local is set",
                      ours(reg->transfer.refused));
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        (void)err_set(&err, reg->begun ? ETIMEDOUT : EHOSTUNREACH,
                      "the registry %s is too slow: %s", ours(reg->host), ours(reason));
    } else {
        (void)err_set(&err, reg->begun ? EIO : EHOSTUNREACH, "the registry %s %s: %s",
                      ours(reg->host), reg->begun ? "broke off" : "cannot be reached",
                      ours(reason));
    }
    finish(reg, &err);
}

/* ---- again ---- */

static void on_retry(uv_timer_t *timer)
{
    ask(container_of(timer, struct registry, timer));
}

static bool may_retry(const struct registry *reg, CURLcode code, long status)
{
    bool cut = code != CURLE_OK && code != CURLE_WRITE_ERROR && !reg->transfer.refused[0];

    return (cut || status == 429 || status >= 500) && reg->tries < IMAGE_TRIES_MAX;
}

static void retry(struct registry *reg)
{
    if (reg->got >= PROGRESS_BYTES) {
        reg->tries = 1;
    }
    reg->authenticated = false; /* tokens are short-lived */
    transfer_drop(reg);
    (void)uv_timer_start(&reg->timer, on_retry, (uint64_t)RETRY_FIRST_MS << (reg->tries - 1), 0);
}

/* ---- the answer ---- */

static void challenge_note(struct registry *reg, struct str line)
{
    size_t colon = str_find(line, ':');
    struct str value = str_trim(str_skip(line, colon + 1));
    size_t used = strlen(reg->challenge);

    if (!str_ieq((struct str){line.at, colon}, STR("www-authenticate"))) {
        return;
    }
    while (value.len && (value.at[value.len - 1] == '\r' || value.at[value.len - 1] == '\n')) {
        value.len--;
    }
    if (used + 2 + value.len < sizeof(reg->challenge)) { /* a second header goes on with the list */
        (void)snprintf(reg->challenge + used, sizeof(reg->challenge) - used, "%s%.*s",
                       used ? ", " : "", (int)value.len, value.at);
    }
}

static size_t on_head(char *data, size_t size, size_t n, void *ctx)
{
    struct registry *reg = ctx;
    struct str line = {data, size * n};

    if (str_starts(line, STR("HTTP/"))) {
        reg->challenge[0] = '\0'; /* of the answer before: a redirect's */
    }
    challenge_note(reg, line);
    return size * n;
}

static size_t on_answer(struct registry *reg, const char *data, size_t len, long status)
{
    if (status != 200 && status != 206) {
        return len; /* the status says it all */
    }
    if (!reg->begun) {
        reg->begun = true;
        reg->sink->begin(reg->ctx, status == 206 ? reg->range_from : 0);
    }
    size_t taken = reg->sink->write(reg->ctx, data, len);
    reg->got += taken == len ? len : 0;
    return taken;
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct registry *reg = ctx;
    long status = 0;

    (void)curl_easy_getinfo(reg->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    if (reg->asks == ASKS_ANSWER) {
        return on_answer(reg, data, size * n, status);
    }
    return buf_append(&reg->token, data, size * n) < 0 ? 0 : size * n;
}

void registry_resume(struct registry *reg)
{
    if (reg->transfer.easy) {
        (void)curl_easy_pause(reg->transfer.easy, CURLPAUSE_CONT);
    }
}

/* ---- authentication ---- */

static void json_freep(json_t **json)
{
    json_decref(*json);
}

static void token_taken(struct registry *reg)
{
    scoped(json_freep) json_t *json =
        json_loadb(buf_at(&reg->token), buf_len(&reg->token), 0, NULL);
    const char *token = json_string_value(json_object_get(json, "token"));

    token = token ? token : json_string_value(json_object_get(json, "access_token"));
    if (!token) {
        fail(reg, EIO, "the registry's token service did not answer with a token");
        return;
    }
    free(reg->bearer);
    reg->bearer = xstrdup(token);
    ask(reg);
}

/* "AWS:password", in base64. */
static void aws_taken(struct registry *reg)
{
    scoped(json_freep) json_t *json =
        json_loadb(buf_at(&reg->token), buf_len(&reg->token), 0, NULL);
    const json_t *data = json_array_get(json_object_get(json, "authorizationData"), 0);
    const char *text = json_string_value(json_object_get(data, "authorizationToken"));
    scoped_buf(plain, TOKEN_BYTES_MAX);

    if (!text || base64_decode(&plain, str_of(text)) < 0 || buf_append(&plain, "", 1) < 0 ||
        !strchr(buf_at(&plain), ':')) {
        fail(reg, EIO, "AWS gave no token for these credentials");
        return;
    }
    char *colon = strchr(buf_at(&plain), ':');
    *colon = '\0';
    free(reg->user);
    free(reg->password);
    free(move_ptr(&reg->aws_region));
    reg->user = xstrdup(buf_at(&plain));
    reg->password = xstrdup(colon + 1);
    ask(reg);
}

static void credentials_set(struct registry *reg, CURL *easy)
{
    (void)curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    (void)curl_easy_setopt(easy, CURLOPT_USERNAME, reg->user);
    (void)curl_easy_setopt(easy, CURLOPT_PASSWORD, reg->password);
}

static void query_add(CURLU *url, const char *name, const char *value)
{
    char pair[CHALLENGE_TEXT_BYTES + 16];

    (void)snprintf(pair, sizeof(pair), "%s=%s", name, value);
    (void)curl_url_set(url, CURLUPART_QUERY, pair, CURLU_APPENDQUERY | CURLU_URLENCODE);
}

static bool token_url(const struct challenge *challenge, CURLU *url)
{
    if (curl_url_set(url, CURLUPART_URL, challenge->realm, 0) != CURLUE_OK) {
        return false;
    }
    if (challenge->service[0]) {
        query_add(url, "service", challenge->service);
    }
    if (challenge->scope[0]) {
        query_add(url, "scope", challenge->scope);
    }
    return true;
}

static void on_done(struct transfer *transfer, CURLcode code);

static void url_freep(CURLU **url)
{
    curl_url_cleanup(*url);
}

static void transfer_ready(struct registry *reg, const char *protocols)
{
    transfer_init(&reg->transfer, reg->plain_http);
    CURL *easy = reg->transfer.easy;
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, protocols);
    (void)curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, protocols);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)IMAGE_CONNECT_TIMEOUT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)IMAGE_STALL_TIMEOUT_S);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, reg);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, reg);
}

/* A password goes to a token service in the clear only where the registry itself may be local. */
static void token_ask(struct registry *reg, const struct challenge *challenge)
{
    scoped(url_freep) CURLU *url = curl_url();
    char *text = NULL;

    if (!url || !token_url(challenge, url) ||
        curl_url_get(url, CURLUPART_URL, &text, 0) != CURLUE_OK) {
        fail(reg, EIO, "the registry names a token service that is no URL");
        return;
    }
    transfer_ready(reg, reg->plain_http ? "http,https" : "https");
    (void)curl_easy_setopt(reg->transfer.easy, CURLOPT_URL, text);
    curl_free(text);
    reg->asks = ASKS_TOKEN;
    buf_clear(&reg->token);
    if (reg->user) {
        credentials_set(reg, reg->transfer.easy);
    }
    transfer_start(reg->multi, &reg->transfer, on_done);
}

static void header_add(struct registry *reg, const char *line)
{
    struct curl_slist *longer = curl_slist_append(reg->headers, line);

    if (!longer) {
        abort();
    }
    reg->headers = longer;
}

/* Amazon's registry takes a password that its control plane gives for a pair of keys. */
static void aws_ask(struct registry *reg)
{
    char url[URL_BYTES], sign[URL_BYTES];

    transfer_ready(reg, "https");
    CURL *easy = reg->transfer.easy;
    (void)snprintf(url, sizeof(url), "https://api.ecr.%s.amazonaws.com/", reg->aws_region);
    (void)snprintf(sign, sizeof(sign), "aws:amz:%s:ecr", reg->aws_region);
    header_add(reg, "Content-Type: application/x-amz-json-1.1");
    header_add(reg, "X-Amz-Target: AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken");
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, reg->headers);
    (void)curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, "{}");
    (void)curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, sign);
    (void)curl_easy_setopt(easy, CURLOPT_USERNAME, reg->user);
    (void)curl_easy_setopt(easy, CURLOPT_PASSWORD, reg->password);
    reg->asks = ASKS_AWS;
    buf_clear(&reg->token);
    transfer_start(reg->multi, &reg->transfer, on_done);
}

static void authenticate(struct registry *reg)
{
    struct challenge challenge;
    struct err err;

    transfer_drop(reg);
    reg->authenticated = true;
    if (challenge_parse(str_of(reg->challenge), &challenge, &err) < 0) {
        finish(reg, &err);
    } else if (challenge.kind == CHALLENGE_BEARER) {
        token_ask(reg, &challenge);
    } else if (!reg->user) {
        fail_status(reg, 401);
    } else {
        reg->basic = true;
        ask(reg);
    }
}

/* ---- a single try ---- */

static void on_token(struct registry *reg, long status)
{
    bool aws = reg->asks == ASKS_AWS;

    if (status != 200) {
        fail_status(reg, status == 400 && aws ? 403 : status);
        return;
    }
    transfer_drop(reg);
    if (aws) {
        aws_taken(reg);
    } else {
        token_taken(reg);
    }
}

static void on_done(struct transfer *transfer, CURLcode code)
{
    struct registry *reg = container_of(transfer, struct registry, transfer);
    long status = 0;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (may_retry(reg, code, status)) {
        retry(reg);
    } else if (code != CURLE_OK) {
        fail_transfer(reg, code);
    } else if (reg->asks != ASKS_ANSWER) {
        on_token(reg, status);
    } else if (status == 401 && !reg->authenticated) {
        authenticate(reg);
    } else if (status != 200 && status != 206) {
        fail_status(reg, status);
    } else {
        if (!reg->begun) { /* an empty body */
            reg->sink->begin(reg->ctx, status == 206 ? reg->range_from : 0);
        }
        finish(reg, NULL);
    }
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strncmp(host, "localhost", 9) == 0 ||
           strncmp(host, "[::1]", 5) == 0;
}

static void answer_ask(struct registry *reg)
{
    char url[URL_BYTES], line[URL_BYTES];
    bool plain = reg->plain_http && is_loopback(reg->host);

    transfer_ready(reg, plain ? "http,https" : "https");
    CURL *easy = reg->transfer.easy;
    (void)snprintf(url, sizeof(url), "%s://%s/v2/%s/%s", plain ? "http" : "https",
                   strcmp(reg->host, "docker.io") == 0 ? "registry-1.docker.io" : reg->host,
                   reg->repository, reg->path);
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    if (reg->accept) {
        (void)snprintf(line, sizeof(line), "Accept: %s", reg->accept);
        header_add(reg, line);
    }
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, reg->headers);
    if (reg->bearer) {
        (void)curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        (void)curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, reg->bearer);
    } else if (reg->basic) {
        credentials_set(reg, easy);
    }
    reg->range_from = reg->sink->offset ? reg->sink->offset(reg->ctx) : 0;
    if (reg->range_from > 0) {
        (void)snprintf(line, sizeof(line), "%llu-", (unsigned long long)reg->range_from);
        (void)curl_easy_setopt(easy, CURLOPT_RANGE, line);
    }
    reg->asks = ASKS_ANSWER;
    reg->begun = false;
    reg->got = 0;
    transfer_start(reg->multi, &reg->transfer, on_done);
}

static void ask(struct registry *reg)
{
    transfer_drop(reg);
    if (!reg->authenticated) {
        reg->tries++;
    }
    if (reg->aws_region) {
        aws_ask(reg);
    } else {
        answer_ask(reg);
    }
}

void registry_get(struct registry *reg, const char *path, const char *accept,
                  const struct registry_sink *sink, void *ctx)
{
    assert(!reg->is_busy);
    (void)snprintf(reg->path, sizeof(reg->path), "%s", path);
    reg->accept = accept;
    reg->sink = sink;
    reg->ctx = ctx;
    reg->tries = 0;
    reg->authenticated = false;
    reg->is_busy = true;
    ask(reg);
}

/* ---- the whole ---- */

static void credentials_take(struct registry *reg, const struct image_credentials *from)
{
    if (from->aws_access_key_id) {
        reg->user = xstrdup(from->aws_access_key_id);
        reg->password = xstrdup(from->aws_secret_access_key);
        reg->aws_region = xstrdup(from->aws_region);
    } else if (from->gcp_service_account_json) {
        reg->user = xstrdup(GCP_KEY_USER);
        reg->password = xstrdup(from->gcp_service_account_json);
    } else {
        reg->user = xstrdup(from->username);
        reg->password = xstrdup(from->password);
    }
}

/* "host" stands for Docker's registry alone, "a=b,c=d" for those named. */
static int host_set(struct registry *reg, const char *asked, const char *mirror, struct err *err)
{
    struct str found = str_of(asked), map = str_of(mirror);
    bool is_map = mirror && strchr(mirror, '=');

    if (is_map) {
        struct str pair;
        while (str_split(&map, ',', &pair)) {
            size_t equals = str_find(pair, '=');
            if (str_eq(str_trim((struct str){pair.at, equals}), str_of(asked))) {
                found = str_trim(str_skip(pair, equals + 1));
            }
        }
    } else if (map.len > 0 && strcmp(asked, "docker.io") == 0) {
        found = map;
    }
    if (found.len == 0 || !str_copy(reg->host, sizeof(reg->host), found)) {
        return err_set(err, EINVAL, "the mirror of %s is not a host name", ours(asked));
    }
    return 0;
}

int registry_new(const struct registry_options *options, struct registry **out, struct err *err)
{
    struct registry *reg = xnew(struct registry);
    int r = host_set(reg, options->reference->host, options->mirror, err);

    if (r < 0) {
        free(reg);
        return r;
    }
    reg->loop = options->loop;
    reg->multi = options->multi;
    reg->plain_http = options->plain_http;
    (void)str_copy(reg->repository, sizeof(reg->repository),
                   str_of(options->reference->repository));
    buf_init(&reg->token, TOKEN_BYTES_MAX);
    if (options->credentials) {
        credentials_take(reg, options->credentials);
    }
    if (uv_timer_init(reg->loop, &reg->timer) < 0) {
        abort();
    }
    *out = reg;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct registry *reg = container_of(handle, struct registry, timer);

    free(reg->user);
    free(reg->password);
    free(reg->aws_region);
    free(reg->bearer);
    buf_fini(&reg->token);
    free(reg);
}

void registry_free(struct registry *reg)
{
    if (!reg) {
        return;
    }
    transfer_drop(reg);
    uv_close((uv_handle_t *)&reg->timer, on_timer_closed);
}

const char *registry_host(const struct registry *reg)
{
    return reg->host;
}
