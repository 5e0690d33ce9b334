/* What archives may name, and what the unpacker is told. */
#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "inside/unpack/internal.h"
#include "lib/base/compiler.h"

static char path[PATH_BYTES];
static struct err err;

static void names_are_paths_below_the_root(void)
{
    static const char *const rows[][2] = {
        {"a", "a"}, {"./a", "a"}, {"a/", "a"},    {"a//b/./c/", "a/b/c"},
        {".", ""},  {"./", ""},   {"...", "..."}, {"a/..b", "a/..b"},
        {" ", " "},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        CHECK_INT(name_check(rows[i][0], path, &err), 0);
        CHECK_STR(path, rows[i][1]);
    }
}

static void names_that_lead_out_are_refused(void)
{
    static const char *const rows[] = {"",     "/",    "/a",     "..",
                                       "../a", "a/..", "a/../b", "a/b/../../.."};

    for (size_t i = 0; i < countof(rows); i++) {
        CHECK_THAT(name_check(rows[i], path, &err) == -EINVAL, "'%s' was taken", rows[i]);
    }
}

static void names_have_limits(void)
{
    char name[2 * PATH_BYTES];

    memset(name, 'a', sizeof(name));
    name[NAME_BYTES_MAX] = '\0';
    CHECK_INT(name_check(name, path, &err), 0);
    name[NAME_BYTES_MAX] = 'a';
    name[NAME_BYTES_MAX + 1] = '\0';
    CHECK_INT(name_check(name, path, &err), -EINVAL);
    for (size_t i = 0; i < sizeof(name); i++) {
        name[i] = i % 100 == 99 ? '/' : 'a';
    }
    name[sizeof(name) - 1] = '\0';
    CHECK_INT(name_check(name, path, &err), -EINVAL);
    for (size_t i = 0; i < 2 * UNPACK_DEPTH_MAX; i++) {
        name[i] = i % 2 ? '/' : 'a';
    }
    name[2 * UNPACK_DEPTH_MAX] = '\0';
    CHECK_INT(name_check(name, path, &err), 0);
    memcpy(name + 2 * UNPACK_DEPTH_MAX, "b", 2);
    CHECK_INT(name_check(name, path, &err), -EINVAL);
}

static void a_name_cannot_forge_a_line(void)
{
    char out[8];

    CHECK_STR(name_show("a\nb\033c\177", out, sizeof(out)), "a?b?c?");
    CHECK_STR(name_show("longer than that", out, sizeof(out)), "longer ");
}

static void below_means_part_by_part(void)
{
    CHECK(name_is_below("a/b", "a"));
    CHECK(name_is_below("a", "a"));
    CHECK(name_is_below("a", ""));
    CHECK(!name_is_below("ab", "a"));
    CHECK(!name_is_below("a", "a/b"));
}

static void what_was_made_is_known_with_its_directories(void)
{
    struct made made;
    char name[32];

    made_init(&made);
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(name, sizeof(name), "d%d/e/f%d", i % 7, i);
        made_add(&made, (struct str){name, (size_t)n});
    }
    CHECK(made_has(&made, STR("d3/e/f10")));
    CHECK(made_has(&made, STR("d6/e")));
    CHECK(made_has(&made, STR("d0")));
    CHECK(!made_has(&made, STR("d7")));
    CHECK(!made_has(&made, STR("d3/e/f11")));
    CHECK(!made_has(&made, STR("")));
    made_fini(&made);
}

static int options(const char *text, struct options *out)
{
    return options_parse(str_of(text), out, &err);
}

static void options_are_read(void)
{
    static struct options o;

    CHECK_INT(
        options("mode copy\nlimit 5\nsource ./a/b/\ntarget /x y/\nowner u:g\nchmod 0755\n", &o), 0);
    CHECK_INT(o.mode, UNPACK_COPY);
    CHECK_INT(o.limit, 5);
    CHECK_STR(o.source, "a/b");
    CHECK_STR(o.target, "x y");
    CHECK(o.target_is_dir);
    CHECK_STR(o.owner, "u:g");
    CHECK_INT(o.chmod, 0755);
    CHECK_INT(options("mode layer\n", &o), 0);
    CHECK_INT(o.mode, UNPACK_LAYER);
    CHECK(o.limit == UNPACK_LIMIT_DEFAULT && o.chmod == -1);
}

static void options_that_make_no_sense_are_refused(void)
{
    static const char *const rows[] = {
        "mode",      "mode x",      "limit -1",    "limit",     "limit 99999999999999999999",
        "chmod u+x", "chmod 8",     "chmod 77777", "target a",  "target /../x",
        "target",    "source ../x", "source /x",   "unknown 1",
    };
    static struct options o;

    for (size_t i = 0; i < countof(rows); i++) {
        CHECK_THAT(options(rows[i], &o) == -EINVAL, "'%s' was taken", rows[i]);
    }
}

static void owners_may_be_numbers(void)
{
    uid_t uid = 1;
    gid_t gid = 1;

    CHECK_INT(owner_find("0", &uid, &gid, &err), 0);
    CHECK(uid == 0 && gid == 0);
    CHECK_INT(owner_find("60001:60002", &uid, &gid, &err), 0);
    CHECK(uid == 60001 && gid == 60002);
    CHECK_INT(owner_find("root:root", &uid, &gid, &err), 0);
    CHECK(uid == 0 && gid == 0);
    CHECK_INT(owner_find("no-such-user", &uid, &gid, &err), -ENOENT);
    CHECK_INT(owner_find("root:no-such-group", &uid, &gid, &err), -ENOENT);
    CHECK_INT(owner_find("99999999", &uid, &gid, &err), -ENOENT);
    CHECK_INT(owner_find(":root", &uid, &gid, &err), -EINVAL);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"names are paths below the root", names_are_paths_below_the_root},
        {"names that lead out are refused", names_that_lead_out_are_refused},
        {"names have limits", names_have_limits},
        {"a name cannot forge a line", a_name_cannot_forge_a_line},
        {"below means part by part", below_means_part_by_part},
        {"what was made is known, with its directories",
         what_was_made_is_known_with_its_directories},
        {"options are read", options_are_read},
        {"options that make no sense are refused", options_that_make_no_sense_are_refused},
        {"owners may be numbers", owners_may_be_numbers},
    };
    return check_run(tests, countof(tests));
}
