/* signed.c - links to files that name their sandbox only by a signature.
 *
 * A client with one base address for all sandboxes makes links like <base>/files?path=..&
 * signature=..: the sandbox is the one whose token gives that signature. This costs one hash per
 * running sandbox. The agent checks the signature and its expiry itself, as for any other request.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "serve/edge/internal.h"

enum {
    SIGNED_TEXT_MAX = HTTP_TARGET_BYTES_MAX + 1024,
    SIGNED_HASHED_MAX = 2 * SIGNED_TEXT_MAX, /* parts of the query, and the token */
    EXPIRY_BYTES = 32,
    SIGNED_BEFORE_MAX = 4096 + 256, /* a path of Linux and a user's name: hashed for each sandbox */
    SIGNATURE_BYTES = 3 + 43,       /* "v1_" and a SHA-256 in base64 */
};

bool signed_is(const struct http_request *req)
{
    scoped_buf(signature, HTTP_TARGET_BYTES_MAX);

    return str_eq(req->path, STR("/files")) &&
           http_query_get(req->query, "signature", &signature) == 1;
}

struct search {
    struct buf before, after; /* of the token: "<path>:<op>:<user>:" and "[:<expiry>]" */
    struct buf wanted;        /* the signature */
    struct buf text, made;
    struct sandbox *found;
};

static void search_fini(struct search *search)
{
    buf_fini(&search->before);
    buf_fini(&search->after);
    buf_fini(&search->wanted);
    buf_fini(&search->text);
    buf_fini(&search->made);
}

static int append_query(struct buf *out, struct str query, const char *name)
{
    scoped_buf(value, HTTP_TARGET_BYTES_MAX);

    int r = http_query_get(query, name, &value);
    return r <= 0 ? r : buf_append(out, buf_at(&value), buf_len(&value)) < 0 ? -ENOBUFS : 1;
}

static bool search_prepare(struct search *search, const struct http_request *req, const char *op)
{
    buf_clear(&search->before);
    buf_clear(&search->after);
    buf_clear(&search->wanted);
    if (append_query(&search->before, req->query, "path") < 0 ||
        buf_printf(&search->before, ":%s:", op) < 0 ||
        append_query(&search->before, req->query, "username") < 0 ||
        buf_append(&search->before, ":", 1) < 0 || buf_append(&search->after, ":", 1) < 0) {
        return false;
    }
    int expires = append_query(&search->after, req->query, "signature_expiration");
    if (expires == 0) {
        buf_clear(&search->after);
    }
    return expires >= 0 && buf_len(&search->before) <= SIGNED_BEFORE_MAX &&
           buf_len(&search->after) <= EXPIRY_BYTES &&
           http_query_get(req->query, "signature", &search->wanted) == 1 &&
           buf_len(&search->wanted) == SIGNATURE_BYTES;
}

static bool search_make(struct search *search, const char *token)
{
    uint8_t digest[SHA256_BYTES];

    buf_clear(&search->text);
    buf_clear(&search->made);
    if (buf_append(&search->text, buf_at(&search->before), buf_len(&search->before)) < 0 ||
        buf_append(&search->text, token, strlen(token)) < 0 ||
        buf_append(&search->text, buf_at(&search->after), buf_len(&search->after)) < 0) {
        return false;
    }
    sha256(buf_at(&search->text), buf_len(&search->text), digest);
    return buf_append(&search->made, "v1_", 3) == 0 &&
           base64_encode(&search->made, digest, sizeof(digest), BASE64_STD_NOPAD) == 0;
}

static bool search_matches(struct search *search, const char *token)
{
    return search_make(search, token) &&
           str_eq_secret(buf_str(&search->made), buf_str(&search->wanted));
}

static bool try_one(void *ctx, struct sandbox *sb)
{
    struct search *search = ctx;
    struct sandbox_info info = sandbox_info(sb);

    if (info.access_token && search_matches(search, info.access_token)) {
        search->found = sb;
    }
    return search->found == NULL;
}

static void search_init(struct search *search)
{
    buf_init(&search->before, SIGNED_TEXT_MAX);
    buf_init(&search->after, SIGNED_TEXT_MAX);
    buf_init(&search->wanted, SIGNED_TEXT_MAX);
    buf_init(&search->text, SIGNED_HASHED_MAX);
    buf_init(&search->made, SIGNED_TEXT_MAX);
}

/* Reads the expiry as the agent does; the agent refuses one that it cannot read. */
static bool is_expired(struct str query)
{
    char text[EXPIRY_BYTES] = "", *end = NULL;
    scoped_buf(value, HTTP_TARGET_BYTES_MAX);
    int r = http_query_get(query, "signature_expiration", &value);
    if (r == 0) {
        return false;
    }
    if (r < 0 || !str_copy(text, sizeof(text), buf_str(&value))) {
        return true;
    }
    int64_t expiry_s = strtoll(text, &end, 10);
    return !text[0] || *end || expiry_s < clock_wall_ms() / 1000;
}

bool signed_by(const char *token, const struct http_request *req)
{
    scoped(search_fini) struct search search = {0};
    const char *op = str_eq(req->method, STR("POST")) ? "write" : "read";

    search_init(&search);
    return signed_is(req) && search_prepare(&search, req, op) && search_matches(&search, token) &&
           !is_expired(req->query);
}

struct sandbox *signed_find(struct sandboxes *sandboxes, const struct http_request *req)
{
    scoped(search_fini) struct search search = {0};

    search_init(&search);
    bool writes = str_eq(req->method, STR("POST"));
    bool asks = str_eq(req->method, STR("OPTIONS")); /* for either, on behalf of a browser */
    if (!writes && search_prepare(&search, req, "read")) {
        sandboxes_each(sandboxes, false, NULL, try_one, &search);
    }
    if ((writes || asks) && !search.found && search_prepare(&search, req, "write")) {
        sandboxes_each(sandboxes, false, NULL, try_one, &search);
    }
    return search.found;
}
