/* The document of GET /openapi.json and the table of routes say the same. */
#include <ctype.h>
#include <string.h>

#include "check.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "serve/api/internal.h"
#include "serve/api/openapi/document.h"

enum { NAME_BYTES = 256 };

static json_t *document;

/* "/sandboxes/{sandboxID}" -> "/sandboxes/{}" */
static void pattern_of(const char *path, char out[NAME_BYTES])
{
    bool inside = false;
    size_t n = 0;

    for (; *path && n + 1 < NAME_BYTES; path++) {
        inside = inside && *path != '}';
        if (!inside) {
            out[n++] = *path;
        }
        inside = inside || *path == '{';
    }
    out[n] = '\0';
}

static void lowered(const char *text, char out[NAME_BYTES])
{
    size_t n = 0;

    for (; text[n] && n + 1 < NAME_BYTES; n++) {
        out[n] = (char)tolower((unsigned char)text[n]);
    }
    out[n] = '\0';
}

/* Users have no way to the routes of the daemon's own programs: they are not described. */
static bool is_internal(const struct route *route)
{
    return route->access == ACCESS_INTERNAL;
}

static const json_t *operation_of(const struct route *route)
{
    char pattern[NAME_BYTES], method[NAME_BYTES];

    lowered(route->method, method);
    json_each (json_object_get(document, "paths"), it) {
        pattern_of(json_object_iter_key(it), pattern);
        if (strcmp(pattern, route->path) == 0) {
            return json_object_get(json_object_iter_value(it), method);
        }
    }
    return NULL;
}

static void every_route_is_described(void)
{
    for (size_t i = 0; i < routes_count(); i++) {
        const struct route *route = route_at(i);

        CHECK_THAT(is_internal(route) || operation_of(route),
                   "%s %s is not in src/serve/api/openapi", route->method, route->path);
    }
}

static bool is_route(const char *method, const char *pattern)
{
    for (size_t i = 0; i < routes_count(); i++) {
        const struct route *route = route_at(i);

        if (strcasecmp(route->method, method) == 0 && strcmp(route->path, pattern) == 0) {
            return true;
        }
    }
    return false;
}

static void every_description_has_a_route(void)
{
    char pattern[NAME_BYTES];
    size_t n = 0;

    json_each (json_object_get(document, "paths"), path) {
        pattern_of(json_object_iter_key(path), pattern);
        json_each (json_object_iter_value(path), method) {
            CHECK_THAT(is_route(json_object_iter_key(method), pattern),
                       "%s %s is not in src/serve/api/routes.c", json_object_iter_key(method),
                       pattern);
            n++;
        }
    }
    for (size_t i = 0; i < routes_count(); i++) {
        n += is_internal(route_at(i));
    }
    CHECK_INT(n, routes_count());
}

/* ---- what the columns say ---- */

static const struct {
    const char *name;     /* x-atoll-access */
    const char *security; /* the schemes that open it; "": none */
} accesses[] = {
    [ACCESS_NONE] = {"none", ""},
    [ACCESS_KEY] = {"key", "apiKey|bearer|adminToken+teamID|"},
    [ACCESS_FULL_KEY] = {"full-key", "apiKey|bearer|adminToken+teamID|"},
    [ACCESS_ADMIN] = {"admin", "adminToken|"},
    [ACCESS_UPLOAD_TOKEN] = {"upload-token", "uploadToken|"},
    [ACCESS_PAGE] = {"page", ""},
    [ACCESS_VOLUME_TOKEN] = {"volume-token", "volumeToken|"},
};

static void security_of(const json_t *operation, char out[NAME_BYTES])
{
    const json_t *security = json_object_get(operation, "security");
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(security); i++) {
        const char *joint = "";

        json_each (json_array_get(security, i), it) {
            n += (size_t)snprintf(out + n, NAME_BYTES - n, "%s%s", joint, json_object_iter_key(it));
            joint = "+";
        }
        n += (size_t)snprintf(out + n, NAME_BYTES - n, "|");
    }
}

static void access_is_the_same(void)
{
    for (size_t i = 0; i < routes_count(); i++) {
        const struct route *route = route_at(i);

        if (is_internal(route)) {
            continue;
        }
        const json_t *operation = operation_of(route);
        const char *access = json_string_of(operation, "x-atoll-access");
        char security[NAME_BYTES];

        security_of(operation, security);
        CHECK_THAT(access && strcmp(access, accesses[route->access].name) == 0,
                   "%s %s: x-atoll-access is '%s', want '%s'", route->method, route->path, access,
                   accesses[route->access].name);
        CHECK_THAT(strcmp(security, accesses[route->access].security) == 0,
                   "%s %s: security is '%s', want '%s'", route->method, route->path, security,
                   accesses[route->access].security);
    }
}

static void bodies_are_the_same(void)
{
    for (size_t i = 0; i < routes_count(); i++) {
        const struct route *route = route_at(i);

        if (is_internal(route)) {
            continue;
        }
        const json_t *operation = operation_of(route);
        const json_t *body = json_object_get(operation, "requestBody");
        const json_t *limit = json_object_get(operation, "x-atoll-body-bytes-max");
        bool required = json_is_true(json_object_get(body, "required"));

        CHECK_THAT((route->body != BODY_NONE) == (body != NULL), "%s %s: requestBody",
                   route->method, route->path);
        CHECK_THAT(!body || required == (route->body != BODY_OPTIONAL),
                   "%s %s: requestBody.required", route->method, route->path);
        CHECK_THAT(body ? json_is_integer(limit) &&
                              json_integer_value(limit) == route->body_bytes_max
                        : !limit,
                   "%s %s: x-atoll-body-bytes-max", route->method, route->path);
    }
}

static void flags_are_the_same(void)
{
    for (size_t i = 0; i < routes_count(); i++) {
        const struct route *route = route_at(i);

        if (is_internal(route)) {
            continue;
        }
        const json_t *operation = operation_of(route);

        CHECK_THAT(json_is_false(json_object_get(operation, "x-atoll-cors")) ==
                       !!(route->flags & NO_CORS),
                   "%s %s: x-atoll-cors", route->method, route->path);
        CHECK_THAT(json_is_true(json_object_get(operation, "x-atoll-no-store")) ==
                       !!(route->flags & NO_STORE),
                   "%s %s: x-atoll-no-store", route->method, route->path);
        const json_t *read_only = json_object_get(operation, "x-atoll-read-only");
        CHECK_THAT(json_is_true(read_only) == !!(route->flags & READS) &&
                       json_is_false(read_only) == !!(route->flags & WRITES),
                   "%s %s: x-atoll-read-only", route->method, route->path);
        CHECK_THAT(json_is_true(json_object_get(operation, "x-atoll-streams")) == !!route->stream,
                   "%s %s: x-atoll-streams", route->method, route->path);
    }
}

/* ---- the document itself ---- */

static const json_t *found(const char *pointer)
{
    struct str rest = str_skip(str_of(pointer), strlen("#/")), part;
    const json_t *at = document;
    char name[NAME_BYTES];

    while (at && str_split(&rest, '/', &part)) {
        at = str_copy(name, sizeof(name), part) ? json_object_get(at, name) : NULL;
    }
    return at;
}

static void refs_check(const json_t *value)
{
    const char *ref = json_string_of(value, "$ref");
    size_t i;
    json_t *one;

    CHECK_THAT(!ref || found(ref), "%s leads nowhere", ref);
    json_each (value, it) {
        refs_check(json_object_iter_value(it));
    }
    json_array_foreach (value, i, one) {
        refs_check(one);
    }
}

static void every_reference_leads_somewhere(void)
{
    refs_check(document);
}

static void every_operation_is_named_once_and_summarized(void)
{
    scoped_json *seen = json_object();

    json_each (json_object_get(document, "paths"), path) {
        json_each (json_object_iter_value(path), method) {
            const json_t *operation = json_object_iter_value(method);
            const char *id = json_string_of(operation, "operationId");

            CHECK(id && !json_object_get(seen, id));
            CHECK(json_string_of(operation, "summary"));
            CHECK(json_object_size(json_object_get(operation, "responses")) > 0);
            (void)json_object_set_new(seen, id, json_true());
        }
    }
}

int main(void)
{
    static const struct check_test tests[] = {
        {"every route is described", every_route_is_described},
        {"every description has a route", every_description_has_a_route},
        {"who may call is the same", access_is_the_same},
        {"bodies and their limits are the same", bodies_are_the_same},
        {"pages, caches and streams are the same", flags_are_the_same},
        {"every reference leads somewhere", every_reference_leads_somewhere},
        {"every operation is named once and summarized",
         every_operation_is_named_once_and_summarized},
    };

    document = json_loads(api_openapi_json, 0, NULL);
    if (!document) {
        printf("Bail out! the document is no JSON\n");
        return 1;
    }
    int failed = check_run(tests, sizeof(tests) / sizeof(tests[0]));
    json_decref(document);
    return failed;
}
