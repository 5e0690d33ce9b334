/* files_tree.c - a folder as a tree, and the contents of its files, some of them at a time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/mcp/jsonrpc.h"
#include "tools/files.h"
#include "tools/internal.h"
#include "tools/side_fiber.h"

enum {
    TREE_DEPTH = 16,
    TREE_ENTRIES_MAX = 5000,
    TREE_BYTES_MAX = 1024 * 1024,
    TREE_FILES_AT_ONCE = 8,
    TREE_CONTENT_BYTES_MAX = 16 * 1024 * 1024, /* of all files together */
    TREE_SPARE_BYTES = 64 * 1024,
};

struct tree {
    struct tool_call *call;
    const struct remote_sandbox *sandbox;
    const struct tree_plan *plan;
    size_t root_len;        /* of the root's path, with the slash behind it */
    const json_t **entries; /* in the order of the tree */
    size_t entries_n;
    json_t *files; /* one object for each that is read */
    size_t content_bytes;
    bool cut; /* something was left out */
};

static const char *path_of(const json_t *entry)
{
    return json_string_of(entry, "path");
}

/* ---- the entries ---- */

/* A folder comes right before what is in it: '/' counts less than any other character. */
static int by_path(const void *a, const void *b)
{
    const unsigned char *x = (const unsigned char *)path_of(*(const json_t *const *)a);
    const unsigned char *y = (const unsigned char *)path_of(*(const json_t *const *)b);

    while (*x && *x == *y) {
        x++, y++;
    }
    return (*x == '/' ? 1 : *x) - (*y == '/' ? 1 : *y);
}

static bool is_hidden(const char *below)
{
    return below[0] == '.' || strstr(below, "/.");
}

static void take_entries(struct tree *tree, const json_t *list)
{
    tree->entries = xcalloc(json_array_size(list) + 1, sizeof(tree->entries[0]));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *path = path_of(entry);

        if (path && strlen(path) > tree->root_len &&
            (tree->plan->hidden || !is_hidden(path + tree->root_len))) {
            tree->entries[tree->entries_n++] = entry;
        }
    }
    qsort(tree->entries, tree->entries_n, sizeof(tree->entries[0]), by_path);
    if (tree->entries_n > TREE_ENTRIES_MAX) {
        tree->entries_n = TREE_ENTRIES_MAX;
        tree->cut = true;
    }
}

/* A folder that is too large is listed down to its first level only. */
static int list_entries(struct tree *tree, const char *root, json_t **out, struct err *err)
{
    static const int depths[] = {TREE_DEPTH, 1};
    int r = -EMSGSIZE;

    for (size_t i = 0; r == -EMSGSIZE && i < countof(depths); i++) {
        scoped_json *request = json_pack("{ss si}", "path", root, "depth", depths[i]);

        tree->cut = i > 0;
        r = remote_rpc(tree->call, tree->sandbox, "/filesystem.Filesystem/ListDir", request, out,
                       err);
    }
    return r;
}

static unsigned depth_of(const char *below)
{
    unsigned depth = 0;

    for (const char *c = below; *c; c++) {
        depth += *c == '/';
    }
    return depth;
}

static json_t *drawn(struct tree *tree)
{
    scoped_buf(text, TREE_BYTES_MAX);

    for (size_t i = 0; i < tree->entries_n; i++) {
        const char *below = path_of(tree->entries[i]) + tree->root_len;
        const char *slash = strrchr(below, '/');
        const char *end = entry_is_directory(tree->entries[i]) ? "/" : "";

        if (buf_printf(&text, "%*s%s%s\n", (int)(2 * depth_of(below)), "",
                       slash ? slash + 1 : below, end) < 0) {
            tree->cut = true;
            break;
        }
    }
    return json_stringn(buf_at(&text) ? buf_at(&text) : "", buf_len(&text));
}

/* ---- the contents ---- */

/* The size it had when it was listed, and some more: files of /proc have no size, and others
 * grow. */
static size_t bytes_wanted(const struct tree *tree, const json_t *file, size_t room)
{
    size_t listed = (size_t)json_integer_value(json_object_get(file, "size")) + TREE_SPARE_BYTES;
    size_t max = tree->plan->bytes_max < room ? tree->plan->bytes_max : room;

    return listed < max ? listed : max;
}

static void read_one(void *ctx, size_t i)
{
    struct tree *tree = ctx;
    json_t *file = json_array_get(tree->files, i);
    size_t room = TREE_CONTENT_BYTES_MAX - tree->content_bytes;
    size_t max = bytes_wanted(tree, file, room);
    scoped_buf(data, max);
    bool cut = false;
    struct err err;

    if (room == 0) {
        tree->cut = true;
        (void)json_object_set_new(file, "error", json_string("left out: the answer is full"));
        return;
    }
    tree->content_bytes += max; /* before others read; what was not needed is given back */
    int r = remote_read(tree->call, tree->sandbox, path_of(file), max, &data, &cut, &err);
    tree->content_bytes -= max - buf_len(&data);
    if (r < 0) {
        (void)json_object_set_new(file, "error", json_sentence(err.msg));
        return;
    }
    tree->cut = tree->cut || cut;
    content_put(file, buf_str(&data), cut);
}

static size_t choose_files(struct tree *tree)
{
    size_t total = 0;

    tree->files = json_array();
    for (size_t i = 0; i < tree->entries_n; i++) {
        const json_t *entry = tree->entries[i];

        if (entry_is_directory(entry)) {
            continue;
        }
        if (tree->plan->files_max < 0 || total < (size_t)tree->plan->files_max) {
            (void)json_array_append_new(tree->files, json_pack("{ss sI}", "path", path_of(entry),
                                                               "size", entry_size(entry)));
        }
        total++;
    }
    return total;
}

int tree_read(struct tool_call *call, const struct remote_sandbox *sandbox, const char *root,
              const struct tree_plan *plan, json_t *reply, struct err *err)
{
    struct tree tree = {.call = call, .sandbox = sandbox, .plan = plan};
    scoped_json *answer = NULL;

    tree.root_len = strcmp(root, "/") == 0 ? 1 : strlen(root) + 1;
    int r = list_entries(&tree, root, &answer, err);
    if (r < 0) {
        return r;
    }
    take_entries(&tree, json_object_get(answer, "entries"));
    (void)json_object_set_new(reply, "type", json_string("directory"));
    (void)json_object_set_new(reply, "tree", drawn(&tree));
    size_t total = choose_files(&tree);
    side_fiber_each(json_array_size(tree.files), TREE_FILES_AT_ONCE, read_one, &tree);
    (void)json_object_set_new(reply, "files", tree.files);
    (void)json_object_set_new(reply, "files_total", json_integer((json_int_t)total));
    (void)json_object_set_new(reply, "truncated", json_boolean(tree.cut));
    free(tree.entries);
    return fiber_cancelled(fiber_self()) ? call_was_cancelled(err) : 0;
}
