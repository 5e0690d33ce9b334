/* watch_tree.h - the directories of a watch: where they are, and the kernel's marks on them.
 *
 * Owns:     nodes, and the marks in the inotify instance: a mark is removed with its last node.
 * Blocks:   on the disk in watch_scan.c, nowhere in watch_tree.c.
 * Threads:  as watch.h.
 */
#ifndef AGENT_WATCH_TREE_H
#define AGENT_WATCH_TREE_H

#include <sys/stat.h>
#include <utlist.h>

#include "inside/agent/watch.h"
#include "lib/base/table.h"

/* The scan that a directory still needs. */
enum watch_scan {
    SCAN_NONE,
    SCAN_SUBDIRS, /* directories whose arrival was told, but which were not found then */
    SCAN_SILENT,  /* directories below one that is watched from now on: nothing of it is news */
    SCAN_TELL,    /* a new directory: all in it is news */
};

struct watch_mark {
    int wd;
    struct watch_node *nodes; /* at most one of each watch */
    UT_hash_handle hh;
};

struct watch_place {
    int parent_wd;
    char name[];
};

struct watch_seen {
    UT_hash_handle hh;
    char name[];
};

struct watch_node {
    struct watch *watch;
    struct watch_mark *mark;
    struct watch_node *parent;   /* NULL: the root */
    struct watch_place *place;   /* NULL: the root */
    struct watch_node *children; /* with those that are moving */
    dev_t dev;
    ino_t ino;
    uint64_t since; /* events at earlier positions are not for it */

    uint32_t moving; /* the cookie of the rename that took it from its place; 0: it is in place */
    struct watch_node **queue; /* the list of watches it is in; NULL: none */
    enum watch_scan scan;
    uint64_t seen_until;     /* before this position a name's first event is its creation */
    struct watch_seen *seen; /* names told of as created, while that holds */

    UT_hash_handle hh;                        /* in watch->places */
    struct watch_node *prev, *next;           /* in parent->children */
    struct watch_node *mark_prev, *mark_next; /* in mark->nodes */
    struct watch_node *busy_prev, *busy_next; /* in *queue */
    struct watch_node *move_prev, *move_next; /* in watch->moving */
};

/* ---- watch_tree.c ---- */

struct watch_mark *mark_find(struct watches *all, int wd);
struct watch_node *mark_node(const struct watch_mark *mark, const struct watch *watch);

/* A node on the mark wd, which is made when it is new. */
struct watch_node *node_new(struct watch *watch, int wd, const struct stat *st);
void node_drop(struct watch_node *node); /* with all below it */

struct watch_node *node_find(const struct watch_node *parent, const char *name);

/* Moves it there, with all below it, and drops the node that was there. False, with nothing
 * changed, when that would be below itself: the directories were moved faster than we follow, and
 * later events bring the rest. */
bool node_put(struct watch_node *node, struct watch_node *parent, const char *name);
void node_take(struct watch_node *node, uint32_t cookie); /* out of its place */
struct watch_node *node_moving(const struct watch *watch, uint32_t cookie);

/* The path of `name` in it (NULL: its own) below the watched directory: "." for that itself. */
must_check int node_path(const struct watch_node *node, const char *name,
                         char out[AGENT_PATH_BYTES]);

/* Joins a path of node_path() to the path of the watched directory. */
must_check int path_join(const char *base, const char *below, char out[AGENT_PATH_BYTES]);

void node_queue(struct watch_node *node, struct watch_node **queue); /* from wherever it is */
void node_unsettle(struct watch_node *node, enum watch_scan scan);
bool seen_has(const struct watch_node *node, const char *name);
void seen_add(struct watch_node *node, const char *name);
void seen_remove(struct watch_node *node, const char *name);
void seen_clear(struct watch_node *node);

/* ---- watch_scan.c ---- */

/* Where the kernel's queue ends now. */
uint64_t position_now(const struct watches *all);

/* Begins the tree of a watch. RPC_OK, or a code and the sentence. */
must_check enum rpc_code scan_root(struct watch *watch, struct err *err);

/* An event reports that a directory has come to `name` in the parent. */
void scan_arrival(struct watch_node *parent, const char *name);

/* Does the scans that are due, and forgets names that need not be known any more. */
void scan_settle(struct watches *all);

#endif
