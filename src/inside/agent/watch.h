/* watch.h - directories watched through inotify, without RPC.
 *
 * One inotify instance serves all watches of the agent: by default the kernel gives a user 128 of
 * them, and all jails of a machine share that number. It exists while there is a watch.
 *
 * A watch is a tree of nodes, one per directory, that follows the kernel's events: it is as the
 * directories were at the event being handled, not as they are now. `position` counts the bytes of
 * the kernel's queue, so a moment can be named: what is queued now ends at a known position, and
 * an event at or after that position happened later. With it
 *   - a node ignores what happened before it was there (`since`);
 *   - the files that were in a new directory before its mark are found by a scan, and the events
 *     that tell of the same files are known by their position (`seen`): each file is told of once,
 *     and its CREATE first.
 *
 * Events wait in their wire form, each after its length, so that a thousand cost their bytes.
 *
 * Owns:     the inotify instance and its marks.
 * Needs:    /proc, to mark exactly the directory that was opened.
 * Blocks:   on the disk: for the thread pool.
 * Threads:  any one at a time for all watches together.
 */
#ifndef AGENT_WATCH_H
#define AGENT_WATCH_H

#include "inside/agent/entry.h"
#include "inside/agent/internal.h"

enum {
    WATCH_DIRS_MAX = 65536,                    /* of one recursive watch */
    WATCH_KEPT_BYTES_MAX = 8 * 1024 * 1024,    /* events of one watch that wait for their reader */
    WATCH_UPLOADS_MAX = 16,                    /* renames of uploads whose other half is to come */
    WATCH_SCRATCH_BYTES_MAX = 4 * 1024 * 1024, /* for one event on its way to its wire form */
};

struct watch_node; /* watch_tree.h */
struct watch_mark;

struct watch_plan {
    char path[AGENT_PATH_BYTES]; /* absolute and clean */
    bool recursive;
    bool include_entry;
    bool allow_network_mounts;
};

struct watch {
    /* For the owner, between two calls: the events to report. */
    struct buf events;
    bool ended; /* nothing more comes after these events */
    bool gone;  /* it ended because the directory did */
    enum rpc_code code;
    struct err err;
    void *owner;

    /* The rest is the tree's. */
    struct watches *all;
    struct watch_plan plan;
    char *real; /* the path without links */
    struct watch_node *root;
    struct watch_node *places; /* all but the root and the moving, by parent and name */
    struct watch_node *moving; /* taken from one place, not yet put in another */
    size_t dirs_n;
    bool touched;
    struct watch *next_touched;
};

struct watches {
    int fd; /* -1: no instance */
    size_t n;
    uint64_t read_bytes;          /* of the kernel's queue, ever */
    uint64_t position;            /* of the event being handled */
    struct watch_mark *marks;     /* by watch descriptor */
    struct watch_node *unsettled; /* nodes to scan */
    struct watch_node *waiting;   /* nodes that need the next events: to be found, or to forget */
    struct watch *touched;        /* watches that have something to tell */
    struct watch_upload {
        uint32_t cookie;
        bool is_new;
    } uploads[WATCH_UPLOADS_MAX];
    size_t uploads_next;
    struct arena arena; /* scratch for one event; the names below live in it */
    struct entry_names names;
};

struct watches *watches_new(void);

/* Begins to watch. RPC_OK, or the code to answer with and the sentence in err. */
must_check enum rpc_code watch_open(struct watches *all, const struct watch_plan *plan,
                                    struct watch **out, struct err *err);
void watch_close(struct watch *watch);

/* Handles all that the kernel had queued when it was called. */
void watches_drain(struct watches *all);

/* The next watch that has something new to tell, or NULL. */
struct watch *watches_touched(struct watches *all);

/* Gives the instance away, to be closed, once the last watch is closed. -1: there is none. */
int watches_release(struct watches *all);

/* ---- watch_scan.c and watch_tree.c tell of ---- */

/* name in node's directory; NULL: the directory itself. */
void watch_tell(const struct watch_node *node, const char *name, Filesystem__EventType type);

/* The watch ends: its nodes are gone when these return. */
void watch_gone(struct watch *watch, Filesystem__EventType how); /* so is its directory */
void watch_end(struct watch *watch, enum rpc_code code, const char *fmt, ...) printf_like(3, 4);

#endif
