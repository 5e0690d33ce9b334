#include "lib/mcp/stateless.h"

#include <errno.h>
#include <string.h>

#include "lib/base/encode.h"
#include "lib/base/json.h"

/* ---- which revision ---- */

static const char *meta_text(const json_t *params, const char *name)
{
    return json_string_of(json_object_get(params, "_meta"), name);
}

bool stateless_version(struct str header, const json_t *message, enum mcp_version *out,
                       struct str *asked)
{
    struct str meta =
        str_of(meta_text(json_object_get(message, "params"), MCP_META "protocolVersion"));

    *asked = header.at ? header : meta;
    *out = MCP_2025_03_26;
    if (asked->at && !version_find(*asked, out)) {
        return false;
    }
    if (meta.at && !version_is_stateless(*out)) {
        *out = MCP_2026_07_28; /* and its header is wrong, which stateless_check() tells */
    }
    return true;
}

/* ---- requests ---- */

/* "=?base64?...?=", or the text itself. */
static bool header_is(struct str value, const char *text)
{
    struct str prefix = STR("=?base64?"), suffix = STR("?=");
    scoped_buf(decoded, STATELESS_HEADER_BYTES_MAX);

    if (!str_starts(value, prefix) || !str_ends(value, suffix) ||
        value.len < prefix.len + suffix.len) {
        return str_eq(value, str_of(text));
    }
    struct str inner = {value.at + prefix.len, value.len - prefix.len - suffix.len};
    return base64_decode(&decoded, inner) == 0 && str_eq(buf_str(&decoded), str_of(text));
}

static int header_check(const struct http_request *head, const char *header, const char *text,
                        struct err *err)
{
    struct str value = http_header_get(head, header);

    if (!value.at) {
        return err_set(err, EINVAL, "the header %s is missing", header);
    }
    if (!header_is(value, text)) {
        return err_set(err, EINVAL, "the header %s is '%.*s', and the message says '%.64s'", header,
                       (int)(value.len < 64 ? value.len : 64), value.at, text);
    }
    return 0;
}

/* The text that the header Mcp-Name must repeat; NULL: the method needs no such header. */
static const char *name_of(const struct jsonrpc_message *request)
{
    static const struct {
        const char *method, *member;
    } named[] = {{"tools/call", "name"}, {"prompts/get", "name"}, {"resources/read", "uri"}};

    for (size_t i = 0; i < countof(named); i++) {
        if (strcmp(request->method, named[i].method) == 0) {
            return json_string_of(request->params, named[i].member);
        }
    }
    return NULL;
}

static int head_check(const struct jsonrpc_message *request, const struct http_request *head,
                      const char *version, struct err *err)
{
    const char *name = name_of(request);
    int r = header_check(head, "MCP-Protocol-Version", version, err);

    r = r < 0 ? r : header_check(head, "Mcp-Method", request->method, err);
    return r < 0 || !name ? r : header_check(head, "Mcp-Name", name, err);
}

int stateless_check(const struct jsonrpc_message *request, const struct http_request *head,
                    struct err *err)
{
    const json_t *meta = json_object_get(request->params, "_meta");
    const char *version = meta_text(request->params, MCP_META "protocolVersion");

    if (!version) {
        (void)err_set(err, EINVAL,
                      "params._meta[\"" MCP_META "protocolVersion\"]: must be a string");
        return JSONRPC_INVALID_PARAMS;
    }
    if (head_check(request, head, version, err) < 0) {
        return MCP_HEADER_MISMATCH;
    }
    if (!json_is_object(json_object_get(meta, MCP_META "clientCapabilities"))) {
        (void)err_set(err, EINVAL,
                      "params._meta[\"" MCP_META "clientCapabilities\"]: must be an object");
        return JSONRPC_INVALID_PARAMS;
    }
    return 0;
}

/* ---- results ---- */

void stateless_result(json_t *result, json_t *server, int64_t ttl_ms)
{
    json_t *meta = json_object_get(result, "_meta");

    if (!json_is_object(meta)) {
        meta = json_object();
        (void)json_object_set_new(result, "_meta", meta);
    }
    (void)json_object_set_new(meta, MCP_META "serverInfo", server);
    (void)json_object_set_new(result, "resultType", json_string("complete"));
    if (ttl_ms >= 0) {
        (void)json_object_set_new(result, "ttlMs", json_integer(ttl_ms));
        (void)json_object_set_new(result, "cacheScope", json_string("private"));
    }
}
