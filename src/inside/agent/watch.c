/* watch.c - the kernel's events become the API's. */
#include "inside/agent/watch.h"

#include <errno.h>
#include <limits.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/inotify.h>

#include "inside/agent/atomic_file.h"
#include "inside/agent/filesystem_ops.h"
#include "inside/agent/watch_tree.h"
#include "lib/base/alloc.h"

#define CREATE FILESYSTEM__EVENT_TYPE__EVENT_TYPE_CREATE
#define WRITE FILESYSTEM__EVENT_TYPE__EVENT_TYPE_WRITE
#define REMOVE FILESYSTEM__EVENT_TYPE__EVENT_TYPE_REMOVE
#define RENAME FILESYSTEM__EVENT_TYPE__EVENT_TYPE_RENAME
#define CHMOD FILESYSTEM__EVENT_TYPE__EVENT_TYPE_CHMOD

enum {
    READ_BYTES = 64 * 1024,
    SCRATCH_KEPT_BYTES = 1024 * 1024,
};

/* ---- telling ---- */

static void touch(struct watch *watch)
{
    if (!watch->touched) {
        watch->touched = true;
        watch->next_touched = watch->all->touched;
        watch->all->touched = watch;
    }
}

struct watch *watches_touched(struct watches *all)
{
    struct watch *watch = all->touched;

    if (watch) {
        all->touched = watch->next_touched;
        watch->touched = false;
    }
    return watch;
}

void watch_end(struct watch *watch, enum rpc_code code, const char *fmt, ...)
{
    va_list ap;

    if (watch->ended) {
        return;
    }
    watch->ended = true;
    watch->code = code;
    va_start(ap, fmt);
    (void)vsnprintf(watch->err.msg, sizeof(watch->err.msg), fmt, ap);
    va_end(ap);
    if (watch->root) {
        node_drop(watch->root);
    }
    touch(watch);
}

void watch_gone(struct watch *watch, Filesystem__EventType how)
{
    watch_tell(watch->root, NULL, how);
    watch->gone = !watch->ended;
    watch_end(watch, RPC_NOT_FOUND, "the watched directory '%.160s' is not there any more",
              watch->plan.path);
}

static void scratch_reset(struct watches *all)
{
    arena_fini(&all->arena);
    all->names = (struct entry_names){0};
}

/* Reads the file now; gives nothing when it was moved since. */
static Filesystem__EntryInfo *entry_of(const struct watch *watch, const char *below)
{
    Filesystem__EntryInfo *entry = NULL;
    char real[AGENT_PATH_BYTES];
    char shown[AGENT_PATH_BYTES];

    if (path_join(watch->real, below, real) < 0 || path_join(watch->plan.path, below, shown) < 0 ||
        entry_read(&watch->all->arena, &watch->all->names, real, shown, &entry) < 0) {
        return NULL;
    }
    return entry;
}

static int event_append(struct buf *events, const Filesystem__FilesystemEvent *event)
{
    uint32_t len = (uint32_t)filesystem__filesystem_event__get_packed_size(event);
    char *at;
    int r = buf_reserve(events, sizeof(len) + len, &at);

    if (r == 0) {
        memcpy(at, &len, sizeof(len));
        (void)filesystem__filesystem_event__pack(event, (uint8_t *)at + sizeof(len));
        buf_commit(events, sizeof(len) + len);
    }
    return r;
}

static bool carries_entry(Filesystem__EventType type)
{
    return type == CREATE || type == WRITE || type == CHMOD;
}

void watch_tell(const struct watch_node *node, const char *name, Filesystem__EventType type)
{
    struct watch *watch = node->watch;
    Filesystem__FilesystemEvent event;
    char below[AGENT_PATH_BYTES];

    if (watch->ended) {
        return;
    }
    if (watch->all->arena.used_bytes > SCRATCH_KEPT_BYTES) {
        scratch_reset(watch->all);
    }
    filesystem__filesystem_event__init(&event);
    event.type = type;
    if (node_path(node, name, below) < 0) {
        watch_end(watch, RPC_OUT_OF_RANGE, "a path below '%.160s' is longer than %d bytes",
                  watch->plan.path, AGENT_PATH_BYTES - 1);
        return;
    }
    event.name = entry_text(&watch->all->arena, str_of(below));
    if (watch->plan.include_entry && carries_entry(type)) {
        event.entry = entry_of(watch, below);
    }
    if (!event.name || event_append(&watch->events, &event) < 0) {
        watch_end(watch, RPC_RESOURCE_EXHAUSTED,
                  "more than %d bytes of events of '%.160s' wait to be read", WATCH_KEPT_BYTES_MAX,
                  watch->plan.path);
        return;
    }
    touch(watch);
}

/* ---- uploads: a temporary file that is renamed to its target (atomic_file.h) ---- */

static void upload_note(struct watches *all, const struct inotify_event *event)
{
    if (event->mask & IN_MOVED_FROM) {
        all->uploads[all->uploads_next++ % WATCH_UPLOADS_MAX] = (struct watch_upload){
            event->cookie, strncmp(event->name, ATOMIC_FILE_NEW, sizeof(ATOMIC_FILE_NEW) - 1) == 0};
    }
}

static const struct watch_upload *upload_find(const struct watches *all,
                                              const struct inotify_event *event)
{
    if (!(event->mask & IN_MOVED_TO)) {
        return NULL;
    }
    for (size_t i = 0; i < WATCH_UPLOADS_MAX; i++) {
        if (all->uploads[i].cookie == event->cookie) {
            return &all->uploads[i];
        }
    }
    return NULL;
}

/* As if the file had been written where it is: made, given to its owner, written; or, when it was
 * there, given to its owner and written. */
static void upload_tell(const struct watch_node *node, const char *name, bool is_new)
{
    static const Filesystem__EventType types[] = {CREATE, CHMOD, WRITE};
    const struct watch *watch = node->watch;

    for (size_t i = is_new ? 0 : 1; i < countof(types) && !watch->ended; i++) {
        watch_tell(node, name, types[i]);
    }
}

/* ---- a single event in a single watch; if reporting it ends the watch, the node is gone ---- */

/* Until all that was queued before the scan is handled, a name's first event is its creation,
 * whatever the kernel saw of it. */
static bool in_window(const struct watch_node *node)
{
    return node->watch->all->position < node->seen_until;
}

/* Notes that a name has been told of, or has gone. True when it had been told of in the window. */
static bool mention(struct watch_node *node, const char *name, bool stays)
{
    bool known = in_window(node) && seen_has(node, name);

    if (in_window(node) && stays) {
        seen_add(node, name);
    } else if (known) {
        seen_remove(node, name);
    }
    return known;
}

static void on_arrival(struct watch_node *node, const struct inotify_event *event)
{
    const struct watch *watch = node->watch;
    const struct watch_upload *upload = upload_find(watch->all, event);
    bool known = mention(node, event->name, true);

    if (upload) {
        upload_tell(node, event->name, upload->is_new && !known);
        return;
    }
    if (!known) {
        watch_tell(node, event->name, CREATE);
    } else if (event->mask & IN_MOVED_TO && !(event->mask & IN_ISDIR)) {
        watch_tell(node, event->name, WRITE); /* something else may be there than was told of */
    }
    if (watch->ended || !watch->plan.recursive || !(event->mask & IN_ISDIR)) {
        return;
    }
    struct watch_node *moved = event->mask & IN_MOVED_TO ? node_moving(watch, event->cookie) : NULL;
    if (moved) {
        (void)node_put(moved, node, event->name); /* else its IN_MOVE_SELF drops it */
    } else {
        scan_arrival(node, event->name);
    }
}

static void on_departure(struct watch_node *node, const struct inotify_event *event)
{
    const struct watch *watch = node->watch;
    bool moved = event->mask & IN_MOVED_FROM;

    if (in_window(node) && !mention(node, event->name, false)) {
        watch_tell(node, event->name, CREATE);
    }
    if (!watch->ended) {
        watch_tell(node, event->name, moved ? RENAME : REMOVE);
    }
    if (watch->ended || !(event->mask & IN_ISDIR)) {
        return;
    }
    struct watch_node *child = node_find(node, event->name);
    if (!child || watch->all->position < child->since) {
        return; /* one that has come to this name later */
    }
    if (moved) {
        node_take(child, event->cookie);
    } else {
        node_drop(child);
    }
}

static void on_change(struct watch_node *node, const struct inotify_event *event)
{
    const struct watch *watch = node->watch;

    if (in_window(node) && !mention(node, event->name, true)) {
        watch_tell(node, event->name, CREATE);
    }
    if (!watch->ended) {
        watch_tell(node, event->name, event->mask & IN_ATTRIB ? CHMOD : WRITE);
    }
}

/* The watched directory itself. */
static void on_root(const struct watch_node *root, const struct inotify_event *event)
{
    if (event->mask & IN_MOVE_SELF) {
        watch_gone(root->watch, RENAME);
    } else if (event->mask & (IN_DELETE_SELF | IN_UNMOUNT | IN_IGNORED)) {
        watch_gone(root->watch, REMOVE);
    } else if (event->mask & IN_ATTRIB) {
        watch_tell(root, NULL, CHMOD);
    }
}

/* A directory below it, whose changes its parent's mark reports. A directory that was moved away is
 * out of the tree: otherwise its new parent's mark would have reported where it went. */
static void on_self(struct watch_node *node, const struct inotify_event *event)
{
    bool left = event->mask & IN_MOVE_SELF && node->moving;

    if (left || event->mask & (IN_IGNORED | IN_UNMOUNT)) {
        node_drop(node);
    }
}

static void node_event(struct watch_node *node, const struct inotify_event *event)
{
    if (event->len == 0 && !node->parent) {
        on_root(node, event);
    } else if (event->len == 0) {
        on_self(node, event);
    } else if (event->mask & (IN_CREATE | IN_MOVED_TO)) {
        on_arrival(node, event);
    } else if (event->mask & (IN_DELETE | IN_MOVED_FROM)) {
        on_departure(node, event);
    } else if (event->mask & (IN_MODIFY | IN_ATTRIB)) {
        on_change(node, event);
    }
}

/* ---- the queue ---- */

/* Events were lost, and it is not known which. */
static void on_overflow(struct watches *all)
{
    struct watch_mark *mark;

    while ((mark = all->marks)) {
        watch_end(mark->nodes->watch, RPC_DATA_LOSS,
                  "events came faster than they could be read and some of '%.100s' are lost "
                  "(fs.inotify.max_queued_events): watch it anew",
                  mark->nodes->watch->plan.path);
    }
}

static void event_handle(struct watches *all, const struct inotify_event *event)
{
    struct watch_mark *mark = mark_find(all, event->wd);
    struct watch_node *node, *next;

    if (event->mask & IN_Q_OVERFLOW) {
        on_overflow(all);
        return;
    }
    if (event->len > 0 && atomic_file_is_temporary(event->name)) {
        upload_note(all, event);
        return;
    }
    if (!mark) {
        return; /* of a mark that is removed */
    }
    /* A watch has one node on a mark, so no handler drops another one of these. */
    DL_FOREACH_SAFE2 (mark->nodes, node, next, mark_next) {
        if (all->position >= node->since) {
            node_event(node, event);
        }
    }
}

static bool queue_read(struct watches *all)
{
    alignas(struct inotify_event) char bytes[READ_BYTES];
    ssize_t n = read(all->fd, bytes, sizeof(bytes));

    if (n <= 0) {
        return n < 0 && errno == EINTR;
    }
    all->read_bytes += (uint64_t)n;
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *event = (const struct inotify_event *)(bytes + at);
        event_handle(all, event);
        all->position += sizeof(*event) + event->len;
        at += (ssize_t)(sizeof(*event) + event->len);
    }
    return true;
}

void watches_drain(struct watches *all)
{
    if (all->fd < 0) {
        return;
    }
    uint64_t end = position_now(all);
    while (all->read_bytes < end && queue_read(all)) {
    }
    scan_settle(all);
    scratch_reset(all);
}

/* ---- life ---- */

struct watches *watches_new(void)
{
    struct watches *all = xnew(struct watches);

    all->fd = -1;
    all->arena = ARENA(WATCH_SCRATCH_BYTES_MAX);
    return all;
}

int watches_release(struct watches *all)
{
    return all->n == 0 ? move_fd(&all->fd) : -1;
}

static void touched_remove(struct watch *watch)
{
    struct watch **at = &watch->all->touched;

    while (watch->touched && *at) {
        if (*at == watch) {
            *at = watch->next_touched;
            watch->touched = false;
        } else {
            at = &(*at)->next_touched;
        }
    }
}

void watch_close(struct watch *watch)
{
    if (watch->root) {
        node_drop(watch->root);
    }
    touched_remove(watch);
    watch->all->n--;
    buf_fini(&watch->events);
    free(watch->real);
    free(watch);
}

enum rpc_code watch_open(struct watches *all, const struct watch_plan *plan, struct watch **out,
                         struct err *err)
{
    char real[PATH_MAX];
    enum rpc_code code = fs_resolve_directory(plan->path, real, err);

    if (code != RPC_OK) {
        return code;
    }
    struct watch *watch = xnew(struct watch);
    watch->all = all;
    watch->plan = *plan;
    watch->real = xcalloc(1, strlen(real) + 1); /* at most PATH_MAX */
    memcpy(watch->real, real, strlen(real));
    buf_init(&watch->events, WATCH_KEPT_BYTES_MAX);
    all->n++;
    code = scan_root(watch, err);
    if (code != RPC_OK) {
        watch_close(watch);
        return code;
    }
    *out = watch;
    return RPC_OK;
}
