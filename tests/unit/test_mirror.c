#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lib/base/alloc.h"
#include "serve/store/mirror.h"

struct thing {
    struct mirrored as;
    char id[8], name[8];
};

static int alive; /* things that are not freed */
static int answers, last_error;

static struct mirrored *thing(const char *id, const char *team_id, const char *name)
{
    struct thing *one = xnew(struct thing);

    alive++;
    (void)snprintf(one->id, sizeof(one->id), "%s", id);
    (void)snprintf(one->name, sizeof(one->name), "%s", name);
    one->as = (struct mirrored){.id = one->id, .team_id = team_id, .name = one->name};
    return &one->as;
}

static void thing_free(struct mirrored *one)
{
    alive--;
    free(container_of(one, struct thing, as));
}

static int by_name(struct mirrored *a, struct mirrored *b)
{
    return strcmp(a->name, b->name);
}

static void on_answer(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)err;
    answers++;
    last_error = error;
}

static struct mirror a_mirror(void)
{
    alive = answers = 0;
    return (struct mirror){.free = thing_free, .order = by_name};
}

static void teams_see_their_own(void)
{
    struct mirror mirror = a_mirror();

    mirror_put(&mirror, thing("1", "a", "y"));
    mirror_put(&mirror, thing("2", "b", "y"));
    mirror_put(&mirror, thing("3", "a", "x"));
    mirror_put(&mirror, thing("4", NULL, "y"));
    CHECK_INT((int)mirror_count(&mirror, "a"), 2);
    CHECK_STR(mirror_next(&mirror, "a", NULL)->id, "3"); /* by name */
    CHECK_STR(mirror_named(&mirror, "b", STR("y"))->id, "2");
    CHECK_STR(mirror_named(&mirror, NULL, STR("y"))->id, "4");
    CHECK(!mirror_named(&mirror, "b", STR("x")));
    CHECK(mirror_of_team(&mirror, "a", "1") && !mirror_of_team(&mirror, "b", "1"));
    CHECK(mirror_find(&mirror, "1") && !mirror_find(&mirror, "5"));

    mirror_find(&mirror, "1")->removed = true;
    CHECK(mirror_find(&mirror, "1") && !mirror_of_team(&mirror, "a", "1"));
    CHECK(!mirror_named(&mirror, "a", STR("y")));
    CHECK_INT((int)mirror_count(&mirror, "a"), 1);
    mirror_fini(&mirror);
    CHECK_INT(alive, 0);
}

static void what_is_put_replaces_its_id(void)
{
    struct mirror mirror = a_mirror();

    mirror_put(&mirror, thing("1", "a", "old"));
    mirror_put(&mirror, thing("1", "a", "new"));
    CHECK_INT(alive, 1);
    CHECK_STR(mirror_find(&mirror, "1")->name, "new");
    mirror_fini(&mirror);
}

static void memory_says_what_the_disk_says(void)
{
    struct mirror mirror = a_mirror();
    const struct err err = {0};
    void *change = mirror_adds(&mirror, thing("1", "a", "x"), on_answer, NULL);

    CHECK(!mirror_find(&mirror, "1"));
    mirror_changed(change, 0, &err);
    CHECK(mirror_find(&mirror, "1"));
    mirror_changed(mirror_adds(&mirror, thing("2", "a", "y"), on_answer, NULL), -EIO, &err);
    CHECK(!mirror_find(&mirror, "2"));
    CHECK_INT(last_error, -EIO);
    CHECK_INT(alive, 1);

    change = mirror_removes(&mirror, mirror_find(&mirror, "1"), on_answer, NULL);
    CHECK(!mirror_find(&mirror, "1"));
    mirror_changed(change, -EIO, &err);
    CHECK(mirror_find(&mirror, "1"));
    mirror_changed(mirror_removes(&mirror, mirror_find(&mirror, "1"), on_answer, NULL), 0, &err);
    CHECK_INT(alive, 0);
    CHECK_INT(answers, 4);
}

/* The store was given the addition before the removal, so the new one is what is removed or not. */
static void a_removal_is_of_what_was_added_before_it(void)
{
    for (int error = 0; error >= -EIO; error -= EIO) {
        struct mirror mirror = a_mirror();
        const struct err err = {0};

        mirror_put(&mirror, thing("1", "a", "old"));
        void *added = mirror_adds(&mirror, thing("1", "a", "new"), on_answer, NULL);
        void *removed = mirror_removes(&mirror, mirror_find(&mirror, "1"), on_answer, NULL);
        mirror_changed(added, 0, &err);
        CHECK_STR(mirror_find(&mirror, "1")->name, "new");
        mirror_changed(removed, error, &err);
        CHECK_INT(alive, error < 0);
        CHECK(error == 0 || strcmp(mirror_find(&mirror, "1")->name, "new") == 0);
        mirror_fini(&mirror);
    }
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a team sees its own, by id and by name", teams_see_their_own},
        {"a put replaces the one of that id", what_is_put_replaces_its_id},
        {"memory says what the disk says", memory_says_what_the_disk_says},
        {"a removal is of what was added before it", a_removal_is_of_what_was_added_before_it},
    };

    return check_run(tests, countof(tests));
}
