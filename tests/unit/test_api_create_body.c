#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "serve/api/create_body.h"
#include "serve/api/fields.h"
#include "serve/sandbox/sandbox.h"

/* The sentence that a body is refused with, or "" when it is taken. */
static const char *refusal(const char *text, enum create_version version)
{
    static struct err err;
    scoped_json *body = NULL;
    scoped_create_body create = {0};

    err = (struct err){0};
    if (body_parse(str_of(text), false, &body, &err) == 0) {
        (void)!create_body_parse(body, version, SANDBOX_TIMEOUT_S_MAX, &create, &err);
    }
    return err.code == 0 ? "" : err.msg;
}

#define REFUSED(text, sentence) CHECK_STR(refusal(text, CREATE_V1), sentence)
#define TAKEN(text) CHECK_STR(refusal(text, CREATE_V1), "")

static void defaults(void)
{
    struct err err;
    scoped_json *body = json_loads("{\"templateID\":\"base\"}", 0, NULL);
    scoped_create_body v1 = {0}, v2 = {0};

    CHECK_INT(create_body_parse(body, CREATE_V1, SANDBOX_TIMEOUT_S_MAX, &v1, &err), 0);
    CHECK_INT(v1.timeout_ms, 15000);
    CHECK(!v1.secure && !v1.metadata && !v1.env_vars);
    CHECK_STR(v1.template_name, "base");
    CHECK_INT(create_body_parse(body, CREATE_V2, SANDBOX_TIMEOUT_S_MAX, &v2, &err), 0);
    CHECK_INT(v2.timeout_ms, 300000);
    CHECK(v2.secure);
    CHECK(json_is_false(json_object_get(v2.options, "autoPause")));
    CHECK(!json_object_get(v2.options, "allowInternetAccess"));
}

static void everything(void)
{
    struct err err;
    scoped_json *body = json_loads(
        "{\"templateID\":\"t\",\"timeout\":60,\"metadata\":{\"a\":\"1\"},\"envVars\":{\"B\":\"2\"},"
        "\"secure\":true,\"allow_internet_access\":false,\"autoPause\":true,"
        "\"autoPauseMemory\":false,\"autoResume\":{\"enabled\":false},\"mcp\":{\"x\":{}},"
        "\"network\":{\"allowOut\":[\"*.example.com\",\"1.1.1.1\"],\"denyOut\":[\"0.0.0.0/0\"],"
        "\"allowPublicTraffic\":false,\"httpsPorts\":[8443],\"unknown\":1,"
        "\"rules\":{\"API.example.com\":[{\"transform\":{\"headers\":{\"X-A\":\"b\"}}}]}},"
        "\"volumeMounts\":[],\"iam\":{\"tokens\":{}},\"somethingNew\":5}",
        0, NULL);
    scoped_create_body create = {0};

    CHECK(body);
    CHECK_INT(create_body_parse(body, CREATE_V1, SANDBOX_TIMEOUT_S_MAX, &create, &err), 0);
    CHECK_INT(create.timeout_ms, 60000);
    CHECK(create.secure);
    CHECK_STR(json_string_value(json_object_get(create.metadata, "a")), "1");
    CHECK_STR(json_string_value(json_object_get(create.env_vars, "B")), "2");
    CHECK(json_is_true(json_object_get(create.options, "autoPause")));
    CHECK(json_is_false(json_object_get(create.options, "autoPauseMemory")));
    CHECK(json_is_false(json_object_get(create.options, "autoResume")));
    CHECK(json_is_false(json_object_get(create.options, "allowInternetAccess")));
    CHECK(json_object_get(create.options, "mcp"));
    const json_t *network = json_object_get(create.options, "network");
    CHECK(network && !json_object_get(network, "unknown"));
    CHECK(json_object_get(json_object_get(network, "rules"), "api.example.com"));
}

static void not_json(void)
{
    REFUSED("", "validation error: the request has no body");
    REFUSED("[]", "validation error: the body must be a JSON object");
    REFUSED(
        "\"x\"",
        "validation error: the body is not valid JSON: '[' or '{' expected near '\"x\"' (line 1)");
    CHECK(strstr(refusal("{\"templateID\":\"a\",\"templateID\":\"b\"}", CREATE_V1), "duplicate"));
    CHECK(strstr(refusal("{\"templateID\":\"a\"} x", CREATE_V1), "end of file expected"));
    CHECK(strstr(refusal("{\"templateID\":\"\xff\"}", CREATE_V1), "decode byte 0xff"));
    REFUSED("{\"templateID\":\"a\\u0000b\"}",
            "validation error: a string holds a NUL character (line 1)");
    CHECK(strstr(refusal("{\"timeout\":99999999999999999999}", CREATE_V1), "too big integer"));
    CHECK(strstr(refusal("{\"a\":", CREATE_V1), "not valid JSON"));
}

static void deep_nesting(void)
{
    enum { DEPTH = 100000 };
    char *text = malloc(DEPTH + 1);

    CHECK(text);
    memset(text, '[', DEPTH);
    text[DEPTH] = '\0';
    const char *why = refusal(text, CREATE_V1);
    free(text);
    CHECK(strstr(why, "depth"));
}

static void types(void)
{
    REFUSED("{}", "validation error: templateID is required");
    REFUSED("{\"templateID\":5}", "validation error: templateID must be a string");
    REFUSED("{\"templateID\":\"b\",\"timeout\":\"5\"}",
            "validation error: timeout must be an integer");
    REFUSED("{\"templateID\":\"b\",\"timeout\":1.5}",
            "validation error: timeout must be an integer");
    REFUSED("{\"templateID\":\"b\",\"secure\":1}",
            "validation error: secure must be true or false");
    REFUSED("{\"templateID\":\"b\",\"metadata\":[]}",
            "validation error: metadata must be an object");
    REFUSED("{\"templateID\":\"b\",\"metadata\":{\"a\":1}}",
            "validation error: metadata.a must be a string");
    REFUSED("{\"templateID\":\"b\",\"envVars\":{\"a\":null}}",
            "validation error: envVars.a must be a string");
    REFUSED("{\"templateID\":\"b\",\"envVars\":{\"a=b\":\"\"}}",
            "validation error: envVars: 'a=b' cannot name a variable");
    REFUSED("{\"templateID\":\"b\",\"envVars\":{\"\":\"\"}}",
            "validation error: envVars: '' cannot name a variable");
    REFUSED("{\"templateID\":\"b\",\"autoResume\":true}",
            "validation error: autoResume must be an object");
    TAKEN("{\"templateID\":\"b\",\"mcp\":null,\"network\":null}");
}

static void timeouts(void)
{
    REFUSED("{\"templateID\":\"b\",\"timeout\":0}", "Timeout must be greater than 0");
    REFUSED("{\"templateID\":\"b\",\"timeout\":-1}",
            "validation error: timeout must be between 0 and 86400");
    REFUSED("{\"templateID\":\"b\",\"timeout\":4294967296}",
            "Timeout cannot be greater than 24 hours");
    REFUSED("{\"templateID\":\"b\",\"timeout\":86401}", "Timeout cannot be greater than 24 hours");
    TAKEN("{\"templateID\":\"b\",\"timeout\":86400}");
    TAKEN("{\"templateID\":\"b\",\"timeout\":1}");
}

static char *large(const char *field, int entries, int value_len)
{
    size_t size = (size_t)entries * ((size_t)value_len + 32) + 64;
    char *text = malloc(size);

    if (!text) {
        abort();
    }
    size_t n = (size_t)snprintf(text, size, "{\"templateID\":\"b\",\"%s\":{", field);
    for (int i = 0; i < entries; i++) {
        n += (size_t)snprintf(text + n, size - n, "%s\"k%d\":\"", i ? "," : "", i);
        memset(text + n, 'x', (size_t)value_len);
        n += (size_t)value_len;
        text[n++] = '"';
    }
    (void)snprintf(text + n, size - n, "}}");
    return text;
}

static void limits(void)
{
    char *entries = large("metadata", CREATE_METADATA_ENTRIES_MAX + 1, 1);
    char *bytes = large("metadata", 1, CREATE_METADATA_BYTES_MAX);
    char *fits = large("metadata", CREATE_METADATA_ENTRIES_MAX, 200);
    char *env = large("envVars", 2, CREATE_ENV_BYTES_MAX / 2);

    CHECK_STR(refusal(entries, CREATE_V1),
              "validation error: metadata has 257 entries, at most 256 may be");
    CHECK_STR(refusal(bytes, CREATE_V1),
              "validation error: metadata has 65538 bytes, at most 65536 may be");
    CHECK_STR(refusal(fits, CREATE_V1), "");
    CHECK(strstr(refusal(env, CREATE_V1), "envVars has"));
    free(entries);
    free(bytes);
    free(fits);
    free(env);
}

static void combinations(void)
{
    REFUSED("{\"templateID\":\"b\",\"autoPauseMemory\":false}",
            "autoPauseMemory=false only applies when autoPause is true.");
    CHECK(strstr(refusal("{\"templateID\":\"b\",\"autoPause\":true,\"autoPauseMemory\":false,"
                         "\"autoResume\":{\"enabled\":true}}",
                         CREATE_V1),
                 "cannot be combined with autoResume"));
    const char *closed = "{\"templateID\":\"b\",\"network\":{\"allowPublicTraffic\":false}}";
    CHECK(strstr(refusal(closed, CREATE_V1), "without public access"));
    CHECK_STR(refusal(closed, CREATE_V2), "");
    REFUSED("{\"templateID\":\"b\",\"volumeMounts\":[7]}",
            "validation error: volumeMounts must be an array of objects");
    REFUSED("{\"templateID\":\"b\",\"volumeMounts\":[{\"name\":\"v\"}]}",
            "validation error: volumeMounts must be objects with name and path");
    TAKEN("{\"templateID\":\"b\",\"volumeMounts\":[{\"name\":\"v\",\"path\":\"/v\"}]}");
    TAKEN("{\"templateID\":\"b\",\"volumeMounts\":[]}");
    TAKEN("{\"templateID\":\"b\",\"iam\":{\"tokens\":{\"a\":{\"audience\":\"x\","
          "\"tokenType\":\"JWT-SVID\"}}}}");
    REFUSED("{\"templateID\":\"b\",\"iam\":{\"tokens\":{\"a}\":{\"audience\":\"x\","
            "\"tokenType\":\"JWT-SVID\"}}}}",
            "validation error: iam.tokens must be named objects");
    REFUSED("{\"templateID\":\"b\",\"network\":{\"rules\":{\"a.test\":[{\"transform\":{"
            "\"headers\":{\"Host\":\"x\"}}}]}}}",
            "Header \"Host\" in rule for domain \"a.test\" cannot be set by a rule.");
    REFUSED("{\"templateID\":\"b\",\"network\":{\"rules\":{\"a.test\":[{\"transform\":{"
            "\"headers\":{\"x\":\"a\\r\\ny: b\"}}}]}}}",
            "Value for header \"x\" in rule for domain \"a.test\" must be at most 2048 valid"
            " characters.");
    REFUSED("{\"templateID\":\"b\",\"iam\":{\"tokens\":{\"a\":{},\"b\":{},\"c\":{},\"d\":{},"
            "\"e\":{},\"f\":{}}}}",
            "iam.tokens: too many tokens: 6 (max 5)");
    REFUSED("{\"templateID\":\"b\",\"iam\":{\"tokens\":{\"a\":{\"audience\":\"x\","
            "\"tokenType\":\"X\"}}}}",
            "iam.tokens.a.tokenType: only \"JWT-SVID\" is supported");
}

#define NET(network) "{\"templateID\":\"b\",\"network\":{" network "}}"

static void networks(void)
{
    TAKEN(NET("\"denyOut\":[\"10.0.0.0/8\",\"8.8.8.8\",\"::/0\"],\"allowOut\":[\"1.1.1.1/32\"]"));
    REFUSED(NET("\"denyOut\":[\"example.com\"]"), "invalid denied CIDR example.com");
    REFUSED(NET("\"denyOut\":[\"10.0.0.0/33\"]"), "invalid denied CIDR 10.0.0.0/33");
    REFUSED(NET("\"denyOut\":[\"10.0.0.0/\"]"), "invalid denied CIDR 10.0.0.0/");
    REFUSED(NET("\"denyOut\":[\"0.0.0.0\"]"), "invalid denied CIDR 0.0.0.0");
    REFUSED(NET("\"denyOut\":[1]"), "validation error: network.denyOut[0] must be a string");
    CHECK(strstr(refusal(NET("\"allowOut\":[\"example.com\"]"), CREATE_V1), "ALL_TRAFFIC"));
    REFUSED(NET("\"allowOut\":[\"exa mple\"],\"denyOut\":[\"0.0.0.0/0\"]"),
            "invalid allowed address exa mple");
    REFUSED(NET("\"httpsPorts\":[49983]"), "network.httpsPorts: port 49983 cannot be listed");
    REFUSED(NET("\"httpsPorts\":[70000]"),
            "validation error: network.httpsPorts[0] must be a port number");
    REFUSED(NET("\"dnsServers\":[\"::1\"]"),
            "validation error: network.dnsServers: ::1 is no IPv4 address");
    REFUSED(NET("\"egressProxy\":{}"),
            "validation error: network.egressProxy.address must be given");
    TAKEN(NET("\"egressProxy\":null,\"allowPublicTraffic\":null"));
    REFUSED(NET("\"maskRequestHost\":\"a b\""), "mask request host is not valid: a b");
    TAKEN(NET("\"maskRequestHost\":\"localhost:${PORT}\""));
    REFUSED(NET("\"rules\":{\"*\":[]}"), "Rule domain \"*\" is not a valid domain name.");
    TAKEN(NET("\"rules\":{\"*.example.com\":[]}"));
    CHECK(strstr(refusal(NET("\"rules\":{\"a.b\":[{\"transform\":{\"headers\":{\"a b\":\"\"}}}]}"),
                         CREATE_V1),
                 "token characters"));
    CHECK(strstr(refusal(NET("\"rules\":{\"a.b\":[{\"transform\":{\"headers\":"
                             "{\"a\":\"x\\r\\nb: c\"}}}]}"),
                         CREATE_V1),
                 "valid characters"));
    REFUSED(NET("\"rules\":{\"a.b\":[{},{}]}"),
            "Domain \"a.b\" can have at most 1 transform rule.");
}

int main(void)
{
    static const struct check_test tests[] = {
        {"what a body leaves out", defaults},
        {"a body with everything", everything},
        {"bodies that are not one JSON object", not_json},
        {"nesting has an end", deep_nesting},
        {"wrong types are named", types},
        {"timeouts", timeouts},
        {"metadata and variables have limits", limits},
        {"combinations that are refused", combinations},
        {"networks", networks},
    };

    return check_run(tests, countof(tests));
}
