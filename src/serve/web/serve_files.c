#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/base/id.h"
#include "serve/web/web.h"

enum {
    NONCE_BYTES = 16,
    NONCE_TEXT_BYTES = 32, /* base64 of it, and a NUL */
    POLICY_BYTES = 512,
    HEADERS_MAX = 12,
    GZIP_WINDOW_BITS = 16 + MAX_WBITS, /* zlib's way to say gzip */
};

#define WEB_ELSEWHERE "from=elsewhere" /* web/src/lib/session.ts knows it, too */

struct web {
    const struct web_file *files;
    size_t n;
    char *index; /* unpacked */
};

/* ---- content ---- */

/* The files are our own: damage would be a fault of the build. NULL then. */
static char *unpack(const struct web_file *file)
{
    z_stream stream = {0};
    char *out = file->plain_bytes <= WEB_FILE_BYTES_MAX ? xcalloc(1, file->plain_bytes + 1) : NULL;

    if (!out || inflateInit2(&stream, GZIP_WINDOW_BITS) != Z_OK) {
        free(out);
        return NULL;
    }
    stream.next_in = (Bytef *)(uintptr_t)file->gzip;
    stream.avail_in = (uInt)file->gzip_bytes;
    stream.next_out = (Bytef *)out;
    stream.avail_out = (uInt)file->plain_bytes + 1;
    int r = inflate(&stream, Z_FINISH);
    (void)inflateEnd(&stream);
    if (r != Z_STREAM_END || stream.total_out != file->plain_bytes) {
        free(out);
        return NULL;
    }
    return out;
}

static const struct web_file *file_find(const struct web *web, struct str path)
{
    for (size_t i = 0; i < web->n; i++) {
        if (str_eq(path, str_of(web->files[i].path))) {
            return &web->files[i];
        }
    }
    return NULL;
}

/* The page with the nonce in each place of the mark. */
static char *page_make(const struct web *web, const char *nonce, size_t *bytes)
{
    scoped_buf(out, WEB_FILE_BYTES_MAX);
    const char *from = web->index;
    const char *mark;
    int r = 0;

    while (r == 0 && (mark = strstr(from, WEB_NONCE_MARK))) {
        r = buf_append(&out, from, (size_t)(mark - from));
        r = r < 0 ? r : buf_append(&out, nonce, strlen(nonce));
        from = mark + strlen(WEB_NONCE_MARK);
    }
    if (r < 0 || buf_append(&out, from, strlen(from)) < 0) {
        return NULL;
    }
    *bytes = buf_len(&out);
    return move_ptr(&out.data);
}

/* ---- the answer's body, as fast as the client takes it ---- */

struct sending {
    struct http_exchange *ex;
    const char *at;
    size_t left;
    char *owned; /* NULL: the bytes are the program's */
};

static void send_more(struct sending *sending)
{
    size_t n = http_write_some(sending->ex, sending->at, sending->left);

    sending->at += n;
    sending->left -= n;
    if (sending->left == 0) {
        http_finish(sending->ex);
    }
}

static void on_credit(void *ctx)
{
    struct sending *sending = ctx;

    if (sending->left > 0) {
        send_more(sending);
    }
}

static void on_end(void *ctx, int error)
{
    struct sending *sending = ctx;

    (void)error;
    free(sending->owned);
    free(sending);
}

static const struct http_handler handler = {.on_credit = on_credit, .on_end = on_end};

/* Takes `owned` over. */
static void answer(struct http_exchange *ex, int status, const struct http_header *headers,
                   size_t n, const void *body, size_t bytes, char *owned)
{
    bool head_only = str_eq(http_request(ex)->method, STR("HEAD")) || status == 304;
    struct sending *sending = xnew(struct sending);

    *sending =
        (struct sending){.ex = ex, .at = body, .left = head_only ? 0 : bytes, .owned = owned};
    http_accept(ex, &handler, sending);
    http_respond(ex, status, headers, n, status == 304 ? -1 : (int64_t)bytes);
    send_more(sending);
}

/* ---- headers ---- */

struct head {
    struct http_header list[HEADERS_MAX];
    size_t n;
};

static void put(struct head *head, const char *name, const char *value)
{
    head->list[head->n++] = (struct http_header){str_of(name), str_of(value)};
}

static void put_common(struct head *head, const char *policy)
{
    put(head, "Content-Security-Policy", policy);
    put(head, "X-Content-Type-Options", "nosniff");
    put(head, "Referrer-Policy", "no-referrer");
    put(head, "Cross-Origin-Opener-Policy", "same-origin");
    put(head, "Cross-Origin-Resource-Policy", "same-origin");
}

/* A name without parameters, or with any but q=0. */
static bool admits(struct str coding, const char *name)
{
    size_t end = str_find(coding, ';');
    struct str q = str_trim(str_skip(coding, end + 1));

    if (!str_ieq(str_trim((struct str){coding.at, end}), str_of(name))) {
        return false;
    }
    if (q.len < 3 || (q.at[0] != 'q' && q.at[0] != 'Q') || q.at[1] != '=') {
        return true;
    }
    for (size_t i = 2; i < q.len; i++) {
        if (q.at[i] >= '1' && q.at[i] <= '9') {
            return true;
        }
    }
    return false;
}

bool web_takes(struct str accept_encoding, const char *name)
{
    struct str coding;

    while (accept_encoding.len > 0 && str_split(&accept_encoding, ',', &coding)) {
        if (admits(coding, name)) {
            return true;
        }
    }
    return false;
}

static bool has_etag(struct str if_none_match, const char *etag)
{
    struct str one;

    while (if_none_match.len > 0 && str_split(&if_none_match, ',', &one)) {
        one = str_trim(one);
        one = str_starts(one, STR("W/")) ? str_skip(one, 2) : one;
        if (str_eq(one, str_of(etag)) || str_eq(one, STR("*"))) {
            return true;
        }
    }
    return false;
}

/* ---- requests ---- */

static void refuse_method(struct http_exchange *ex)
{
    static const char sentence[] =
        "{\"code\":405,\"message\":\"this path takes GET and HEAD alone\"}";
    static const struct http_header allow[] = {{{"Allow", 5}, {"GET, HEAD", 9}}};

    http_also(ex, allow, countof(allow));
    http_answer(ex, 405, "application/json; charset=utf-8", sentence, sizeof(sentence) - 1);
}

static void serve_page(const struct web *web, const struct web_file *file, struct http_exchange *ex)
{
    char nonce[NONCE_TEXT_BYTES] = "", policy[POLICY_BYTES];
    uint8_t random[NONCE_BYTES];
    scoped_buf(text, NONCE_TEXT_BYTES);
    struct head head = {.n = 0};
    size_t bytes = 0;

    id_random(random, sizeof(random));
    if (base64_encode(&text, random, sizeof(random), BASE64_STD) < 0 ||
        !str_copy(nonce, sizeof(nonce), buf_str(&text))) {
        abort(); /* a nonce is always as long */
    }
    char *page = page_make(web, nonce, &bytes);
    (void)snprintf(policy, sizeof(policy),
                   "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; "
                   "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; "
                   "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                   nonce);
    put_common(&head, policy);
    put(&head, "Content-Type", file->type);
    put(&head, "Cache-Control", "no-store");
    answer(ex, page ? 200 : 500, head.list, head.n, page, bytes, page);
}

static void serve_asset(const struct web_file *file, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    struct str codings = http_header_get(req, "accept-encoding");
    struct head head = {.n = 0};

    put_common(&head, "default-src 'none'; frame-ancestors 'none'");
    put(&head, "ETag", file->etag);
    put(&head, "Vary", "Accept-Encoding");
    put(&head, "Cache-Control",
        file->immutable ? "public, max-age=31536000, immutable" : "no-cache");
    if (has_etag(http_header_get(req, "if-none-match"), file->etag)) {
        answer(ex, 304, head.list, head.n, NULL, 0, NULL);
        return;
    }
    put(&head, "Content-Type", file->type);
    if (file->brotli && web_takes(codings, "br")) {
        put(&head, "Content-Encoding", "br");
        answer(ex, 200, head.list, head.n, file->brotli, file->brotli_bytes, NULL);
        return;
    }
    if (web_takes(codings, "gzip")) {
        put(&head, "Content-Encoding", "gzip");
        answer(ex, 200, head.list, head.n, file->gzip, file->gzip_bytes, NULL);
        return;
    }
    char *plain = unpack(file);
    answer(ex, plain ? 200 : 500, head.list, head.n, plain, plain ? file->plain_bytes : 0, plain);
}

/* A browser that follows a link of another page says so, in a header that no page can set. Such an
 * address may bring a link to log in with (#login=): the query tells our page not to use it, or
 * every page could log its visitors in as somebody else. The part behind the # stays. */
static bool is_from_elsewhere(const struct http_request *req)
{
    struct str site = str_trim(http_header_get(req, "sec-fetch-site"));

    return site.len > 0 && !str_ieq(site, STR("none")) && !str_ieq(site, STR("same-origin")) &&
           !str_eq(req->query, STR(WEB_ELSEWHERE));
}

static void send_on(struct http_exchange *ex)
{
    struct head head = {.n = 0};

    put_common(&head, "default-src 'none'; frame-ancestors 'none'");
    put(&head, "Location", "/?" WEB_ELSEWHERE);
    put(&head, "Cache-Control", "no-store");
    put(&head, "Vary", "Sec-Fetch-Site");
    answer(ex, 303, head.list, head.n, NULL, 0, NULL);
}

/* Programs that ask what this is get the API's answer. */
static bool wants_json(const struct http_request *req)
{
    struct str accept = http_header_get(req, "accept");

    return !http_accepts(accept, "text/html") && http_accepts(accept, "application/json");
}

bool web_handle(struct web *web, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    const struct web_file *file = file_find(web, req->path);
    bool is_page = str_eq(req->path, STR("/"));

    if (!file || str_eq(req->method, STR("OPTIONS")) || (is_page && wants_json(req))) {
        return false;
    }
    if (!str_eq(req->method, STR("GET")) && !str_eq(req->method, STR("HEAD"))) {
        refuse_method(ex);
    } else if (is_page && is_from_elsewhere(req)) {
        send_on(ex);
    } else if (is_page) {
        serve_page(web, file, ex);
    } else {
        serve_asset(file, ex);
    }
    return true;
}

/* ---- life ---- */

int web_new(const struct web_file *files, size_t n, struct web **out, struct err *err)
{
    struct web *web = xnew(struct web);

    web->files = files;
    web->n = n;
    const struct web_file *page = file_find(web, STR("/"));
    web->index = page ? unpack(page) : NULL;
    if (!web->index) {
        web_free(web);
        return err_set(err, EINVAL, "the dashboard in this program is damaged: build it again");
    }
    *out = web;
    return 0;
}

void web_free(struct web *web)
{
    if (web) {
        free(web->index);
        free(web);
    }
}
