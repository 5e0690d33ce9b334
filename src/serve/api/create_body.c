#include "serve/api/create_body.h"

#include <errno.h>
#include <string.h>

#include "serve/api/fields.h"
#include "serve/api/network.h"
#include "serve/sandbox/sandbox.h"

int timeout_field(const json_t *body, const char *name, int64_t timeout_s_max, int64_t *seconds,
                  struct err *err)
{
    int r = field_int(body, name, (struct int_range){INT64_MIN, INT64_MAX}, seconds, err);

    if (r == 0 && json_integer_value(json_object_get(body, name)) < 0) {
        r = err_set(err, EINVAL, "validation error: %s must be between 0 and %lld", name,
                    (long long)timeout_s_max);
    } else if (r == 0 && *seconds > timeout_s_max) {
        r = err_set(err, EINVAL, "Timeout cannot be greater than %lld hours",
                    (long long)timeout_s_max / 3600);
    }
    return r;
}

static int timeout_parse(const json_t *body, enum create_version version, int64_t timeout_s_max,
                         struct create_body *out, struct err *err)
{
    int64_t seconds =
        version == CREATE_V1 ? SANDBOX_TIMEOUT_S_DEFAULT : CREATE_V2_TIMEOUT_S_DEFAULT;
    int r = timeout_field(body, "timeout", timeout_s_max, &seconds, err);

    if (r == 0 && seconds == 0) {
        r = err_set(err, EINVAL, "Timeout must be greater than 0");
    }
    if (r < 0) {
        return r;
    }
    out->timeout_ms = seconds * 1000;
    (void)json_object_set_new(out->options, "timeout", json_integer(seconds));
    return 0;
}

static int env_check(const json_t *env, struct err *err)
{
    json_each (env, it) {
        const char *name = json_object_iter_key(it);

        if (!name[0] || strchr(name, '=')) {
            return err_set(err, EINVAL, "validation error: envVars: '%s' cannot name a variable",
                           name);
        }
    }
    return 0;
}

static int texts_parse(const json_t *body, struct create_body *out, struct err *err)
{
    int r = field_string(body, "templateID", &out->template_name, err);

    if (r == 0 && !out->template_name) {
        r = err_set(err, EINVAL, "validation error: templateID is required");
    }
    if (r == 0) {
        r = field_string_map(body, "metadata", CREATE_METADATA_ENTRIES_MAX,
                             CREATE_METADATA_BYTES_MAX, &out->metadata, err);
    }
    if (r == 0) {
        r = field_string_map(body, "envVars", CREATE_ENV_ENTRIES_MAX, CREATE_ENV_BYTES_MAX,
                             &out->env_vars, err);
    }
    return r == 0 ? env_check(out->env_vars, err) : r;
}

/* Parses what happens when the time is up, and what may wake the sandbox afterwards. */
static int lifecycle_parse(const json_t *body, json_t *options, struct err *err)
{
    bool pause = false, memory = true, resume = false;
    const json_t *auto_resume = NULL;
    int r = field_bool(body, "autoPause", &pause, err);

    if (r == 0) {
        r = field_bool(body, "autoPauseMemory", &memory, err);
    }
    if (r == 0) {
        r = field_object(body, "autoResume", &auto_resume, err);
    }
    if (r == 0 && auto_resume) {
        r = field_bool(auto_resume, "enabled", &resume, err);
    }
    if (r == 0 && !memory && !pause) {
        r = err_set(err, EINVAL, "autoPauseMemory=false only applies when autoPause is true.");
    }
    if (r == 0 && !memory && resume) {
        r = err_set(err, EINVAL,
                    "autoPauseMemory=false (filesystem-only auto-pause) cannot be combined with"
                    " autoResume: traffic cannot wake a sandbox that has no saved memory.");
    }
    (void)json_object_set_new(options, "autoPause", json_boolean(pause));
    (void)json_object_set_new(options, "autoPauseMemory", json_boolean(memory));
    (void)json_object_set_new(options, "autoResume", json_boolean(resume));
    return r;
}

static int internet_parse(const json_t *body, struct create_body *out, struct err *err)
{
    const json_t *given = NULL;
    json_t *network = NULL;
    bool allowed = true;
    int r = field_bool(body, "allow_internet_access", &allowed, err);

    if (r == 0) {
        r = field_object(body, "network", &given, err);
    }
    if (r == 0 && given) {
        r = network_parse(given, &network, err);
    }
    if (r < 0) {
        return r;
    }
    if (json_is_boolean(json_object_get(body, "allow_internet_access"))) {
        (void)json_object_set_new(out->options, "allowInternetAccess", json_boolean(allowed));
    }
    if (network) {
        (void)json_object_set_new(out->options, "network", network);
    }
    if (!network_is_public(network) && !out->secure) {
        return err_set(err, EINVAL,
                       "You cannot create a sandbox without public access unless you enable secure"
                       " envd access via 'secure' flag.");
    }
    return 0;
}

static int iam_token_check(const char *name, const json_t *token, struct err *err)
{
    const char *audience = NULL, *type = NULL;
    bool named = name[0] && !strpbrk(name, "{}\r\n");
    int r = json_is_object(token) && named ? 0 : field_refuse(err, "iam.tokens", "named objects");

    if (r == 0) {
        r = field_string(token, "audience", &audience, err);
    }
    if (r == 0) {
        r = field_string(token, "tokenType", &type, err);
    }
    if (r == 0 && (!audience || !audience[0])) {
        r = err_set(err, EINVAL, "iam.tokens.%s.audience: audience is required", name);
    }
    if (r == 0 && (!type || strcmp(type, "JWT-SVID") != 0)) {
        r = err_set(err, EINVAL, "iam.tokens.%s.tokenType: only \"JWT-SVID\" is supported", name);
    }
    return r;
}

static int iam_parse(const json_t *body, json_t *options, struct err *err)
{
    const json_t *iam = NULL, *tokens = NULL;
    int r = field_object(body, "iam", &iam, err);

    if (r == 0 && iam) {
        r = field_object(iam, "tokens", &tokens, err);
    }
    if (r < 0 || json_object_size(tokens) == 0) {
        return r;
    }
    if (json_object_size(tokens) > CREATE_IAM_TOKENS_MAX) {
        return err_set(err, EINVAL, "iam.tokens: too many tokens: %zu (max %d)",
                       json_object_size(tokens), CREATE_IAM_TOKENS_MAX);
    }
    json_each (tokens, it) {
        r = iam_token_check(json_object_iter_key(it), json_object_iter_value(it), err);
        if (r < 0) {
            return r;
        }
    }
    (void)json_object_set_new(options, "iam", json_deep_copy(iam));
    return 0;
}

static int mount_parse(const json_t *mount, json_t *out, struct err *err)
{
    const char *name = NULL, *path = NULL;
    int r = json_is_object(mount) ? field_string(mount, "name", &name, err)
                                  : field_refuse(err, "volumeMounts", "an array of objects");

    if (r == 0) {
        r = field_string(mount, "path", &path, err);
    }
    if (r == 0 && (!name || !path)) {
        r = field_refuse(err, "volumeMounts", "objects with name and path");
    }
    if (r == 0) {
        (void)json_array_append_new(out, json_pack("{ssss}", "name", name, "path", path));
    }
    return r;
}

/* Whether these volumes exist, and whether they can be mounted there, is checked later. */
static int mounts_parse(const json_t *mounts, json_t *options, struct err *err)
{
    json_t *out = json_array();
    int r = 0;

    if (json_array_size(mounts) > KEEPER_VOLUMES_MAX) {
        r = err_set(err, EINVAL,
                    "validation error: volumeMounts has %zu entries, at most %d may be",
                    json_array_size(mounts), KEEPER_VOLUMES_MAX);
    }
    for (size_t i = 0; r == 0 && i < json_array_size(mounts); i++) {
        r = mount_parse(json_array_get(mounts, i), out, err);
    }
    (void)json_object_set_new(options, "volumeMounts", out);
    return r;
}

static int extras_parse(const json_t *body, struct create_body *out, struct err *err)
{
    const json_t *mcp = NULL, *mounts = NULL, *shells = NULL;
    int r = field_object(body, "mcp", &mcp, err);

    if (r == 0 && mcp) {
        (void)json_object_set_new(out->options, "mcp", json_deep_copy(mcp));
    }
    if (r == 0) {
        r = field_array(body, "volumeMounts", &mounts, err);
    }
    if (r == 0 && mounts) {
        r = mounts_parse(mounts, out->options, err);
    }
    if (r == 0) {
        r = field_array(body, "shells", &shells, err);
    }
    if (r == 0 && json_array_size(shells) > 0) { /* whether these exist is checked later */
        (void)json_object_set_new(out->options, "shells", json_deep_copy(shells));
    }
    return r == 0 ? iam_parse(body, out->options, err) : r;
}

int create_body_parse(const json_t *body, enum create_version version, int64_t timeout_s_max,
                      struct create_body *out, struct err *err)
{
    scoped_create_body create = {.secure = version == CREATE_V2, .options = json_object()};
    int r = version == CREATE_V1 ? field_bool(body, "secure", &create.secure, err) : 0;

    if (r == 0) {
        r = texts_parse(body, &create, err);
    }
    if (r == 0) {
        r = timeout_parse(body, version, timeout_s_max, &create, err);
    }
    if (r == 0) {
        r = lifecycle_parse(body, create.options, err);
    }
    if (r == 0) {
        r = internet_parse(body, &create, err);
    }
    if (r == 0) {
        r = extras_parse(body, &create, err);
    }
    if (r == 0) {
        *out = create;
        create.options = NULL;
    }
    return r;
}

void create_body_fini(struct create_body *create)
{
    json_decref(create->options);
    create->options = NULL;
}
