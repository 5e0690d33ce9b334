/* Which rule a name has, and what comes out of a value with placeholders. */
#include <errno.h>

#include "check.h"
#include "serve/egress/transform.h"

static struct transforms *read_rules(const char *rules)
{
    json_t *json = json_loads(rules, 0, NULL);
    json_t *options = json_pack("{s:{s:o}}", "network", "rules", json);
    struct transforms *all = transforms_new(options);

    json_decref(options);
    return all;
}

#define RULE(value) "[{\"transform\":{\"headers\":{\"x\":\"" value "\"}}}]"

static void the_closest_rule_is_the_one(void)
{
    static const struct {
        const char *name, *value; /* NULL: none */
    } rows[] = {
        {"a.test", "exact"},
        {"A.TEST", "exact"},
        {"a.test.", "exact"},
        {"b.test", "any"},
        {"c.b.test", "deeper"},
        {"d.c.b.test", "deeper"},
        {"test", NULL},
        {".test", NULL},
        {"b.test.evil", NULL},
        {"xb.test", "any"},
        {"empty.test", NULL},
        {"bare.test", NULL},
        {"", NULL},
        {".", NULL},
        {"none.test.", "any"},
        {"null.test", NULL},
    };
    struct transforms *all = read_rules("{\"a.test\":" RULE("exact") ",\"*.test\":" RULE(
        "any") ",\"*.b.test\":" RULE("deeper") ",\"empty.test\":[],\"bare.test\":[{}],\"null."
                                               "test\":[{\"transform\":null}]}");

    for (size_t i = 0; i < countof(rows); i++) {
        const struct transform *rule = transforms_find(all, str_of(rows[i].name));
        CHECK_STR(rule ? rule->headers[0].value : "(none)",
                  rows[i].value ? rows[i].value : "(none)");
    }
    CHECK(transforms_any(all));
    transforms_free(all);
}

static void what_is_no_rule_is_none(void)
{
    static const char *const none[] = {
        "{}",
        "[]",
        "null",
        "3",
        "{\"a\":3}",
        "{\"a\":[3]}",
        "{\"a\":[{\"transform\":3}]}",
        "{\"a\":[{\"transform\":{\"headers\":[]}}]}",
        "{\"a\":[{\"transform\":{\"headers\":{\"x\":3}}}]}",
    };

    for (size_t i = 0; i < countof(none); i++) {
        json_t *json = json_loads(none[i], JSON_DECODE_ANY, NULL);
        json_t *options = json_pack("{s:{s:o}}", "network", "rules", json);
        struct transforms *all = transforms_new(options);
        CHECK(!transforms_any(all));
        CHECK(!transforms_find(all, STR("a")));
        transforms_free(all);
        json_decref(options);
    }
}

/* "one" is "1", "long" does not fit, "lines" has an end of line; others are unknown. */
static int fill(void *ctx, struct str what, struct buf *out, struct err *err)
{
    (void)ctx;
    if (str_eq(what, STR("e2b.secrets.one"))) {
        return buf_append(out, "1", 1);
    }
    if (str_eq(what, STR("e2b.identity.tokens.a.b"))) {
        return buf_append(out, "token", 5);
    }
    if (str_eq(what, STR("e2b.secrets.lines"))) {
        return buf_append(out, "a\r\nx-evil: 1", 12);
    }
    return err_set(err, ENOENT, "unknown %.*s", (int)what.len, what.at);
}

static void placeholders_are_filled_and_other_text_stays(void)
{
    static const struct {
        const char *value, *comes;
        int error;
    } rows[] = {
        {"plain", "plain", 0},
        {"", "", 0},
        {"Bearer ${e2b.secrets.one}", "Bearer 1", 0},
        {"${e2b.secrets.one}${e2b.secrets.one}", "11", 0},
        {"<${e2b.identity.tokens.a.b}>", "<token>", 0},
        {"$5 ${HOME} ${e2b.other.x} {}", "$5 ${HOME} ${e2b.other.x} {}", 0},
        {"${e2b.secrets.one", "${e2b.secrets.one", 0},
        {"$${e2b.secrets.one}}", "$1}", 0},
        {"${e2b.secrets.two}", "", -ENOENT},
        {"${e2b.secrets.}", "", -ENOENT},
        {"${e2b.secrets.lines}", "", -EINVAL},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        char name[] = "x", value[128];
        const struct transform_header header = {.name = name, .value = value};
        struct err err;
        scoped_buf(out, 256);

        (void)snprintf(value, sizeof(value), "%s", rows[i].value);
        CHECK_INT(transform_value(&header, fill, NULL, &out, &err), rows[i].error);
        CHECK(rows[i].error < 0 || str_eq(buf_str(&out), str_of(rows[i].comes)));
    }
}

static void what_is_too_long_is_refused(void)
{
    char name[] = "x", value[] = "0123456789";
    const struct transform_header header = {.name = name, .value = value};
    struct err err;
    scoped_buf(out, 8);

    CHECK_INT(transform_value(&header, fill, NULL, &out, &err), -ENOBUFS);
}

static void a_rule_knows_its_headers(void)
{
    struct transforms *all =
        read_rules("{\"a.test\":[{\"transform\":{\"headers\":{"
                   "\"Authorization\":\"${e2b.secrets.one}\",\"x\":\"y\"}}}]}");
    const struct transform *rule = transforms_find(all, STR("a.test"));

    CHECK(rule);
    CHECK(transform_sets(rule, STR("authorization")));
    CHECK(!transform_sets(rule, STR("cookie")));
    CHECK(transform_fills(rule));
    transforms_free(all);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"the closest rule is the one", the_closest_rule_is_the_one},
        {"what is no rule is none", what_is_no_rule_is_none},
        {"placeholders are filled and other text stays",
         placeholders_are_filled_and_other_text_stays},
        {"what is too long is refused", what_is_too_long_is_refused},
        {"a rule knows its headers", a_rule_knows_its_headers},
    };
    return check_run(tests, countof(tests));
}
