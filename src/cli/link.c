#include "cli/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/call.h"
#include "cli/entry.h"
#include "cli/terminal_text.h"
#include "lib/base/buf.h"
#include "lib/rpc/process.h"
#include "lib/web/multi.h"
#include "wire/channel.h"

enum { ANSWER_BYTES_MAX = 16 * 1024 * 1024, SANDBOX_PATH_BYTES = 128 };

int link_of(const struct endpoint *endpoint, const json_t *sandbox, struct link *out,
            struct err *err)
{
    const char *id = json_text_of(sandbox, "sandboxID");

    *out = (struct link){.endpoint = *endpoint};
    if (!entry_id_ok(id) || !str_copy(out->id, sizeof(out->id), str_of(id)) ||
        !str_copy(out->token, sizeof(out->token),
                  str_of(json_text_of(sandbox, "envdAccessToken")))) {
        return err_set(err, EPROTO, "the daemon's answer does not describe a sandbox");
    }
    return 0;
}

int link_resume(const struct link *link, int seconds, struct err *err)
{
    scoped_json *body = json_pack("{si}", "timeout", seconds), *answer = NULL;
    char path[SANDBOX_PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", link->id);
    return endpoint_call(&link->endpoint, "POST", path, body, &answer, err);
}

/* A paused sandbox is "not found" to the call that extends lives. */
static int paused_look(const struct link *link, struct err *err)
{
    scoped_json *answer = NULL;
    char path[SANDBOX_PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/sandboxes/%s", link->id);
    return endpoint_call(&link->endpoint, "GET", path, NULL, &answer, err);
}

int link_extend(const struct link *link, int seconds, struct err *err)
{
    scoped_json *body = json_pack("{si}", "duration", seconds), *answer = NULL;
    char path[SANDBOX_PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/sandboxes/%s/refreshes", link->id);
    int r = endpoint_call(&link->endpoint, "POST", path, body, &answer, err);
    return r == -CALL_NOT_FOUND ? paused_look(link, err) : r;
}

int link_open(const struct endpoint *endpoint, const char *id, int resume_s, struct link *out,
              bool *resumed, struct err *err)
{
    scoped_json *answer = NULL;
    char path[SANDBOX_PATH_BYTES];

    *resumed = false;
    if (!entry_id_ok(id)) {
        return err_set(err, EINVAL, "'%s' is not the id of a sandbox", id);
    }
    (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
    int r = endpoint_call_verbatim(endpoint, "GET", path, NULL, &answer, err);
    r = r < 0 ? r : link_of(endpoint, answer, out, err);
    if (r == 0 && strcmp(json_text_of(answer, "state"), "paused") == 0) {
        *resumed = true;
        r = link_resume(out, resume_s, err);
    }
    return r;
}

/* Below a domain each sandbox has a name of its own; at other addresses headers say which one is
 * meant. */
static void address_make(const struct link *link, const char *path, char *out, size_t size)
{
    const struct str api = STR("https://api.");

    if (str_starts(str_of(link->endpoint.url), api)) {
        (void)snprintf(out, size, "https://%d-%s.%s%s", AGENT_PORT, link->id,
                       link->endpoint.url + api.len, path);
    } else {
        (void)snprintf(out, size, "%s", path);
    }
}

int link_prepare(const struct link *link, CURL *easy, const char *method, const char *path,
                 const char *type, const char *user, struct curl_slist **headers, struct err *err)
{
    char address[LINK_PATH_BYTES], basic[PROCESS_USER_BYTES] = "", port[8];
    int r = user ? process_user(user, basic, err) : 0;

    if (r < 0) {
        return r;
    }
    (void)snprintf(port, sizeof(port), "%d", AGENT_PORT);
    address_make(link, path, address, sizeof(address));
    *headers = header_add(NULL, "e2b-sandbox-id", str_of(link->id));
    *headers = header_add(*headers, "e2b-sandbox-port", str_of(port));
    *headers = header_add(*headers, "expect", STR(""));
    if (link->token[0]) {
        *headers = header_add(*headers, "x-access-token", str_of(link->token));
    }
    if (type) {
        *headers = header_add(*headers, "content-type", str_of(type));
    }
    if (basic[0]) {
        *headers = header_add(*headers, "authorization", str_of(basic));
    }
    r = endpoint_prepare(easy, &link->endpoint, method, address, err);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *headers);
    return r;
}

int link_refusal(struct str body, long status, struct err *err)
{
    scoped_json *json = terminal_json_clean(json_loadb(body.at, body.len, 0, NULL));
    const char *message = json_string_of(json, "message"), *code = json_string_of(json, "code");
    bool exists = code && strcmp(code, "already_exists") == 0;
    bool missing = status == 404 || (code && strcmp(code, "not_found") == 0);
    /* The daemon keeps the token of a sandbox from a read-only key. */
    if (status == 401 && message && strstr(message, "valid access token")) {
        return err_set(err, EACCES,
                       "this key may not enter the sandbox: a read-only key looks from outside, as "
                       "`inspect`, `logs` and `stats` do");
    }
    int number = exists ? EEXIST : missing ? ENOENT : EPROTO;

    return err_set(err, number, "%s", message ? message : "the sandbox refused the request");
}

static size_t on_answer(char *data, size_t size, size_t n, void *ctx)
{
    return buf_append(ctx, data, size * n) < 0 ? 0 : size * n;
}

int link_perform(const struct link *link, CURL *easy, json_t **answer, struct err *err)
{
    scoped_buf(body, ANSWER_BYTES_MAX);
    long status = 0;

    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
    int r = endpoint_perform(&link->endpoint, easy, &status, err);
    if (r < 0) {
        return r;
    }
    if (status < 200 || status >= 300) {
        return link_refusal(buf_str(&body), status, err);
    }
    *answer = json_loadb(buf_at(&body), buf_len(&body), 0, NULL);
    return 0;
}

int link_call(const struct link *link, const char *path, const char *user, const json_t *body,
              json_t **answer, struct err *err)
{
    CURL *easy = web_handle_new();
    struct curl_slist *headers = NULL;
    char *text = json_dumps(body, JSON_COMPACT);
    int r = link_prepare(link, easy, "POST", path, "application/json", user, &headers, err);

    if (r == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, text ? text : "{}");
        r = link_perform(link, easy, answer, err);
    }
    if (r == 0 && !*answer) {
        r = err_set(err, EPROTO, "the sandbox's answer is not JSON");
    }
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    free(text);
    return r;
}
