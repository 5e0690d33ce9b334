#include "cli/call.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/progress.h"
#include "cli/terminal_text.h"
#include "lib/base/buf.h"
#include "lib/base/encode.h"
#include "lib/base/fd.h"
#include "lib/base/str.h"
#include "lib/web/multi.h"

enum {
    ANSWER_BYTES_MAX = 16 * 1024 * 1024,
    TOKEN_BYTES = 256,
    PATH_BYTES_MAX = 16 * 1024,
    HEADER_BYTES_MAX = 8192,
    AGENT_PORT = 49983,
    CONNECT_S = 30,
};

/* The file that `atoll env` names has the host's authorities and the daemon's. */
static const char *trusted_file(void)
{
    static const char *const names[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE"};

    for (size_t i = 0; i < countof(names); i++) {
        const char *file = getenv(names[i]);
        if (file && file[0]) {
            return file;
        }
    }
    return NULL;
}

static bool is_address(const char *url)
{
    return strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
}

int endpoint_prepare(CURL *easy, const struct endpoint *endpoint, const char *method,
                     const char *path, struct err *err)
{
    char url[sizeof(endpoint->url) + PATH_BYTES_MAX];
    int n = snprintf(url, sizeof(url), "%s%s", is_address(path) ? "" : endpoint->url, path);

    if (!is_address(url)) {
        return err_set(err, EINVAL,
                       "'%s' is not the address of a daemon: it is of the form http://HOST:PORT or "
                       "https://HOST",
                       endpoint->url);
    }
    if (n >= (int)sizeof(url)) {
        return err_set(err, EINVAL, "the address %.60s... is too long", url);
    }
    if (curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK) {
        return err_set(err, ENOMEM, "ask %s", endpoint->url);
    }
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    const char *trusted = endpoint->ca[0] ? endpoint->ca : trusted_file();
    if (trusted) {
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, trusted);
    }
    return 0;
}

/* A value is cut at a line end, which would begin another header. */
static size_t line_len(struct str text)
{
    size_t n = 0;

    while (n < text.len && text.at[n] != '\r' && text.at[n] != '\n') {
        n++;
    }
    return n;
}

struct curl_slist *header_add(struct curl_slist *headers, const char *name, struct str value)
{
    char line[HEADER_BYTES_MAX];

    (void)snprintf(line, sizeof(line), "%s: %.*s", name, (int)line_len(value), value.at);
    struct curl_slist *longer = curl_slist_append(headers, line);
    if (!longer) {
        abort();
    }
    return longer;
}

struct curl_slist *endpoint_headers(const struct endpoint *endpoint)
{
    struct curl_slist *headers = header_add(NULL, "content-type", STR("application/json"));

    if (endpoint->admin[0]) {
        headers = header_add(headers, "x-admin-token", str_of(endpoint->admin));
    }
    if (endpoint->key[0] || !endpoint->admin[0]) {
        headers = header_add(headers, "x-api-key", str_of(endpoint->key));
    }
    return header_add(headers, "expect", STR("")); /* a daemon that refuses says so at once */
}

bool header_split(struct str line, struct str *name, struct str *value)
{
    size_t colon = str_find(line, ':');

    if (colon >= line.len) {
        return false;
    }
    *name = (struct str){line.at, colon};
    *value = str_skip(line, colon + 1);
    *value = str_trim((struct str){value->at, line_len(*value)});
    return true;
}

int endpoint_failure(const struct endpoint *endpoint, CURL *easy, CURLcode code, const char *reason,
                     struct err *err)
{
    long number = 0;

    if (code == CURLE_COULDNT_CONNECT) {
        (void)curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    }
    if (number > 0) {
        return err_set(err, (int)number, "connect to %s: %s", endpoint->url,
                       strerrordesc_np((int)number));
    }
    const char *advice =
        code == CURLE_PEER_FAILED_VERIFICATION
            ? "; set SSL_CERT_FILE to a file with the daemon's authority, as `atoll env` does, or "
              "name it with --ca"
        : code == CURLE_SSL_CONNECT_ERROR
            ? "; is that the port for TLS? `atoll serve` prints both addresses"
        : code == CURLE_GOT_NOTHING && strncmp(endpoint->url, "http:", 5) == 0
            ? "; is that the port for TLS? Then write https://"
            : "";
    bool nobody = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_SSL_CONNECT_ERROR ||
                  code == CURLE_GOT_NOTHING;
    return err_set(err, nobody ? CALL_NO_DAEMON : EIO, "ask %s: %s%s", endpoint->url,
                   reason[0] ? reason : curl_easy_strerror(code), advice);
}

int endpoint_perform(const struct endpoint *endpoint, CURL *easy, long *status, struct err *err)
{
    char reason[CURL_ERROR_SIZE] = "";

    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
    CURLcode code = curl_easy_perform(easy);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL); /* the handle may outlive it */
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, status);
    /* A refusal may come before all of a body was sent: the answer then says why. */
    bool refused = code == CURLE_SEND_ERROR && *status >= 400;
    return code == CURLE_OK || refused ? 0 : endpoint_failure(endpoint, easy, code, reason, err);
}

struct call {
    struct buf body;
    long status;
    int error;
    char next[TOKEN_BYTES]; /* where the next page of a list begins; "": there is none */
    void (*line)(void *ctx, struct str line); /* NULL: the body is wanted whole */
    void *line_ctx;
    CURL *easy;
    bool verbatim; /* control characters stay as they are */
    int file;      /* the body to send, from its position; or the file that keeps the answer */
    int64_t file_bytes;
    int64_t file_sent;
    struct progress progress;
    bool keeps;
};

static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
    struct call *call = ctx;
    struct str name, value;

    if (header_split((struct str){data, size * n}, &name, &value) &&
        str_ieq(name, STR("x-next-token"))) {
        (void)str_copy(call->next, sizeof(call->next), value);
    }
    return size * n;
}

/* Passes on complete lines. */
static void lines_take(struct call *call)
{
    struct str rest = buf_str(&call->body);
    size_t n;

    while ((n = str_find(rest, '\n')) < rest.len) {
        call->line(call->line_ctx, (struct str){rest.at, n});
        buf_consume(&call->body, n + 1);
        rest = buf_str(&call->body);
    }
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct call *call = ctx;

    if (buf_append(&call->body, data, size * n) < 0) {
        call->error = -EMSGSIZE;
        return 0;
    }
    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &call->status);
    if (call->line && call->status / 100 == 2) {
        lines_take(call);
    }
    return size * n;
}

/* Keeps the body of a download; that of a refusal is read as JSON. */
static size_t on_content(char *data, size_t size, size_t n, void *ctx)
{
    struct call *call = ctx;

    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &call->status);
    if (call->status != 200) {
        return on_body(data, size, n, ctx);
    }
    return write(call->file, data, size * n) == (ssize_t)(size * n) ? size * n : 0;
}

static int answer_read(const struct call *call, json_t **answer, struct err *err)
{
    json_t *json = json_loadb(buf_at(&call->body), buf_len(&call->body), JSON_DECODE_ANY, NULL);

    json = call->verbatim ? json : terminal_json_clean(json);
    if (call->status < 200 || call->status > 299) {
        const char *message = json_string_of(json, "message");
        int code = call->status == 404 ? CALL_NOT_FOUND : EPROTO;
        (void)err_set(err, code, "%s (status %ld)",
                      message ? message : "the daemon refused the request", call->status);
        json_decref(json);
        return -code;
    }
    *answer = json;
    return 0;
}

static int call_perform(struct call *call, const struct endpoint *endpoint, json_t **answer,
                        struct err *err)
{
    (void)curl_easy_setopt(call->easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(call->easy, CURLOPT_HEADERDATA, call);
    (void)curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, call->keeps ? on_content : on_body);
    (void)curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    int r = endpoint_perform(endpoint, call->easy, &call->status, err);
    if (call->error < 0) {
        return err_set(err, -call->error, "the answer of the daemon is longer than %d bytes",
                       ANSWER_BYTES_MAX);
    }
    return r < 0 ? r : answer_read(call, answer, err);
}

static size_t on_read(char *into, size_t size, size_t n, void *ctx)
{
    struct call *call = ctx;
    ssize_t got = read(call->file, into, size * n);

    call->file_sent += got > 0 ? got : 0;
    progress_tell(&call->progress, call->file_sent, call->file_bytes);
    return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

static void body_set(struct call *call, const char *text)
{
    if (text) {
        (void)curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, text);
    } else if (call->file_bytes > 0) {
        (void)curl_easy_setopt(call->easy, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(call->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->file_bytes);
        (void)curl_easy_setopt(call->easy, CURLOPT_READFUNCTION, on_read);
        (void)curl_easy_setopt(call->easy, CURLOPT_READDATA, call);
    }
}

/* Takes over the headers. */
static int call_run(struct call *call, const struct endpoint *endpoint, const char *method,
                    const char *path, struct curl_slist *headers, const json_t *body,
                    json_t **answer, struct err *err)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    call->easy = web_handle_new();
    buf_init(&call->body, ANSWER_BYTES_MAX);
    int r = endpoint_prepare(call->easy, endpoint, method, path, err);
    if (r == 0) {
        (void)curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, headers);
        body_set(call, text);
        r = call_perform(call, endpoint, answer, err);
    }
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(headers);
    buf_fini(&call->body);
    free(text);
    return r;
}

int endpoint_call(const struct endpoint *endpoint, const char *method, const char *path,
                  const json_t *body, json_t **answer, struct err *err)
{
    struct call call = {.status = 0};

    return call_run(&call, endpoint, method, path, endpoint_headers(endpoint), body, answer, err);
}

int endpoint_call_verbatim(const struct endpoint *endpoint, const char *method, const char *path,
                           const json_t *body, json_t **answer, struct err *err)
{
    struct call call = {.verbatim = true};

    return call_run(&call, endpoint, method, path, endpoint_headers(endpoint), body, answer, err);
}

/* The address is signed: it needs no key, and gets none. */
int endpoint_upload(const struct endpoint *endpoint, const char *url, int fd, int64_t bytes,
                    struct err *err)
{
    struct call call = {.file = fd, .file_bytes = bytes};
    struct curl_slist *headers = header_add(NULL, "expect", STR(""));

    headers = header_add(headers, "content-type", STR("application/octet-stream"));
    scoped_json *answer = NULL;

    progress_begin(&call.progress, true);
    int r = call_run(&call, endpoint, "PUT", url, headers, NULL, &answer, err);
    progress_end(&call.progress);
    return r;
}

int endpoint_send(const struct endpoint *endpoint, const char *method, const char *path, int fd,
                  int64_t bytes, json_t **answer, struct err *err)
{
    struct call call = {.file = fd, .file_bytes = bytes};
    struct curl_slist *headers = endpoint_headers(endpoint);

    progress_begin(&call.progress, true);
    int r = call_run(&call, endpoint, method, path, headers, NULL, answer, err);
    progress_end(&call.progress);
    return r;
}

int endpoint_save(const struct endpoint *endpoint, const char *method, const char *path, int fd,
                  struct err *err)
{
    struct call call = {.file = fd, .keeps = true};
    scoped_json *answer = NULL;

    return call_run(&call, endpoint, method, path, endpoint_headers(endpoint), NULL, &answer, err);
}

/* Below a domain the API and each sandbox have names of their own; at a plain address headers say
 * which sandbox is meant. */
static void agent_address(const struct endpoint *endpoint, const char *sandbox_id, const char *path,
                          char *out, size_t size)
{
    const struct str api = STR("https://api.");

    if (str_starts(str_of(endpoint->url), api)) {
        (void)snprintf(out, size, "https://%d-%s.%s%s", AGENT_PORT, sandbox_id,
                       endpoint->url + api.len, path);
    } else {
        (void)snprintf(out, size, "%s", path);
    }
}

int endpoint_download(const struct endpoint *endpoint, const char *sandbox_id, const char *path,
                      struct err *err)
{
    char address[PATH_BYTES_MAX];
    const char *dir = getenv("TMPDIR");
    scoped_fd out = open(dir && dir[0] ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct call call = {.file = out, .keeps = true};
    scoped_json *answer = NULL;
    char port[8];

    if (out < 0) {
        return err_sys(err, "make a temporary file");
    }
    (void)snprintf(port, sizeof(port), "%d", AGENT_PORT);
    struct curl_slist *headers = header_add(NULL, "e2b-sandbox-id", str_of(sandbox_id));
    headers = header_add(headers, "e2b-sandbox-port", str_of(port));
    agent_address(endpoint, sandbox_id, path, address, sizeof(address));
    int r = call_run(&call, endpoint, "GET", address, headers, NULL, &answer, err);
    return r < 0 ? r : move_fd(&out);
}

/* ---- lists and lines ---- */

static int page_read(const struct endpoint *endpoint, const char *path, bool verbatim,
                     char next[TOKEN_BYTES], json_t **answer, struct err *err)
{
    scoped_buf(full, PATH_BYTES_MAX);
    struct call call = {.verbatim = verbatim};

    int r = buf_printf(&full, "%s", path);
    if (r == 0 && next[0]) {
        r = buf_printf(&full, "&nextToken=");
        r = r < 0 ? r : percent_encode(&full, str_of(next));
    }
    r = r < 0 ? r : buf_append(&full, "", 1);
    if (r < 0) {
        return err_set(err, -r, "the token of the list's next page is too long");
    }
    r = call_run(&call, endpoint, "GET", buf_at(&full), endpoint_headers(endpoint), NULL, answer,
                 err);
    memcpy(next, call.next, sizeof(call.next));
    return r;
}

int endpoint_each(const struct endpoint *endpoint, const char *path,
                  void (*each)(void *ctx, const json_t *row), void *ctx, struct err *err)
{
    char next[TOKEN_BYTES] = "";
    int r = 0;

    do {
        scoped_json *page = NULL;
        const json_t *row;
        size_t i;
        r = page_read(endpoint, path, false, next, &page, err);
        json_array_foreach (page, i, row) {
            each(ctx, row);
        }
    } while (r == 0 && next[0]);
    return r;
}

int endpoint_list(const struct endpoint *endpoint, const char *path, json_t **list, struct err *err)
{
    scoped_json *all = json_array();
    char next[TOKEN_BYTES] = "";
    int r = 0;

    do {
        scoped_json *page = NULL;
        r = page_read(endpoint, path, true, next, &page, err);
        if (r == 0 && json_array_extend(all, page) < 0) {
            r = err_set(err, EPROTO, "the daemon's answer is not a list");
        }
    } while (r == 0 && next[0]);
    if (r == 0) {
        *list = json_incref(all);
    }
    return r;
}

int endpoint_lines(const struct endpoint *endpoint, const char *path,
                   void (*line)(void *ctx, struct str line), void *ctx, struct err *err)
{
    struct call call = {.line = line, .line_ctx = ctx};
    json_t *answer = NULL;
    struct curl_slist *headers =
        header_add(endpoint_headers(endpoint), "Accept", STR("application/x-ndjson"));
    int r = call_run(&call, endpoint, "GET", path, headers, NULL, &answer, err);

    json_decref(answer);
    return r;
}

void endpoint_escape(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 4 < size; text++) {
        if (isalnum((unsigned char)*text) || strchr("-_.~", *text)) {
            out[n++] = *text;
        } else {
            n += (size_t)snprintf(out + n, size - n, "%%%02X", (unsigned char)*text);
        }
    }
    out[n] = '\0';
}

const char *answer_text(const json_t *object, const char *name)
{
    const char *text = json_string_of(object, name);

    return text ? text : "-";
}
