/* The MCP gateway's parts that need no server: configurations, the catalogue, names, messages. */
#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "inside/gateway/catalogue.h"
#include "inside/gateway/message.h"
#include "inside/gateway/names.h"
#include "inside/gateway/plan.h"

static const char *shipped; /* the catalogue that templates get */

static const char own[] =
    "{\"redis\": {\"pypi\": \"redis-mcp-server==1.0\", \"prefix\": \"re-dis\","
    " \"fields\": {\"host\": \"string\", \"port\": \"integer?\","
    "              \"ssl\": \"boolean?\", \"paths\": \"strings?\"},"
    " \"args\": [\"--host={host}\", [\"--port\", \"{port}\"], \"{paths}\"],"
    " \"env\": {\"SSL\": \"{ssl}\", \"URL\": \"r://{host}:{port}/\","
    "         \"MODE\": \"{x\", \"ALL\": \"{paths}\"}}}";

/* Compares as JSON, whatever the order of members. */
#define CHECK_JSON(value, text)                                                                    \
    do {                                                                                           \
        json_auto_t *want_ = json_loads((text), 0, NULL);                                          \
        char *shown_ = json_dumps((value), JSON_SORT_KEYS);                                        \
        bool same_ = json_equal((value), want_);                                                   \
        if (!same_) {                                                                              \
            printf("# %s\n", shown_ ? shown_ : "nothing");                                         \
        }                                                                                          \
        free(shown_);                                                                              \
        CHECK_THAT(same_, "it is not %s", (text));                                                 \
    } while (0)

static struct catalogue catalogue_of(const char *text)
{
    return (struct catalogue){.servers = json_loads(text, JSON_REJECT_DUPLICATES, NULL)};
}

/* ---- the catalogue ---- */

static void fields_are_filled_in(void)
{
    scoped_catalogue catalogue = catalogue_of(own);
    scoped_plans plans = {.n = 0};
    struct err err;

    CHECK(plans_read(STR("{\"redis\": {\"host\": \"h\", \"port\": 7, \"ssl\": true,"
                         " \"paths\": [\"/a\", \"/b\"]}}"),
                     &catalogue, &plans, &err) == 0);
    CHECK_JSON(plans.all[0].args, "[\"--host=h\", \"--port\", \"7\", \"/a\", \"/b\"]");
    CHECK_JSON(plans.all[0].env, "{\"SSL\": \"true\", \"URL\": \"r://h:7/\", \"MODE\": \"{x\","
                                 " \"ALL\": \"/a,/b\"}");
    CHECK(strcmp(plans.all[0].prefix, "re-dis") == 0);
    CHECK(plans.all[0].kind == PLAN_PYPI);
}

static void what_names_an_absent_field_is_left_out(void)
{
    scoped_catalogue catalogue = catalogue_of(own);
    scoped_plans plans = {.n = 0};
    struct err err;

    CHECK(plans_read(STR("{\"redis\": {\"host\": \"h\", \"paths\": [], \"port\": null}}"),
                     &catalogue, &plans, &err) == 0);
    CHECK_JSON(plans.all[0].args, "[\"--host=h\"]");
    CHECK_JSON(plans.all[0].env, "{\"MODE\": \"{x\"}");
}

static void fields_are_checked(void)
{
    static const struct {
        const char *config;
        const char *sentence;
    } cases[] = {
        {"{\"redis\": {}}", "redis.host is needed"},
        {"{\"redis\": {\"host\": \"\"}}", "redis.host is needed"},
        {"{\"redis\": {\"host\": 1}}", "redis.host must be a string"},
        {"{\"redis\": {\"host\": \"h\", \"port\": \"7\"}}", "redis.port must be an integer"},
        {"{\"redis\": {\"host\": \"h\", \"ssl\": 1}}", "redis.ssl must be true or false"},
        {"{\"redis\": {\"host\": \"h\", \"paths\": [1]}}",
         "redis.paths must be an array of strings"},
        {"{\"redis\": {\"host\": \"h\", \"hots\": \"h\"}}",
         "redis has no field hots, but: host port ssl paths"},
        {"{\"redis\":{\"npm\":\"mine\"}}", "redis is a name of the catalogue and takes no npm: "
                                           "give a server of your own another name"},
    };
    scoped_catalogue catalogue = catalogue_of(own);

    for (size_t i = 0; i < countof(cases); i++) {
        struct plans plans;
        struct err err;
        CHECK(plans_read(str_of(cases[i].config), &catalogue, &plans, &err) == -EINVAL);
        CHECK_THAT(strcmp(err.msg, cases[i].sentence) == 0, "%s", err.msg);
    }
}

/* Every place in arguments and variables is a field, every field has a type, none is without use
 * but those that the SDK's types ask for and the package has no use for. */
static bool place_is_field(const char *text, const json_t *fields)
{
    for (const char *at = strchr(text, '{'); at; at = strchr(at + 1, '{')) {
        char name[64];
        size_t len = strcspn(at + 1, "}");
        if (!str_copy(name, sizeof(name), (struct str){at + 1, len}) ||
            !json_object_get(fields, name)) {
            printf("# %s\n", text);
            return false;
        }
    }
    return true;
}

static bool arg_is_sound(const json_t *arg, const json_t *fields)
{
    const json_t *word;
    size_t i;

    json_array_foreach (arg, i, word) {
        if (!arg_is_sound(word, fields)) {
            return false;
        }
    }
    return json_is_array(arg) ||
           (json_is_string(arg) && place_is_field(json_string_value(arg), fields));
}

static bool entry_is_sound(json_t *entry)
{
    static const char *const types[] = {"string", "strings", "integer", "number", "boolean"};
    json_t *fields = json_object_get(entry, "fields"), *env = json_object_get(entry, "env");
    json_t *value;
    const char *name;

    json_object_foreach (fields, name, value) {
        struct str type = str_of(json_string_value(value));
        bool known = false;
        type.len -= str_ends(type, STR("?"));
        for (size_t i = 0; i < countof(types); i++) {
            known = known || str_eq(type, str_of(types[i]));
        }
        if (!known) {
            return false;
        }
    }
    json_object_foreach (env, name, value) {
        if (!json_is_string(value) || !place_is_field(json_string_value(value), fields)) {
            return false;
        }
    }
    json_t *args = json_object_get(entry, "args");
    return (!args || arg_is_sound(args, fields)) && json_is_string(json_object_get(entry, "about"));
}

static void the_shipped_catalogue_is_sound(void)
{
    scoped_catalogue catalogue = {.servers = NULL};
    struct err err;
    json_t *entry;
    const char *name;

    CHECK(catalogue_read(shipped, &catalogue, &err) == 0);
    CHECK(json_object_size(catalogue.servers) >= 265);
    json_object_foreach (catalogue.servers, name, entry) {
        int sources = !!json_object_get(entry, "npm") + !!json_object_get(entry, "pypi") +
                      !!json_object_get(entry, "repository");
        CHECK_THAT(sources == 1 && entry_is_sound(entry), "%s is not sound", name);
    }
}

/* ---- configurations ---- */

static void commands_packages_and_repositories(void)
{
    scoped_catalogue catalogue = catalogue_of(own);
    scoped_plans plans = {.n = 0};
    struct err err;

    CHECK(plans_read(STR("{\"a\": {\"command\": \"node\", \"args\": [\"{x}\"], \"envs\": {\"A\": "
                         "\"b\"}},"
                         " \"b\": {\"npm\": \"@s/p@1.2\"}, \"c\": {\"pypi\": \"p[x]>=2\", \"run\": "
                         "\"q\", \"with\": \"r<2\"},"
                         " \"github/o/r\": {\"run_cmd\": \"x\", \"install_cmd\": \"y\"}}"),
                     &catalogue, &plans, &err) == 0);
    CHECK(plans.n == 4);
    CHECK(plans.all[0].kind == PLAN_COMMAND && strcmp(plans.all[0].program, "node") == 0);
    CHECK_JSON(plans.all[0].args, "[\"{x}\"]");
    CHECK(plans.all[1].kind == PLAN_NPM && !plans.all[1].program);
    CHECK(str_eq(plan_package(&plans.all[1]), STR("@s/p")));
    CHECK(strcmp(plans.all[2].program, "q") == 0 && strcmp(plans.all[2].with, "r<2") == 0);
    CHECK(str_eq(plan_package(&plans.all[2]), STR("p")));
    CHECK(strcmp(plans.all[3].source, "https://github.com/o/r.git") == 0);
    CHECK(strcmp(plans.all[3].install, "y") == 0);
}

static void names_that_would_be_paths_are_refused(void)
{
    static const char *const names[] = {
        "",         ".",         "..",           "a/b",         "-x",
        "github/a", "github/a/", "github/a/b/c", "github/../b", "github/a/..",
        "a b",      "a\\u0000b"};
    scoped_catalogue catalogue = catalogue_of(own);

    for (size_t i = 0; i < countof(names); i++) {
        char config[128];
        struct plans plans;
        struct err err;
        (void)snprintf(config, sizeof(config), "{\"%s\": {\"command\": \"x\", \"runCmd\": \"x\"}}",
                       names[i]);
        CHECK_THAT(plans_read(str_of(config), &catalogue, &plans, &err) == -EINVAL, "%s", names[i]);
    }
}

/* ---- names ---- */

static void names_are_prefixed_and_given_back(void)
{
    json_auto_t *items = json_loads("[{\"name\": \"read-file\", \"title\": \"t\"}, {}]", 0, NULL);
    json_auto_t *out = json_array();

    names_add(out, items, "fs");
    CHECK_JSON(out, "[{\"name\": \"fs-read-file\", \"title\": \"t\"}, {\"name\": \"fs-\"}]");
    CHECK_JSON(items, "[{\"name\": \"read-file\", \"title\": \"t\"}, {}]");
    CHECK(strcmp(names_own("fs-read-file", "fs"), "read-file") == 0);
    CHECK(!names_own("fsx-read", "fs"));
    CHECK(!names_own("fs", "fs"));
    CHECK(names_has(items, "name", "read-file"));
    CHECK(!names_has(items, "name", "fs-read-file"));
    CHECK(!names_has(NULL, "name", "x"));
}

static void addresses_match_templates(void)
{
    static const struct {
        const char *pattern;
        const char *address;
        bool matches;
    } cases[] = {
        {"a://{id}", "a://7", true},
        {"a://{id}", "a://", true},
        {"a://{id}", "b://7", false},
        {"a://{id}/text", "a://7/text", true},
        {"a://{id}/text", "a://7/8/text", true},
        {"a://{id}/text", "a://7/texts", false},
        {"a://{x}/{y}.z", "a://1/2.z", true},
        {"{all}", "x", true},
        {"", "", true},
        {"", "x", false},
        {"a{", "a{", true},
        {"{a}{b}", "", true},
        {"{a}x{b}x", "yxzx", true},
        {"{a}x{b}x", "yx", false},
    };

    for (size_t i = 0; i < countof(cases); i++) {
        CHECK_THAT(names_match(cases[i].pattern, cases[i].address) == cases[i].matches, "%s %s",
                   cases[i].pattern, cases[i].address);
    }
}

/* ---- messages ---- */

/* Also when it is cut in the middle of a character. */
static void an_error_of_any_length_is_one(void)
{
    char text[4096] = "";

    for (size_t i = 0; i + 3 < sizeof(text); i += 3) {
        memcpy(text + i, "\xe2\x82\xac", 4);
    }
    for (int i = 0; i < 3; i++) {
        json_auto_t *message = message_error(NULL, JSONRPC_INTERNAL_ERROR, "%.*s%s", i, "xx", text);
        CHECK(json_is_string(json_object_get(json_object_get(message, "error"), "message")));
    }
}

static const struct check_test tests[] = {
    {"fields of the configuration are filled in", fields_are_filled_in},
    {"what names an absent field is left out", what_names_an_absent_field_is_left_out},
    {"fields are checked, with their place", fields_are_checked},
    {"the shipped catalogue is sound", the_shipped_catalogue_is_sound},
    {"commands, packages and repositories", commands_packages_and_repositories},
    {"names that would be paths are refused", names_that_would_be_paths_are_refused},
    {"names are prefixed, and given back", names_are_prefixed_and_given_back},
    {"addresses match templates", addresses_match_templates},
    {"an error of any length is one", an_error_of_any_length_is_one},
};

int main(int argc, char **argv)
{
    shipped = argc > 1 ? argv[1] : "";
    return check_run(tests, countof(tests));
}
