/* The tree of a watch, without the kernel: where its directories are. */
#include "check.h"
#include "inside/agent/watch_tree.h"

/* Renames that the tree learns of late: a/b takes the place of a. */
static void a_directory_may_replace_the_one_above_it(void)
{
    struct watches all = {.fd = -1};
    struct watch watch = {.all = &all};
    struct stat st = {0};
    char path[AGENT_PATH_BYTES];

    watch.root = node_new(&watch, 1, &st);
    struct watch_node *a = node_new(&watch, 2, &st);
    struct watch_node *b = node_new(&watch, 3, &st);
    CHECK(node_put(a, watch.root, "a"));
    CHECK(node_put(b, a, "b"));
    CHECK(!node_put(a, b, "a")); /* below itself */

    CHECK(node_put(b, watch.root, "a"));
    CHECK(node_find(watch.root, "a") == b);
    CHECK_INT(node_path(b, NULL, path), 0);
    CHECK_STR(path, "a");
    CHECK_INT((long)watch.dirs_n, 2);
    CHECK(!mark_find(&all, 2));
    node_drop(watch.root);
    CHECK(!all.marks);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a directory may replace the one above it", a_directory_may_replace_the_one_above_it},
    };

    return check_run(tests, countof(tests));
}
