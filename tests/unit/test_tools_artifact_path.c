/* Paths of code artifacts: what stays below their folder, and why the rest is refused. */
#include <errno.h>

#include "check.h"
#include "tools/artifact_path.h"

static void names_below_the_folder_are_taken(void)
{
    static const char *const paths[] = {"a.py", "tools/calc.py", "a/b/c/d/e/f/g/h.ts", "..a/b..",
                                        ".x",   "A-1_2.3/x",     "a/input.json"};
    struct err err;

    for (size_t i = 0; i < countof(paths); i++) {
        CHECK_THAT(artifact_path_check(paths[i], &err) == 0, "%s", paths[i]);
    }
}

static void the_folder_s_own_name_is_left_out(void)
{
    CHECK_STR(artifact_path_short("Code/tools/calc.py"), "tools/calc.py");
    CHECK_STR(artifact_path_short("knowledge/hermes/Code/a.py"), "a.py");
    CHECK_STR(artifact_path_short("Hermes/Code/a.py"), "a.py");
    CHECK_STR(artifact_path_short("tools/Code/a.py"), "tools/Code/a.py");
    CHECK_STR(artifact_path_short("Code"), "Code");
    CHECK_STR(artifact_path_short("Code/"), "");
}

static void everything_else_is_refused_with_a_reason(void)
{
    static const struct {
        const char *path, *said;
    } rows[] = {
        {"", "1 to 255"},        {"/a", "absolute"},        {"~/a", "absolute"},
        {"~root/a", "absolute"}, {"..", "leads out"},       {"../a", "leads out"},
        {"a/..", "leads out"},   {"a/../b", "leads out"},   {"a/./b", "leads out"},
        {"a//b", "empty"},       {"a/", "empty"},           {"a\\..\\b", "backslash"},
        {"C:\\a", "backslash"},  {"C:/a", "characters"},    {"a b", "characters"},
        {"a\nb", "characters"},  {"a%2e%2e", "characters"}, {"\xc3\xa4", "characters"},
        {"-a", "dash"},          {"a/--help", "dash"},      {"a/b/c/d/e/f/g/h/i", "folders"},
        {"input.json", "taken"}, {".result.json", "taken"}, {"input.json/a.py", "taken"},
    };
    struct err err;

    for (size_t i = 0; i < countof(rows); i++) {
        CHECK_THAT(artifact_path_check(rows[i].path, &err) == -EINVAL, "%s", rows[i].path);
        CHECK_THAT(strstr(err.msg, rows[i].said), "%s: %s", rows[i].path, err.msg);
    }
}

static void long_paths_are_refused(void)
{
    char path[ARTIFACT_PATH_BYTES_MAX + 2];
    struct err err;

    memset(path, 'a', sizeof(path));
    path[ARTIFACT_PATH_BYTES_MAX] = '\0';
    CHECK_INT(artifact_path_check(path, &err), 0);
    path[ARTIFACT_PATH_BYTES_MAX] = 'a';
    path[ARTIFACT_PATH_BYTES_MAX + 1] = '\0';
    CHECK_INT(artifact_path_check(path, &err), -EINVAL);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"names below the folder are taken", names_below_the_folder_are_taken},
        {"the folder's own name is left out", the_folder_s_own_name_is_left_out},
        {"everything else is refused with a reason", everything_else_is_refused_with_a_reason},
        {"long paths are refused", long_paths_are_refused},
    };

    return check_run(tests, countof(tests));
}
