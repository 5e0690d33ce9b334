#include "inside/agent/proc_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "inside/agent/internal.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"
#include "lib/base/utf8.h"

enum {
    STAT_BYTES = 2048,
    STATUS_BYTES = 4096,
    STAT_FIELDS_MAX = 24, /* rss is the last that is read */
    NAMES_KEPT = 16,      /* users whose names are looked up; others are shown as numbers */
    USER_BYTES = 64,
};

/* ---- the walk ---- */

int proc_walk_open(struct proc_walk *walk)
{
    DIR *dir = opendir("/proc");

    *walk = (struct proc_walk){.dir = dir};
    return dir ? dirfd(dir) : -errno;
}

static pid_t pid_of(const char *name)
{
    char *end;
    unsigned long pid = strtoul(name, &end, 10);

    return name[0] >= '1' && name[0] <= '9' && !*end && pid < INT32_MAX ? (pid_t)pid : 0;
}

pid_t proc_walk_next(struct proc_walk *walk)
{
    struct dirent *entry;

    while (walk->seen < PROC_SEEN_MAX && (entry = readdir(walk->dir))) {
        pid_t pid = pid_of(entry->d_name);
        walk->seen++;
        if (pid > 0) {
            return pid;
        }
    }
    return 0;
}

void proc_walk_close(struct proc_walk *walk)
{
    (void)closedir(walk->dir);
}

/* ---- one process ---- */

static ssize_t file_read(int proc, pid_t pid, const char *file, char *text, size_t size)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
    return small_file_read(proc, path, text, size);
}

/* The name may hold spaces, brackets and newlines: it ends at the last bracket. */
int proc_stat_read(int proc, pid_t pid, struct proc_stat *out)
{
    char text[STAT_BYTES];
    unsigned long long fields[STAT_FIELDS_MAX + 1] = {0};
    ssize_t n = file_read(proc, pid, "stat", text, sizeof(text));
    const char *open = n > 0 ? strchr(text, '(') : NULL;
    const char *at = n > 0 ? strrchr(text, ')') : NULL;

    if (!open || !at || at < open || strlen(at) < 4) {
        return n < 0 ? (int)n : -ESRCH;
    }
    *out = (struct proc_stat){.state = at[2]};
    (void)snprintf(out->name, sizeof(out->name), "%.*s", (int)(at - open - 1), open + 1);
    at += 3;
    for (int field = 4; field <= STAT_FIELDS_MAX; field++) {
        char *end;
        fields[field] = strtoull(at, &end, 10);
        at = end;
    }
    out->ppid = (pid_t)fields[4];
    out->cpu_ticks = fields[14] + fields[15];
    out->start_ticks = fields[22];
    out->rss_pages = fields[24];
    return 0;
}

/* The effective ids: the second number of each line. */
static bool line_id(const char *status, const char *name, unsigned *out)
{
    const char *at = strstr(status, name);
    char *end;

    if (!at) {
        return false;
    }
    (void)strtoul(at + strlen(name), &end, 10);
    *out = (unsigned)strtoul(end, NULL, 10);
    return true;
}

int proc_ids_read(int proc, pid_t pid, uid_t *uid, gid_t *gid)
{
    char text[STATUS_BYTES];
    ssize_t n = file_read(proc, pid, "status", text, sizeof(text));

    if (n < 0) {
        return (int)n;
    }
    return line_id(text, "\nUid:\t", uid) && line_id(text, "\nGid:\t", gid) ? 0 : -ESRCH;
}

/* Words are separated by NULs. A process without a command line, such as one that has ended, is
 * shown by its name in brackets. */
json_t *proc_command(int proc, pid_t pid, const char *name)
{
    char raw[PROC_COMMAND_BYTES + 1], clean[PROC_COMMAND_BYTES * UTF8_REPLACEMENT_BYTES + 1];
    ssize_t n = file_read(proc, pid, "cmdline", raw, sizeof(raw));

    while (n > 0 && raw[n - 1] == '\0') {
        n--;
    }
    if (n <= 0) {
        n = snprintf(raw, sizeof(raw), "[%s]", name);
    }
    for (ssize_t i = 0; i < n; i++) {
        raw[i] = raw[i] == '\0' ? ' ' : raw[i];
    }
    struct str text = {raw, (size_t)n};
    if (n == PROC_COMMAND_BYTES) {
        text.len -= utf8_unfinished(text); /* cut within a letter */
    }
    return json_stringn(clean, utf8_repair(text, clean));
}

/* ---- the list ---- */

struct user_names {
    size_t n;
    struct {
        uid_t uid;
        char name[USER_BYTES];
    } kept[NAMES_KEPT];
};

static json_t *user_json(struct user_names *names, uid_t uid)
{
    char text[USER_BYTES], clean[USER_BYTES * UTF8_REPLACEMENT_BYTES + 1];
    size_t i = 0;

    while (i < names->n && names->kept[i].uid != uid) {
        i++;
    }
    if (i == names->n && names->n < NAMES_KEPT) {
        names->kept[i].uid = uid;
        user_name_of(uid, names->kept[i].name, sizeof(names->kept[i].name));
        names->n++;
    }
    (void)snprintf(text, sizeof(text), "%u", (unsigned)uid);
    const char *name = i < names->n ? names->kept[i].name : text;
    return json_stringn(clean, utf8_repair(str_of(name), clean));
}

static json_t *started_json(unsigned long long start_ticks)
{
    char stamp[CLOCK_STAMP_BYTES];
    struct timespec up = {0};
    long hz = sysconf(_SC_CLK_TCK);

    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    int64_t up_ms = (int64_t)up.tv_sec * 1000 + up.tv_nsec / 1000000;
    clock_stamp(clock_wall_ms() - up_ms + (int64_t)(start_ticks * 1000 / (uint64_t)hz), stamp);
    return json_string(stamp);
}

static const struct proc_tag *tag_of(const struct proc_tag *tags, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++) {
        if (tags[i].pid == pid) {
            return &tags[i];
        }
    }
    return NULL;
}

static json_t *text_json(const char *text)
{
    char clean[PROC_TAG_BYTES * UTF8_REPLACEMENT_BYTES + 1];

    return json_stringn(clean,
                        utf8_repair((struct str){text, strnlen(text, PROC_TAG_BYTES)}, clean));
}

static json_t *process_json(int proc, pid_t pid, const struct proc_stat *stat,
                            struct user_names *names, const struct proc_tag *tag)
{
    char state[2] = {stat->state, '\0'};
    json_t *row = json_object();
    uid_t uid;
    gid_t gid;

    (void)json_object_set_new(row, "pid", json_integer(pid));
    (void)json_object_set_new(row, "ppid", json_integer(stat->ppid));
    if (proc_ids_read(proc, pid, &uid, &gid) == 0) {
        (void)json_object_set_new(row, "user", user_json(names, uid));
    }
    (void)json_object_set_new(row, "state", json_string(state));
    (void)json_object_set_new(row, "name", text_json(stat->name));
    (void)json_object_set_new(row, "command", proc_command(proc, pid, stat->name));
    (void)json_object_set_new(row, "cpuSeconds",
                              json_real((double)stat->cpu_ticks / (double)sysconf(_SC_CLK_TCK)));
    (void)json_object_set_new(
        row, "memoryBytes",
        json_integer((json_int_t)(stat->rss_pages * (uint64_t)sysconf(_SC_PAGESIZE))));
    (void)json_object_set_new(row, "startedAt", started_json(stat->start_ticks));
    (void)json_object_set_new(row, "started", json_boolean(tag != NULL));
    if (tag && tag->tag[0]) {
        (void)json_object_set_new(row, "tag", text_json(tag->tag));
    }
    return row;
}

json_t *proc_processes(const struct proc_tag *tags, size_t tags_n)
{
    json_t *rows = json_array();
    struct user_names names = {0};
    struct proc_walk walk;
    json_int_t total = 0;
    int proc = proc_walk_open(&walk);
    pid_t pid;

    while (proc >= 0 && (pid = proc_walk_next(&walk)) > 0) {
        struct proc_stat stat;

        total++;
        if (json_array_size(rows) < PROC_ROWS_MAX && proc_stat_read(proc, pid, &stat) == 0) {
            (void)json_array_append_new(
                rows, process_json(proc, pid, &stat, &names, tag_of(tags, tags_n, pid)));
        }
    }
    if (proc >= 0) {
        proc_walk_close(&walk);
    }
    return json_pack("{sosIsb}", "processes", rows, "total", total, "truncated",
                     total > PROC_ROWS_MAX);
}

/* ---- signals ---- */

/* Runs the agent's own program: it unpacks an upload, for example. */
static bool is_helper(pid_t pid)
{
    struct stat own, its;
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    return stat("/proc/self/exe", &own) == 0 && stat(path, &its) == 0 && own.st_dev == its.st_dev &&
           own.st_ino == its.st_ino;
}

/* The descriptor stands for the process that is checked, also when its pid is given to another. A
 * thread has none. */
int proc_signal(pid_t pid, int signal, struct err *err)
{
    scoped_fd process = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

    if (pid == 1 || pid == getpid()) {
        return err_set(err, EPERM,
                       "process %d runs the sandbox and takes no signal: kill the "
                       "sandbox to end it",
                       (int)pid);
    }
    if (process < 0) {
        return err_set(err, ESRCH, "there is no process %d", (int)pid);
    }
    if (is_helper(pid)) {
        return err_set(err, EPERM,
                       "process %d is a helper of the sandbox's agent and takes no "
                       "signal",
                       (int)pid);
    }
    if (syscall(SYS_pidfd_send_signal, process, signal, NULL, 0) < 0) {
        return errno == ESRCH ? err_set(err, ESRCH, "there is no process %d", (int)pid)
                              : err_sys(err, "signal process %d", (int)pid);
    }
    return 0;
}
