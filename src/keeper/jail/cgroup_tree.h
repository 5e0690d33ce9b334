/* cgroup_tree.h - the hierarchies that the functions of cgroup.h work in. For cgroup*.c alone. */
#ifndef JAIL_CGROUP_TREE_H
#define JAIL_CGROUP_TREE_H

#include <fcntl.h>
#include <limits.h>

#include "keeper/jail/cgroup.h"

enum {
    CGROUP_STAT_BYTES = 8192,              /* the longest file that is read for its figures */
    CGROUP_PATH_BYTES = NAME_MAX + 1 + 32, /* a group's name, a slash and a file's name */
};

struct hierarchy {
    int dir_fd; /* atoll-<instance> */
    bool v2;
    unsigned controllers; /* those that are limited here */
};

struct cgroups {
    struct hierarchy at[CGROUP_MOUNTS_MAX]; /* at[0] is v2, always */
    size_t n;
    char parent[80];
};

/* A descriptor of the group `name` in that hierarchy, or -1 with errno set. */
static inline int cgroup_leaf_open(const struct hierarchy *h, const char *name)
{
    return openat(h->dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Calls `each` for every group of the unified hierarchy: those of jails, or (hidden) those of the
 * keeper's own work, whose names begin with a dot. */
must_check int cgroup_names_each(struct cgroups *groups, bool hidden,
                                 void (*each)(void *ctx, const char *name), void *ctx,
                                 struct err *err);

#endif
