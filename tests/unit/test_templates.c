#include <errno.h>
#include <uv.h>

#include "check.h"
#include "serve/store/store.h"
#include "serve/template/name.h"
#include "serve/template/template.h"
#include "tmpdir.h"

static uv_loop_t loop;
static struct store *store;
static struct templates *all;

static bool start(const struct tmpdir *dir)
{
    struct err err = {0};
    char path[64];

    (void)snprintf(path, sizeof(path), "%s/state.db", dir->path);
    bool ok = uv_loop_init(&loop) == 0 && store_open(&loop, path, &store, &err) == 0 &&
              templates_new(store, &all, &err) == 0;
    if (!ok) {
        printf("# %s\n", err.msg);
    }
    return ok;
}

static void stop(void)
{
    store_close(store);
    templates_free(all);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
}

/* Another team's template, put where a build will put it: into the store. */
static void save_foreign(bool is_public)
{
    struct team_row team = {.id = "t2", .name = "Others", .created_ms = 1};
    struct template_row row = {
        .id = "aaaaaaaaaaaaaaaaaaaa",
        .alias = "tool",
        .team_id = "t2",
        .build_id = "b",
        .layers = "l",
        .user = "user",
        .workdir = "",
        .env_json = "{}",
        .cpu_count = 1,
        .memory_mb = 128,
        .disk_mb = 512,
        .is_public = is_public,
    };

    store_team_save(store, &team, NULL, NULL);
    store_template_save(store, &row, NULL, NULL);
}

static void put_base(const char *layers, uint32_t cpu_count)
{
    templates_put_builtin(all, &(struct template_builtin){.alias = "base",
                                                          .layers = layers,
                                                          .cpu_count = cpu_count,
                                                          .memory_mb = 512,
                                                          .disk_mb = 1024});
}

static void names(void)
{
    struct template_name name;

    CHECK_INT(template_name_parse(STR(" Base "), &name), 0);
    CHECK_STR(name.alias, "base");
    CHECK_STR(name.space, "");
    CHECK_STR(name.tag, "default");
    CHECK_INT(template_name_parse(STR("my-team/base_1:v1.2"), &name), 0);
    CHECK_STR(name.space, "my-team");
    CHECK_STR(name.alias, "base_1");
    CHECK_STR(name.tag, "v1.2");
    CHECK_INT(template_name_parse(STR(""), &name), -EINVAL);
    CHECK_INT(template_name_parse(STR(":x"), &name), -EINVAL);
    CHECK_INT(template_name_parse(STR("base:"), &name), -EINVAL);
    CHECK_INT(template_name_parse(STR("/base"), &name), -EINVAL);
    CHECK_INT(template_name_parse(STR("a/b/c"), &name), -EINVAL);
    CHECK_INT(template_name_parse(STR("a:b:c"), &name), -EINVAL);
    CHECK_INT(template_name_parse(STR("../etc"), &name), -EINVAL);
    CHECK_INT(template_name_parse(STR("b\0se"), &name), -EINVAL);
    CHECK_INT(template_name_parse(STR("b\xc3\xa9"), &name), -EINVAL);
    char longest[200];
    memset(longest, 'a', sizeof(longest));
    CHECK_INT(template_name_parse((struct str){longest, TEMPLATE_NAME_MAX}, &name), 0);
    CHECK_INT(template_name_parse((struct str){longest, TEMPLATE_NAME_MAX + 1}, &name), -EINVAL);
}

static void finds_a_builtin(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int why = 0;

    CHECK(start(&dir));
    put_base("base-1", 2);
    const struct template *t = templates_find(all, "any", STR("base"), &why);
    CHECK(t);
    CHECK_STR(t->user, "user");
    CHECK(strlen(t->id) == 20);
    CHECK(strlen(t->build_id) == 36);
    CHECK(templates_find(all, "any", str_of(t->id), &why) == t);
    CHECK(templates_find(all, "any", STR("base:default"), &why) == t);
    CHECK(!templates_find(all, "any", STR("base:v2"), &why));
    CHECK_INT(why, -ENODATA);
    CHECK(!templates_find(all, "any", STR("nothing"), &why));
    CHECK_INT(why, -ENOENT);
    CHECK(!templates_find(all, "any", STR("no name"), &why));
    CHECK_INT(why, -EINVAL);
    stop();
}

static void a_builtin_keeps_its_id(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char id[32] = "", build[40] = "";
    int why = 0;

    CHECK(start(&dir));
    put_base("base-1", 2);
    const struct template *t = templates_find(all, "x", STR("base"), &why);
    CHECK(t && str_copy(id, sizeof(id), str_of(t->id)));
    CHECK(str_copy(build, sizeof(build), str_of(t->build_id)));
    stop();

    CHECK(start(&dir));
    put_base("base-1", 2);
    t = templates_find(all, "x", STR("base"), &why);
    CHECK(t);
    CHECK_STR(t->id, id);
    CHECK_STR(t->build_id, build);
    put_base("base-2,base-1", 4);
    CHECK_STR(t->id, id);
    CHECK(strcmp(t->build_id, build) != 0);
    stop();

    CHECK(start(&dir));
    t = templates_find(all, "x", STR("base"), &why);
    CHECK(t);
    CHECK_STR(t->layers, "base-2,base-1");
    CHECK_INT(t->cpu_count, 4);
    CHECK(templates_count(all) == 1);
    stop();
}

static void count_one(void *ctx, const struct template *t)
{
    (void)t;
    (*(int *)ctx)++;
}

static void teams_see_their_own(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int why = 0, mine = 0, theirs = 0;

    CHECK(start(&dir));
    put_base("base-1", 2);
    save_foreign(false);
    stop();

    CHECK(start(&dir));
    CHECK(!templates_find(all, "t1", STR("tool"), &why));
    CHECK_INT(why, -ENOENT);
    CHECK(!templates_find(all, "t1", STR("others/tool"), &why));
    CHECK_INT(why, -EACCES);
    CHECK(!templates_find(all, "t1", STR("aaaaaaaaaaaaaaaaaaaa"), &why));
    CHECK_INT(why, -EACCES);
    CHECK(templates_find(all, "t2", STR("tool"), &why));
    CHECK(templates_find(all, "t2", STR("OTHERS/tool:default"), &why));
    templates_each(all, "t1", count_one, &mine);
    templates_each(all, "t2", count_one, &theirs);
    CHECK_INT(mine, 1);
    CHECK_INT(theirs, 2);
    save_foreign(true);
    stop();

    CHECK(start(&dir));
    CHECK(templates_find(all, "t1", STR("others/tool"), &why));
    templates_name_team(all, "t2", "renamed");
    CHECK(!templates_find(all, "t1", STR("others/tool"), &why));
    CHECK(templates_find(all, "t1", STR("renamed/tool"), &why));
    stop();
}

static void a_builtin_begins_with_commands(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct template_builtin what = {.alias = "tool",
                                    .layers = "l-1",
                                    .user = "root",
                                    .env_json = "{\"A\":\"1\"}",
                                    .start_cmd = "serve",
                                    .ready_cmd = "probe",
                                    .cpu_count = 1,
                                    .memory_mb = 64,
                                    .disk_mb = 64};
    char build[40] = "";
    int why = 0;

    CHECK(start(&dir));
    templates_put_builtin(all, &what);
    const struct template *t = templates_find(all, "x", STR("tool"), &why);
    CHECK(t && str_copy(build, sizeof(build), str_of(t->build_id)));
    stop();

    CHECK(start(&dir));
    t = templates_find(all, "x", STR("tool"), &why);
    CHECK(t);
    CHECK_STR(t->start_cmd, "serve");
    CHECK_STR(t->ready_cmd, "probe");
    CHECK_STR(t->user, "root");
    CHECK_STR(t->env_json, "{\"A\":\"1\"}");
    templates_put_builtin(all, &what);
    CHECK_STR(t->build_id, build);
    what.start_cmd = NULL;
    templates_put_builtin(all, &what);
    CHECK(!t->start_cmd);
    CHECK(strcmp(t->build_id, build) != 0);
    stop();
}

static int kept_error = 1;

static void on_save_stored(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)err;
    kept_error = error;
}

/* Bounded, for a test that fails. */
static int kept_wait(void)
{
    for (int i = 0; i < 1000 && kept_error == 1; i++) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    return kept_error;
}

static int keep(const struct template *t, const char *build_id, const char *saved)
{
    kept_error = 1;
    templates_set_save(all, t->id, build_id, saved, saved ? 4096 : 0, on_save_stored, NULL);
    return kept_wait();
}

static void what_was_saved_is_of_one_build(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char build[40] = "";
    int why = 0;

    CHECK(start(&dir));
    put_base("base-1", 2);
    const struct template *t = templates_find(all, "x", STR("base"), &why);
    CHECK(t && str_copy(build, sizeof(build), str_of(t->build_id)));
    CHECK_INT(keep(t, "another", "saved-0"), -ESTALE);
    CHECK(!t->saved);
    CHECK_INT(keep(t, build, "saved-1"), 0);
    CHECK_STR(t->saved, "saved-1");
    stop();

    CHECK(start(&dir));
    t = templates_find(all, "x", STR("base"), &why);
    CHECK_STR(t->saved, "saved-1");
    CHECK_INT(t->saved_bytes, 4096);
    CHECK_INT(keep(t, build, NULL), 0);
    CHECK(!t->saved);
    kept_error = 1;
    templates_set_save(all, t->id, build, "saved-2", 4096, on_save_stored, NULL);
    put_base("base-2", 2); /* before that is on record */
    CHECK_INT(kept_wait(), -ESTALE);
    CHECK(!t->saved);
    stop();

    CHECK(start(&dir));
    CHECK(!templates_find(all, "x", STR("base"), &why)->saved);
    stop();
}

static void what_is_made_is_awaited(void)
{
    scoped_tmpdir dir = tmpdir_make();

    CHECK(start(&dir));
    CHECK(!templates_awaited(all, STR("tool")));
    templates_await(all, "tool", "soon");
    templates_await(all, "other", "later");
    templates_await(all, "tool", "sooner");
    CHECK_STR(templates_awaited(all, STR("Tool:default")), "sooner");
    CHECK_STR(templates_awaited(all, STR("other")), "later");
    CHECK(!templates_awaited(all, STR("others/tool")));
    CHECK(!templates_awaited(all, STR("no name")));
    templates_await(all, "tool", NULL);
    CHECK(!templates_awaited(all, STR("tool")));
    stop();
}

static struct build_row built(const char *template_id, const char *id, const char *layers)
{
    return (struct build_row){.id = id,
                              .template_id = template_id,
                              .state = "ready",
                              .tags = "default",
                              .cpu_count = 2,
                              .memory_mb = 512,
                              .disk_mb = 1024,
                              .layers = layers,
                              .user = "someone",
                              .workdir = "/w",
                              .env_json = "{}",
                              .start_cmd = "serve",
                              .start_context = "{\"user\":\"below\"}"};
}

static void count_tag(void *ctx, const char *tag, const struct template *t, int64_t created_ms)
{
    (void)tag, (void)t, (void)created_ms;
    ++*(int *)ctx;
}

static void tags_name_builds(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct team_row team = {.id = "t1", .name = "Mine", .created_ms = 1};
    char id[32] = "";
    int why = 0, tags = 0;

    CHECK(start(&dir));
    store_team_save(store, &team, NULL, NULL);
    templates_name_team(all, "t1", "Mine");
    const struct template *t = templates_add(all, "t1", "tool", 1, 128, 512, NULL, NULL);
    CHECK(str_copy(id, sizeof(id), str_of(t->id)));
    CHECK(!templates_find(all, "t1", STR("tool"), &why));
    CHECK_INT(why, -ENODATA); /* it is there, but not built */
    CHECK(templates_lookup(all, "t1", STR("tool"), &why) == t);
    CHECK_STR(templates_space(all, "t1"), "mine");

    struct build_row one = built(id, "11111111-1111-1111-1111-111111111111", "saved-1,base");
    struct build_row two = built(id, "22222222-2222-2222-2222-222222222222", "saved-2,base");
    store_build_save(store, &one, NULL, NULL);
    store_build_save(store, &two, NULL, NULL);
    templates_tag(all, &one, "v1", NULL, NULL);
    templates_tag(all, &two, TEMPLATE_TAG_DEFAULT, NULL, NULL);
    stop();

    CHECK(start(&dir)); /* all of it is on record */
    t = templates_find(all, "t1", STR("mine/tool:v1"), &why);
    CHECK(t);
    CHECK_STR(t->layers, "saved-1,base");
    CHECK_STR(t->user, "someone");
    CHECK_STR(t->start_cmd, "serve");
    t = templates_find(all, "t1", STR("tool"), &why);
    CHECK(t);
    CHECK_STR(t->layers, "saved-2,base");
    CHECK_STR(t->start_context, "{\"user\":\"below\"}");
    t = templates_find(all, "t1", STR("tool:11111111-1111-1111-1111-111111111111"), &why);
    CHECK(t);
    CHECK_STR(t->layers, "saved-1,base");
    CHECK(!templates_find(all, "t1", STR("tool:33333333-3333-3333-3333-333333333333"), &why));
    templates_each_tag(all, id, count_tag, &tags);
    CHECK_INT(tags, 2);
    CHECK_INT(templates_untag(all, id, "v1", NULL, NULL), 0);
    CHECK_INT(templates_untag(all, id, "v1", NULL, NULL), -ENODATA);
    CHECK(!templates_find(all, "t1", STR("tool:v1"), &why));
    CHECK_INT(why, -ENODATA);
    CHECK(!templates_find(all, "t2", STR("mine/tool"), &why));
    CHECK_INT(why, -EACCES);
    templates_set_public(all, id, true, NULL, NULL);
    CHECK(templates_find(all, "t2", STR("mine/tool"), &why));
    templates_remove(all, id, NULL, NULL);
    CHECK(!templates_lookup(all, "t1", STR("tool"), &why));
    CHECK_INT(why, -ENOENT);
    stop();

    CHECK(start(&dir));
    CHECK(!templates_by_id(all, id));
    stop();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"names are parsed strictly", names},
        {"a built-in one is found by id, alias and tag", finds_a_builtin},
        {"a built-in one keeps its id, and a new build its place", a_builtin_keeps_its_id},
        {"teams see their own, public and built-in ones", teams_see_their_own},
        {"a built-in one begins with commands", a_builtin_begins_with_commands},
        {"what was saved is of one build, also after a restart", what_was_saved_is_of_one_build},
        {"what is still being made is awaited", what_is_made_is_awaited},
        {"tags name builds, also after a restart", tags_name_builds},
    };

    return check_run(tests, countof(tests));
}
