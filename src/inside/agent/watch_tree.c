#include "inside/agent/watch_tree.h"

#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>

#include "lib/base/alloc.h"

/* ---- marks ---- */

struct watch_mark *mark_find(struct watches *all, int wd)
{
    struct watch_mark *mark;

    HASH_FIND_INT(all->marks, &wd, mark);
    return mark;
}

struct watch_node *mark_node(const struct watch_mark *mark, const struct watch *watch)
{
    struct watch_node *node;

    DL_FOREACH2 (mark->nodes, node, mark_next) {
        if (node->watch == watch) {
            return node;
        }
    }
    return NULL;
}

static struct watch_mark *mark_take(struct watches *all, int wd)
{
    struct watch_mark *mark = mark_find(all, wd);

    if (!mark) {
        mark = xnew(struct watch_mark);
        mark->wd = wd;
        HASH_ADD_INT(all->marks, wd, mark);
    }
    return mark;
}

static void mark_leave(struct watches *all, struct watch_mark *mark, struct watch_node *node)
{
    DL_DELETE2(mark->nodes, node, mark_prev, mark_next);
    if (!mark->nodes) {
        (void)inotify_rm_watch(all->fd, mark->wd); /* fails when the directory is gone: as well */
        HASH_DEL(all->marks, mark);
        free(mark);
    }
}

/* ---- places ---- */

static size_t key_len(const struct watch_place *place)
{
    return offsetof(struct watch_place, name) + strlen(place->name);
}

static struct watch_place *place_new(const struct watch_node *parent, const char *name)
{
    size_t len = strlen(name); /* at most NAME_MAX */
    struct watch_place *place = xcalloc(1, sizeof(*place) + len + 1);

    place->parent_wd = parent->mark->wd;
    memcpy(place->name, name, len);
    return place;
}

struct watch_node *node_find(const struct watch_node *parent, const char *name)
{
    struct watch_place *key = place_new(parent, name);
    struct watch_node *node;

    HASH_FIND(hh, parent->watch->places, key, key_len(key), node);
    free(key);
    return node;
}

/* Out of the index, and out of those that are moving; still its parent's child. */
static void node_unindex(struct watch_node *node)
{
    if (node->moving) {
        DL_DELETE2(node->watch->moving, node, move_prev, move_next);
        node->moving = 0;
    } else if (node->place) {
        HASH_DEL(node->watch->places, node);
    }
}

static bool is_above(const struct watch_node *node, const struct watch_node *below)
{
    while (below && below != node) {
        below = below->parent;
    }
    return below != NULL;
}

bool node_put(struct watch_node *node, struct watch_node *parent, const char *name)
{
    struct watch_node *there = node_find(parent, name);

    if (there == node) {
        return true;
    }
    if (is_above(node, parent)) {
        return false;
    }
    node_unindex(node);
    if (node->parent) {
        DL_DELETE(node->parent->children, node);
    }
    if (there) { /* only now: the node may have been below it */
        node_drop(there);
    }
    free(node->place);
    node->place = place_new(parent, name);
    node->parent = parent;
    DL_APPEND(parent->children, node);
    HASH_ADD_KEYPTR(hh, node->watch->places, node->place, key_len(node->place), node);
    return true;
}

void node_take(struct watch_node *node, uint32_t cookie)
{
    node_unindex(node);
    node->moving = cookie;
    DL_APPEND2(node->watch->moving, node, move_prev, move_next);
}

struct watch_node *node_moving(const struct watch *watch, uint32_t cookie)
{
    struct watch_node *node;

    DL_FOREACH2 (watch->moving, node, move_next) {
        if (node->moving == cookie) {
            return node;
        }
    }
    return NULL;
}

/* ---- nodes ---- */

struct watch_node *node_new(struct watch *watch, int wd, const struct stat *st)
{
    struct watch_mark *mark = mark_take(watch->all, wd);
    struct watch_node *node = xnew(struct watch_node);

    node->watch = watch;
    node->mark = mark;
    node->dev = st->st_dev;
    node->ino = st->st_ino;
    DL_APPEND2(mark->nodes, node, mark_prev, mark_next);
    watch->dirs_n++;
    return node;
}

static void node_free(struct watch_node *node)
{
    struct watch *watch = node->watch;

    node_unindex(node);
    if (node->parent) {
        DL_DELETE(node->parent->children, node);
    } else {
        watch->root = NULL;
    }
    node_queue(node, NULL);
    seen_clear(node);
    mark_leave(watch->all, node->mark, node);
    watch->dirs_n--;
    free(node->place);
    free(node);
}

/* Bottom up and without recursion: a tree may be two thousand levels deep. */
void node_drop(struct watch_node *node)
{
    struct watch_node *at = node;

    for (;;) {
        while (at->children) {
            at = at->children;
        }
        struct watch_node *parent = at->parent;
        bool last = at == node;
        node_free(at);
        if (last) {
            return;
        }
        at = parent;
    }
}

/* Written from its end: a node knows its parent, not its children's names. */
int node_path(const struct watch_node *node, const char *name, char out[AGENT_PATH_BYTES])
{
    size_t at = AGENT_PATH_BYTES - 1;

    if (!name && !node->parent) {
        name = ".";
    }
    out[at] = '\0';
    for (; name || node->parent; node = name ? node : node->parent, name = NULL) {
        const char *part = name ? name : node->place->name;
        size_t len = strlen(part);
        bool slash = at != AGENT_PATH_BYTES - 1;
        if (len + slash > at) {
            return -ENAMETOOLONG;
        }
        if (slash) {
            out[--at] = '/';
        }
        at -= len;
        memcpy(out + at, part, len);
    }
    memmove(out, out + at, AGENT_PATH_BYTES - at);
    return 0;
}

int path_join(const char *base, const char *below, char out[AGENT_PATH_BYTES])
{
    bool is_root = strcmp(base, "/") == 0;
    int n;

    if (strcmp(below, ".") == 0) {
        n = snprintf(out, AGENT_PATH_BYTES, "%s", base);
    } else {
        n = snprintf(out, AGENT_PATH_BYTES, "%s/%s", is_root ? "" : base, below);
    }
    return n < 0 || n >= AGENT_PATH_BYTES ? -ENAMETOOLONG : 0;
}

/* ---- queues of nodes ---- */

void node_queue(struct watch_node *node, struct watch_node **queue)
{
    if (node->queue) {
        DL_DELETE2(*node->queue, node, busy_prev, busy_next);
    }
    node->queue = queue;
    if (queue) {
        DL_APPEND2(*queue, node, busy_prev, busy_next);
    }
}

void node_unsettle(struct watch_node *node, enum watch_scan scan)
{
    if (scan > node->scan) {
        node->scan = scan;
    }
    node_queue(node, &node->watch->all->unsettled);
}

static struct watch_seen *seen_find(const struct watch_node *node, const char *name)
{
    struct watch_seen *seen;

    HASH_FIND_STR(node->seen, name, seen);
    return seen;
}

bool seen_has(const struct watch_node *node, const char *name)
{
    return seen_find(node, name) != NULL;
}

void seen_add(struct watch_node *node, const char *name)
{
    size_t len = strlen(name); /* at most NAME_MAX */

    if (!seen_has(node, name)) {
        struct watch_seen *seen = xcalloc(1, sizeof(*seen) + len + 1);
        memcpy(seen->name, name, len);
        HASH_ADD_STR(node->seen, name, seen);
    }
}

void seen_remove(struct watch_node *node, const char *name)
{
    struct watch_seen *seen = seen_find(node, name);

    if (seen) {
        HASH_DEL(node->seen, seen);
        free(seen);
    }
}

void seen_clear(struct watch_node *node)
{
    struct watch_seen *seen, *next;

    HASH_ITER (hh, node->seen, seen, next) {
        HASH_DEL(node->seen, seen);
        free(seen);
    }
}
