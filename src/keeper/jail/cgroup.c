#include "keeper/jail/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "keeper/disk/mounts.h"
#include "keeper/jail/cgroup_tree.h"
#include "keeper/jail/host.h"
#include "keeper/jail/kernel_setting.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"
#include "lib/base/str.h"

enum { MOUNTINFO_BYTES = 256 * 1024 };

static const struct {
    const char *name;
    unsigned controller;
    uint32_t lack;
} controllers[] = {
    {"cpu", CGROUP_CPU, KEEPER_LACKS_CPU_LIMIT},
    {"memory", CGROUP_MEMORY, KEEPER_LACKS_MEMORY_LIMIT},
    {"pids", CGROUP_PIDS, KEEPER_LACKS_PIDS_LIMIT},
};

uint64_t cgroup_stat_value(const char *text, const char *key)
{
    size_t len = strlen(key);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ') {
            return strtoull(line + len + 1, NULL, 10);
        }
    }
    return 0;
}

/* ---- finding the hierarchies ---- */

static bool word_in(struct str words, char sep, const char *word)
{
    struct str part;

    while (str_split(&words, sep, &part)) {
        if (str_eq(str_trim(part), str_of(word))) {
            return true;
        }
    }
    return false;
}

static unsigned controllers_in(struct str words, char sep)
{
    unsigned found = 0;

    for (size_t i = 0; i < countof(controllers); i++) {
        found |= word_in(words, sep, controllers[i].name) ? controllers[i].controller : 0;
    }
    return found;
}

/* Reads one line of mountinfo: the fifth field, and type and options after " - ". */
static bool mount_line(struct str line, struct str *path, struct str *type, struct str *options)
{
    struct str field = {0};
    int at = 0;

    while (str_split(&line, ' ', &field) && !(at >= 6 && str_eq(field, STR("-")))) {
        *path = ++at == 5 ? field : *path;
    }
    return str_split(&line, ' ', type) && str_split(&line, ' ', &field) &&
           str_split(&line, ' ', options);
}

void cgroup_mounts_find(const char *mountinfo, struct cgroup_mounts *out)
{
    struct str rest = str_of(mountinfo);
    struct str line;
    unsigned claimed = 0;

    *out = (struct cgroup_mounts){.n = 1};
    while (str_split(&rest, '\n', &line)) {
        struct str path = {0}, type = {0}, options = {0};
        if (!mount_line(line, &path, &type, &options)) {
            continue;
        }
        if (str_eq(type, STR("cgroup2")) && !out->at[0].path[0]) {
            (void)str_copy(out->at[0].path, CGROUP_MOUNT_PATH_BYTES, path);
        }
        unsigned found = controllers_in(options, ',') & ~claimed;
        if (str_eq(type, STR("cgroup")) && found && out->n < CGROUP_MOUNTS_MAX &&
            str_copy(out->at[out->n].path, CGROUP_MOUNT_PATH_BYTES, path)) {
            out->at[out->n++].controllers = found;
            claimed |= found;
        }
    }
}

static int parent_open(int root_fd, const char *name, struct err *err)
{
    if (mkdirat(root_fd, name, 0755) < 0 && errno != EEXIST) {
        return err_sys(err, "make the control group %s", name);
    }
    int fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, "open the control group %s", name) : fd;
}

/* Enables our controllers for the children of dir_fd, one by one: a controller that is refused must
 * not prevent the others. */
static void controllers_enable(int dir_fd)
{
    char text[CGROUP_STAT_BYTES];
    struct err ignored;

    (void)small_file_read(dir_fd, "cgroup.controllers", text, sizeof(text));
    text[strcspn(text, "\n")] = '\0';
    for (size_t i = 0; i < countof(controllers); i++) {
        if (word_in(str_of(text), ' ', controllers[i].name)) {
            char command[16];
            (void)snprintf(command, sizeof(command), "+%s", controllers[i].name);
            (void)!kernel_setting_write(dir_fd, "cgroup.subtree_control", command, &ignored);
        }
    }
}

static int unified_open(struct cgroups *groups, const char *path, struct err *err)
{
    /* A second mount would reset the options of the host's mount. So cgroup2 is mounted only when
     * the host has not mounted it, and detached, so that the host sees no new mount. */
    scoped_fd root = path[0] ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                             : mounts_new("cgroup2", NULL, 0, err);
    if (root < 0) {
        return path[0] ? err_sys(err, "open %s", path) : root;
    }
    controllers_enable(root);
    scoped_fd dir = parent_open(root, groups->parent, err);
    if (dir < 0) {
        return dir;
    }
    controllers_enable(dir);

    char text[CGROUP_STAT_BYTES];
    (void)small_file_read(dir, "cgroup.subtree_control", text, sizeof(text));
    text[strcspn(text, "\n")] = '\0';
    groups->at[0] = (struct hierarchy){
        .v2 = true,
        .controllers = controllers_in(str_of(text), ' '),
        .dir_fd = move_fd(&dir),
    };
    groups->n = 1;
    return 0;
}

static int legacy_open(struct cgroups *groups, const char *path, unsigned found, struct err *err)
{
    scoped_fd root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return err_sys(err, "open %s", path);
    }
    int dir = parent_open(root, groups->parent, err);
    if (dir < 0) {
        return dir;
    }
    groups->at[groups->n++] = (struct hierarchy){.dir_fd = dir, .controllers = found};
    return 0;
}

static void cgroups_closep(struct cgroups **groups)
{
    cgroups_close(*groups);
}

int cgroups_open(const char *instance, struct cgroups **out, struct err *err)
{
    scoped(cgroups_closep) struct cgroups *groups = xnew(struct cgroups);
    struct cgroup_mounts mounts;

    (void)snprintf(groups->parent, sizeof(groups->parent), "atoll-%s", instance);
    char *text = xcalloc(1, MOUNTINFO_BYTES);
    (void)small_file_read(AT_FDCWD, "/proc/self/mountinfo", text, MOUNTINFO_BYTES);
    cgroup_mounts_find(text, &mounts);
    free(text);

    int r = unified_open(groups, mounts.at[0].path, err);
    for (size_t i = 1; r == 0 && i < mounts.n; i++) {
        unsigned wanted = mounts.at[i].controllers & ~groups->at[0].controllers;
        r = wanted ? legacy_open(groups, mounts.at[i].path, wanted, err) : 0;
    }
    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < groups->n; i++) {
        if (groups->at[i].controllers & CGROUP_PIDS) {
            host_pids_limit(groups->at[i].dir_fd);
        }
    }
    *out = move_ptr(&groups);
    return 0;
}

void cgroups_close(struct cgroups *groups)
{
    if (!groups) {
        return;
    }
    if (groups->n) {
        cgroups_task_sweep(groups, 0);
    }
    for (size_t i = 0; i < groups->n; i++) {
        scoped_fd above = openat(groups->at[i].dir_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void)unlinkat(above, groups->parent, AT_REMOVEDIR); /* EBUSY while jails are in it */
        fd_closep(&groups->at[i].dir_fd);
    }
    free(groups);
}

uint32_t cgroups_lacks(const struct cgroups *groups)
{
    unsigned found = 0;
    uint32_t lacks = 0;

    for (size_t i = 0; i < groups->n; i++) {
        found |= groups->at[i].controllers;
    }
    for (size_t i = 0; i < countof(controllers); i++) {
        lacks |= found & controllers[i].controller ? 0 : controllers[i].lack;
    }
    return lacks;
}

/* ---- all groups ---- */

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int cgroup_names_each(struct cgroups *groups, bool hidden,
                      void (*each)(void *ctx, const char *name), void *ctx, struct err *err)
{
    int fd = openat(groups->at[0].dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        fd_closep(&fd);
        return err_sys(err, "list the control groups");
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_type == DT_DIR && (entry->d_name[0] == '.') == hidden &&
            !is_dots(entry->d_name)) {
            each(ctx, entry->d_name);
        }
    }
    return 0;
}

int cgroups_each(struct cgroups *groups, void (*each)(void *ctx, const char *id), void *ctx,
                 struct err *err)
{
    return cgroup_names_each(groups, false, each, ctx, err);
}
