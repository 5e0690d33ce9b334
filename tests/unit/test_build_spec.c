#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "serve/template/build/spec.h"

/* ---- what a client may ask for ---- */

static int parse(const char *text, struct spec **out, struct err *err)
{
    json_t *body = json_loads(text, 0, NULL);
    int r = spec_parse(body, out, err);

    json_decref(body);
    return r;
}

static void a_whole_spec_is_read(void)
{
    struct spec *spec = NULL;
    struct err err;

    CHECK_INT(parse("{\"fromImage\":\"ubuntu:22.04\",\"force\":true,\"startCmd\":\"serve\","
                    "\"readyCmd\":\"\",\"extra\":1,\"steps\":["
                    "{\"type\":\"run\",\"args\":[\"make\",\"root\"],\"force\":true},"
                    "{\"type\":\"ADD\",\"args\":[\"a\",\"b\"],\"filesHash\":\"ff\"},"
                    "{\"type\":\"ONBUILD\"}]}",
                    &spec, &err),
              0);
    CHECK_STR(spec->from_image, "ubuntu:22.04");
    CHECK(!spec->from_template && spec->force && !spec->ready_cmd);
    CHECK_STR(spec->start_cmd, "serve");
    CHECK_INT(spec->steps_n, 3);
    CHECK_INT(spec->steps[0].kind, STEP_RUN);
    CHECK(spec->steps[0].force && !spec->steps[1].force);
    CHECK_STR(step_arg(&spec->steps[0], 1), "root");
    CHECK_STR(step_arg(&spec->steps[0], 2), "");
    CHECK_INT(spec->steps[1].kind, STEP_COPY);
    CHECK_STR(spec->steps[1].files_hash, "ff");
    CHECK_INT(spec->steps[2].kind, STEP_UNKNOWN);
    spec_free(spec);
}

static void what_is_no_spec_is_refused(void)
{
    static const char *const bad[] = {
        "{}",
        "{\"fromImage\":\"\"}",
        "{\"fromImage\":\"a\",\"fromTemplate\":\"b\"}",
        "{\"fromImage\":1}",
        "{\"fromTemplate\":\"a\",\"fromImageRegistry\":\"x\"}",
        "{\"fromTemplate\":\"a\",\"steps\":{}}",
        "{\"fromTemplate\":\"a\",\"steps\":[1]}",
        "{\"fromTemplate\":\"a\",\"steps\":[{}]}",
        "{\"fromTemplate\":\"a\",\"steps\":[{\"type\":\"RUN\",\"args\":\"x\"}]}",
        "{\"fromTemplate\":\"a\",\"steps\":[{\"type\":\"RUN\",\"args\":[null]}]}",
        "{\"fromTemplate\":\"a\",\"steps\":[{\"type\":\"RUN\",\"force\":1}]}",
        "{\"fromTemplate\":\"a\",\"force\":\"true\"}",
        "{\"fromTemplate\":\"a\",\"startCmd\":[]}",
    };

    for (size_t i = 0; i < countof(bad); i++) {
        struct spec *spec = NULL;
        struct err err;
        CHECK_THAT(parse(bad[i], &spec, &err) == -EINVAL && !spec, "%s was taken", bad[i]);
    }
}

/* Checks the one step of a spec. */
static int check_step(const char *step, struct err *err)
{
    struct spec *spec = NULL;
    char text[512];

    (void)snprintf(text, sizeof(text), "{\"fromTemplate\":\"a\",\"steps\":[%s]}", step);
    int r = parse(text, &spec, err);
    if (r == 0) {
        r = step_check(&spec->steps[0], err);
    }
    spec_free(spec);
    return r;
}

static void steps_are_checked_before_anything_runs(void)
{
    static const char *const good[] = {
        "{\"type\":\"RUN\",\"args\":[\"true\"]}",
        "{\"type\":\"ENV\",\"args\":[\"A\",\"\",\"B\",\"2\"]}",
        "{\"type\":\"COPY\",\"args\":[\"a\",\"b\",\"user:staff\",\"0755\"],\"filesHash\":\"f\"}",
        "{\"type\":\"COPY\",\"args\":[\"a\",\"b\",\"\",\"\"],\"filesHash\":\"f\"}",
        "{\"type\":\"USER\",\"args\":[\"1000\"]}",
        "{\"type\":\"workdir\",\"args\":[\"x\"]}",
    };
    static const char *const bad[] = {
        "{\"type\":\"RUN\"}",
        "{\"type\":\"ENV\",\"args\":[]}",
        "{\"type\":\"ENV\",\"args\":[\"A\"]}",
        "{\"type\":\"ENV\",\"args\":[\"A=B\",\"1\"]}",
        "{\"type\":\"COPY\",\"args\":[\"a\"],\"filesHash\":\"f\"}",
        "{\"type\":\"COPY\",\"args\":[\"a\",\"b\"]}",
        "{\"type\":\"COPY\",\"args\":[\"a\",\"b\",\"x y\"],\"filesHash\":\"f\"}",
        "{\"type\":\"COPY\",\"args\":[\"a\",\"b\",\"\",\"888\"],\"filesHash\":\"f\"}",
        "{\"type\":\"USER\",\"args\":[\"-x\"]}",
        "{\"type\":\"WORKDIR\",\"args\":[\"\"]}",
        "{\"type\":\"EXPOSE\",\"args\":[\"80\"]}",
    };
    struct err err;

    for (size_t i = 0; i < countof(good); i++) {
        CHECK_THAT(check_step(good[i], &err) == 0, "%s: %s", good[i], err.msg);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(check_step(bad[i], &err) == -EINVAL, "%s was taken", bad[i]);
    }
}

/* ---- the chain ---- */

static void key_of(const char *before, const char *args, const char *files, enum step_kind kind,
                   char out[SHA256_HEX_LEN + 1])
{
    json_t *list = json_loads(args, 0, NULL);
    const struct step step = {.kind = kind, .type = "X", .args = list, .files_hash = files};

    chain_step(before, &step, out);
    json_decref(list);
}

static void a_key_follows_from_all_that_went_before(void)
{
    char a[SHA256_HEX_LEN + 1], b[SHA256_HEX_LEN + 1];
    char base[SHA256_HEX_LEN + 1], other[SHA256_HEX_LEN + 1];

    chain_begin("team", "base", base);
    chain_begin("team", "base", other);
    CHECK_STR(base, other);
    chain_begin("teamb", "ase", other);
    CHECK(strcmp(base, other) != 0);

    key_of(base, "[\"a\",\"b\"]", NULL, STEP_RUN, a);
    key_of(base, "[\"a\",\"b\"]", NULL, STEP_RUN, b);
    CHECK_STR(a, b);
    key_of(base, "[\"a b\"]", NULL, STEP_RUN, b);
    CHECK(strcmp(a, b) != 0);
    key_of(base, "[\"ab\",\"\"]", NULL, STEP_RUN, b);
    CHECK(strcmp(a, b) != 0);
    key_of(base, "[\"a\",\"b\"]", "f", STEP_RUN, b);
    CHECK(strcmp(a, b) != 0);
    key_of(base, "[\"a\",\"b\"]", NULL, STEP_COPY, b);
    CHECK(strcmp(a, b) != 0);
    key_of(other, "[\"a\",\"b\"]", NULL, STEP_RUN, b);
    CHECK(strcmp(a, b) != 0);
}

/* ---- words ---- */

static const char *expanded(const char *text, int want)
{
    static char out[256];
    json_t *env = json_pack("{ssssss}", "A", "1", "PATH", "/bin", "EMPTY", "");
    scoped_buf(buf, 200);
    struct err err;

    int r = expand(str_of(text), env, &buf, &err);
    json_decref(env);
    if (r != want) {
        (void)snprintf(out, sizeof(out), "returned %d", r);
        return out;
    }
    (void)str_copy(out, sizeof(out), buf_str(&buf));
    return r < 0 ? "refused" : out;
}

static void variables_become_their_values_and_commands_stay(void)
{
    CHECK_STR(expanded("plain", 0), "plain");
    CHECK_STR(expanded("/opt:$PATH", 0), "/opt:/bin");
    CHECK_STR(expanded("${A}b$A.c$NONE!", 0), "1b1.c!");
    CHECK_STR(expanded("${NONE:-x}${EMPTY:-y}${A:-z}", 0), "xy1");
    CHECK_STR(expanded("${A:+set}${NONE:+set}", 0), "set");
    CHECK_STR(expanded("${NONE:-${A}}", 0), "1");
    CHECK_STR(expanded("\\$A \\x $ $1 $(id) `id`", 0), "$A \\x $ $1 $(id) `id`");
    CHECK_STR(expanded("", 0), "");
    CHECK_STR(expanded("${A", -EINVAL), "refused");
    CHECK_STR(expanded("${}", -EINVAL), "refused");
    CHECK_STR(expanded("${A@Q}", -EINVAL), "refused");
}

/* The words of a request are a stranger's: a depth that fits any stack. */
static void variables_are_nested_to_a_limit(void)
{
    scoped_buf(text, SPEC_TEXT_BYTES_MAX);

    for (int depth = SPEC_NESTING_MAX; depth <= 40 * 1000; depth += 40 * 1000 - SPEC_NESTING_MAX) {
        for (int i = 0; i < depth; i++) {
            CHECK_INT(buf_append(&text, "${N:-", 5), 0);
        }
        for (int i = 0; i < depth; i++) {
            CHECK_INT(buf_append(&text, "}", 1), 0);
        }
        CHECK_INT(buf_append(&text, "", 1), 0);
        bool fits = depth == SPEC_NESTING_MAX;
        CHECK_STR(expanded(buf_at(&text), fits ? 0 : -EINVAL), fits ? "" : "refused");
        buf_fini(&text);
    }
}

static const char *source_of(const char *text)
{
    static char out[256];
    scoped_buf(buf, 200);
    struct err err;

    if (copy_source(str_of(text), &buf, &err) < 0) {
        return "refused";
    }
    (void)str_copy(out, sizeof(out), buf_str(&buf));
    return out;
}

static void a_source_is_meant_up_to_its_first_glob(void)
{
    CHECK_STR(source_of("folder/*"), "folder");
    CHECK_STR(source_of("./a/b.txt"), "a/b.txt");
    CHECK_STR(source_of("a//b/"), "a/b");
    CHECK_STR(source_of("."), ".");
    CHECK_STR(source_of("*"), ".");
    CHECK_STR(source_of("a/**/c"), "a");
    CHECK_STR(source_of("a/[bc]/d"), "a");
    CHECK_STR(source_of("../a"), "refused");
    CHECK_STR(source_of("a/../../b"), "refused");
    CHECK_STR(source_of("/etc/passwd"), "refused");
}

static const char *joined(const char *dir, const char *path)
{
    static char out[256];
    scoped_buf(buf, 200);
    struct err err;

    if (path_join(str_of(dir), str_of(path), &buf, &err) < 0) {
        return "refused";
    }
    (void)str_copy(out, sizeof(out), buf_str(&buf));
    return out;
}

static void paths_are_joined_and_cleaned(void)
{
    char longest[512] = "";

    CHECK_STR(joined("/app", "x"), "/app/x");
    CHECK_STR(joined("/app", "x/"), "/app/x/");
    CHECK_STR(joined("/app", "/x"), "/x");
    CHECK_STR(joined("/app/b", "../../../x"), "/x");
    CHECK_STR(joined("/app", "."), "/app");
    CHECK_STR(joined("/", "."), "/");
    CHECK_STR(joined("", "a//./b"), "/a/b");
    memset(longest, 'a', sizeof(longest) - 1);
    CHECK_STR(joined("/", longest), "refused");
}

static void owners_and_modes_are_what_they_can_be(void)
{
    CHECK(owner_ok(STR("user")) && owner_ok(STR("user:group")) && owner_ok(STR("0:0")));
    CHECK(owner_ok(STR("user:")) && !owner_ok(STR(":group")) && !owner_ok(STR("a b")));
    CHECK(!owner_ok(STR("a:b:c")) && !owner_ok(STR("")) && !owner_ok(STR("a\nowner root")));
    CHECK(mode_ok(STR("755")) && mode_ok(STR("0644")) && mode_ok(STR("07777")));
    CHECK(!mode_ok(STR("")) && !mode_ok(STR("8")) && !mode_ok(STR("77777")));
    CHECK(!mode_ok(STR("u+x")) && !mode_ok(STR("0000755")));
}

static void a_step_is_shown_as_it_was_written(void)
{
    json_t *args = json_loads("[\"src\",\"dst\",\"\",\"0755\"]", 0, NULL);
    const struct step step = {.kind = STEP_COPY, .type = "copy", .args = args};
    scoped_buf(text, 100);

    CHECK_INT(step_text(&step, &text), 0);
    CHECK(str_eq(buf_str(&text), STR("COPY src dst 0755")));
    json_decref(args);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a whole spec is read", a_whole_spec_is_read},
        {"what is no spec is refused", what_is_no_spec_is_refused},
        {"steps are checked before anything runs", steps_are_checked_before_anything_runs},
        {"a key follows from all that went before", a_key_follows_from_all_that_went_before},
        {"variables become their values and commands stay",
         variables_become_their_values_and_commands_stay},
        {"variables are nested to a limit", variables_are_nested_to_a_limit},
        {"a source is meant up to its first glob", a_source_is_meant_up_to_its_first_glob},
        {"paths are joined and cleaned", paths_are_joined_and_cleaned},
        {"owners and modes are what they can be", owners_and_modes_are_what_they_can_be},
        {"a step is shown as it was written", a_step_is_shown_as_it_was_written},
    };

    return check_run(tests, countof(tests));
}
