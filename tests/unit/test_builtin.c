#include <errno.h>
#include <sys/stat.h>
#include <uv.h>

#include "check.h"
#include "serve/daemon/builtin.h"
#include "tmpdir.h"

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        abort();
    }
}

/* A directory of templates with one called `tool`, and one for notices. */
static struct paths paths_in(const struct tmpdir *dir, const char *settings)
{
    struct paths paths = {0};
    char path[2 * DATA_PATH_BYTES];

    (void)snprintf(paths.templates, DATA_PATH_BYTES, "%s/templates", dir->path);
    (void)snprintf(paths.notices, DATA_PATH_BYTES, "%s/notices", dir->path);
    (void)snprintf(path, sizeof(path), "%s/tool", paths.templates);
    if (mkdir(paths.templates, 0755) < 0 || mkdir(paths.notices, 0755) < 0 ||
        mkdir(path, 0755) < 0) {
        abort();
    }
    (void)snprintf(path, sizeof(path), "%s/tool/settings.json", paths.templates);
    write_text(path, settings);
    return paths;
}

/* ---- settings ---- */

static void settings_are_read(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct paths paths =
        paths_in(&dir, "{\"from\": \"base\", \"cpuCount\": 2, \"memoryMB\": 64,"
                       " \"diskSizeMB\": 64, \"startCmd\": \"x\", \"env\": {\"A\": \"1\"}}");
    struct err err;
    json_t *settings = NULL;

    CHECK_INT(builtin_read(&paths, "tool", &settings, &err), 0);
    CHECK_STR(builtin_from(settings), "base");
    CHECK(!builtin_is_layer(settings));
    json_decref(settings);
    CHECK_INT(builtin_read(&paths, "other", &settings, &err), -ENOENT);
    CHECK(strstr(err.msg, "no built-in template 'other'"));
    CHECK_INT(builtin_read(&paths, "../tool", &settings, &err), -EINVAL);
    CHECK_INT(builtin_read(&paths, "", &settings, &err), -EINVAL);
    paths.templates[0] = '\0';
    CHECK_INT(builtin_read(&paths, "tool", &settings, &err), -ENOENT);
    CHECK(strstr(err.msg, "--templates"));
}

static void a_layer_needs_no_limits(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct paths paths = paths_in(&dir, "{\"layerOnly\": true}");
    struct err err;
    json_t *settings = NULL;

    CHECK_INT(builtin_read(&paths, "tool", &settings, &err), 0);
    CHECK(builtin_is_layer(settings));
    CHECK(!builtin_from(settings));
    json_decref(settings);
}

static void bad_settings_are_named(void)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "settings.json:1"},
        {"[]", "expected a JSON object"},
        {"{\"cpuCount\": 1", "settings.json:1"},
        {"{\"cpu\": 1}", "no setting 'cpu'"},
        {"{\"cpuCount\": \"2\"}", "'cpuCount'"},
        {"{\"cpuCount\": 0}", "'cpuCount'"},
        {"{\"memoryMB\": 1}", "'memoryMB'"},
        {"{\"cpuCount\": 1, \"memoryMB\": 64}", "'diskSizeMB' is missing"},
        {"{\"env\": {\"A\": 1}}", "'env'"},
        {"{\"env\": []}", "'env'"},
        {"{\"startCmd\": 1}", "'startCmd'"},
        {"{\"layerOnly\": \"yes\"}", "'layerOnly'"},
        {"{\"cpuCount\": 1, \"cpuCount\": 2}", "cpuCount"},
    };

    for (size_t i = 0; i < countof(cases); i++) {
        scoped_tmpdir dir = tmpdir_make();
        struct paths paths = paths_in(&dir, cases[i].text);
        json_t *settings = NULL;
        struct err err = {0};

        CHECK_INT(builtin_read(&paths, "tool", &settings, &err), -EINVAL);
        CHECK(strstr(err.msg, cases[i].says));
        CHECK(!settings);
    }
}

/* ---- notices ---- */

static void a_notice_reaches_the_table(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct paths paths = paths_in(&dir, "{}");
    json_t *settings = json_pack("{sisisiss}", "cpuCount", 1, "memoryMB", 64, "diskSizeMB", 128,
                                 "startCmd", "serve");
    struct templates *templates = NULL;
    struct store *store = NULL;
    struct err err;
    char path[64], layers[64];
    uv_loop_t loop;
    int why;

    (void)snprintf(path, sizeof(path), "%s/state.db", dir.path);
    CHECK(uv_loop_init(&loop) == 0 && store_open(&loop, path, &store, &err) == 0 &&
          templates_new(store, &templates, &err) == 0);

    notice_awaited(&paths, "tool", "it is being made");
    CHECK_INT(notice_layers(&paths, "tool", layers, sizeof(layers), &err), -ENOENT);
    notices_take(&paths, templates);
    CHECK_STR(templates_awaited(templates, STR("tool")), "it is being made");
    CHECK(!templates_find(templates, "t", STR("tool"), &why));

    CHECK_INT(notice_ready(&paths, "tool", settings, "tool-1,base-1", &err), 0);
    CHECK_INT(notice_layers(&paths, "tool", layers, sizeof(layers), &err), 0);
    CHECK_STR(layers, "tool-1,base-1");
    notices_take(&paths, templates);
    CHECK(!templates_awaited(templates, STR("tool")));
    const struct template *t = templates_find(templates, "t", STR("tool"), &why);
    CHECK(t);
    CHECK_STR(t->layers, "tool-1,base-1");
    CHECK_STR(t->start_cmd, "serve");
    CHECK_INT(t->disk_mb, 128);

    /* What is made anew is awaited; what was there stays usable meanwhile. */
    notice_awaited(&paths, "tool", "a newer one is being made");
    notices_take(&paths, templates);
    CHECK(templates_find(templates, "t", STR("tool"), &why) == t);

    notices_forget_awaited(&paths);
    CHECK_INT(notice_layers(&paths, "tool", layers, sizeof(layers), &err), -ENOENT);

    store_close(store);
    templates_free(templates);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    json_decref(settings);
}

static void what_is_no_notice_is_left_out(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct paths paths = paths_in(&dir, "{}");
    struct templates *templates = NULL;
    struct store *store = NULL;
    struct err err;
    char path[2 * DATA_PATH_BYTES];
    uv_loop_t loop;

    (void)snprintf(path, sizeof(path), "%s/state.db", dir.path);
    CHECK(uv_loop_init(&loop) == 0 && store_open(&loop, path, &store, &err) == 0 &&
          templates_new(store, &templates, &err) == 0);
    (void)snprintf(path, sizeof(path), "%s/broken.json", paths.notices);
    write_text(path, "{");
    (void)snprintf(path, sizeof(path), "%s/empty.json", paths.notices);
    write_text(path, "{}");
    (void)snprintf(path, sizeof(path), "%s/tool.new", paths.notices);
    write_text(path, "{\"awaited\": \"x\"}");
    notices_take(&paths, templates);
    CHECK(templates_count(templates) == 0);
    CHECK(!templates_awaited(templates, STR("tool")));
    (void)snprintf(paths.notices, DATA_PATH_BYTES, "%s/nothing", dir.path);
    notices_take(&paths, templates);
    CHECK(templates_count(templates) == 0);

    store_close(store);
    templates_free(templates);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"settings are read", settings_are_read},
        {"a layer needs no limits", a_layer_needs_no_limits},
        {"bad settings are named", bad_settings_are_named},
        {"a notice reaches the table", a_notice_reaches_the_table},
        {"what is no notice is left out", what_is_no_notice_is_left_out},
    };

    return check_run(tests, countof(tests));
}
