#include "keeper/checkpoint/reason.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "keeper/checkpoint/criu.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"
#include "lib/base/str.h"

/* Such a socket closes when its peer notices: the next attempt may succeed. */
#define REASON_OUTSIDE "a unix socket whose other end is outside the sandbox"

#define MQUEUE_MAGIC 0x19800202

enum {
    LOG_BYTES_MAX = 16 * 1024 * 1024,
    STATUS_BYTES = 4096,
    THREADS_BYTES = 1024 * 1024,
};

/* Reads at most size - 1 bytes; the caller frees the text. "" when it cannot be read. */
static char *text_read(int dir_fd, const char *name, size_t size)
{
    char *text = xcalloc(1, size);

    (void)small_file_read(dir_fd, name, text, size);
    return text;
}

/* ---- processes ---- */

/* The text after "Name:" on its line of /proc/<pid>/status. */
static const char *status_field(const char *status, const char *name)
{
    const char *line = strstr(status, name);

    line = line ? line + strlen(name) : "";
    return line + strspn(line, " \t");
}

struct process {
    int inner; /* its pid inside the jail */
    char name[32];
    char state;
    int tracer;
};

static bool process_read(pid_t pid, struct process *out)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    scoped_text status = text_read(AT_FDCWD, path, STATUS_BYTES);
    if (!status[0]) {
        return false;
    }
    const char *name = status_field(status, "Name:");
    (void)snprintf(out->name, sizeof(out->name), "%.*s", (int)strcspn(name, "\n"), name);
    out->state = *status_field(status, "\nState:");
    out->tracer = (int)strtol(status_field(status, "\nTracerPid:"), NULL, 10);
    const char *numbers = status_field(status, "\nNSpid:");
    size_t line = strcspn(numbers, "\n");
    const char *last = numbers + line;
    while (last > numbers && last[-1] != '\t' && last[-1] != ' ') {
        last--;
    }
    out->inner = (int)strtol(last, NULL, 10);
    return true;
}

static int process_still(pid_t pid, struct err *err)
{
    struct process process;

    if (!process_read(pid, &process)) {
        return 0; /* gone */
    }
    if (process.tracer) {
        return err_set(err, ENOTSUP, "process %d (%s) is being traced by another", process.inner,
                       process.name);
    }
    if (process.state == 'D') {
        return err_set(err, EAGAIN, "process %d (%s) is in the middle of a system call",
                       process.inner, process.name);
    }
    return 0;
}

int reason_frozen(int group_fd, struct err *err)
{
    scoped_text threads = text_read(group_fd, "cgroup.threads", THREADS_BYTES);
    int r = 0;

    for (char *at = threads; r == 0 && *at; at += *at == '\n') {
        pid_t tid = (pid_t)strtol(at, &at, 10);
        r = process_still(tid, err);
    }
    return r;
}

/* Descriptors that CRIU cannot dump, as /proc shows them. */
static const struct {
    const char *begins;
    const char *what;
} undumpable[] = {
    {"anon_inode:[userfaultfd]", "a userfaultfd"},        {"anon_inode:[io_uring]", "an io_uring"},
    {"anon_inode:[perf_event]", "a performance counter"}, {"anon_inode:bpf", "a BPF object"},
    {"anon_inode:[fanotify]", "a fanotify group"},
};

static int descriptor_check(int dir, const char *fd, const struct process *process, struct err *err)
{
    char target[64] = "";
    struct statfs fs;

    if (readlinkat(dir, fd, target, sizeof(target) - 1) < 0) {
        return 0; /* it was closed meanwhile */
    }
    for (size_t i = 0; i < countof(undumpable); i++) {
        if (strncmp(target, undumpable[i].begins, strlen(undumpable[i].begins)) == 0) {
            return err_set(err, ENOTSUP, "process %d (%s) holds %s, which cannot be saved",
                           process->inner, process->name, undumpable[i].what);
        }
    }
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%.10s", dir, fd);
    if (target[0] == '/' && statfs(path, &fs) == 0 && fs.f_type == MQUEUE_MAGIC) {
        return err_set(err, ENOTSUP,
                       "process %d (%s) holds the message queue %s, which cannot be saved",
                       process->inner, process->name, target);
    }
    return 0;
}

static int process_running_check(pid_t pid, struct err *err)
{
    struct process process;
    char path[32];
    int r = 0;

    if (!process_read(pid, &process)) {
        return 0; /* gone */
    }
    if (process.tracer) {
        return err_set(err, ENOTSUP, "process %d (%s) is being traced by another", process.inner,
                       process.name);
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && r == 0 && (entry = readdir(dir));) {
        r = entry->d_name[0] == '.' ? 0
                                    : descriptor_check(dirfd(dir), entry->d_name, &process, err);
    }
    if (dir) {
        (void)closedir(dir);
    }
    return r;
}

int reason_running(int group_fd, struct err *err)
{
    scoped_text processes = text_read(group_fd, "cgroup.procs", THREADS_BYTES);
    int r = 0;

    for (char *at = processes; r == 0 && *at; at += *at == '\n') {
        r = process_running_check((pid_t)strtol(at, &at, 10), err);
    }
    return r;
}

/* ---- CRIU's log ---- */

/* CRIU's error messages and their meaning, specific ones first. */
static const struct {
    const char *says;
    const char *what;
} kinds[] = {
    {"userfaultfd", "a userfaultfd"},
    {"io_uring", "an io_uring"},
    {"perf_event", "a performance counter"},
    {"bpf", "a BPF object"},
    {"landlock", "a Landlock ruleset"},
    {"secretmem", "secret memory"},
    {"vsock", "a vsock socket"},
    {"mptcp", "an MPTCP socket"},
    {"fanotify", "a fanotify group"},
    {"unsupported proto 1 ", "a socket for ping"},
    {"External socket is used", REASON_OUTSIDE},
    {"dump half of stream", REASON_OUTSIDE},
    {"Unix socket", REASON_OUTSIDE},
    {"nested", "a namespace of its own"},
    {"Unsupported proto", "a socket of an unusual protocol"},
    {"family", "a socket of an unusual family"},
    {"file system", "a file on an unusual file system"},
    {"Can't dump file", "a file of an unusual kind"},
    {"unsupported", "something unusual"},
};

static void kind_find(struct str line, struct reason *out)
{
    char text[512];

    (void)snprintf(text, sizeof(text), "%.*s", (int)line.len, line.at);
    for (size_t i = 0; i < countof(kinds) && !out->what[0]; i++) {
        if (strcasestr(text, kinds[i].says)) {
            (void)snprintf(out->what, sizeof(out->what), "%s", kinds[i].what);
            out->passes = strcmp(out->what, REASON_OUTSIDE) == 0;
        }
    }
}

static struct str after(struct str line, const char *mark)
{
    char text[1024];

    (void)snprintf(text, sizeof(text), "%.*s", (int)line.len, line.at);
    const char *at = strstr(text, mark);
    return at ? str_skip(line, (size_t)(at - text) + strlen(mark)) : (struct str){0};
}

/* "(00.012) Error (criu/x.c:12): words" */
static bool error_words(struct str line, struct str *out)
{
    struct str rest = after(line, " Error (");

    if (!rest.len || after(rest, "RLIMIT").len) {
        return false;
    }
    *out = after(rest, "): ");
    return out->len > 0;
}

void reason_find(const char *log, struct reason *out)
{
    struct str rest = str_of(log);
    struct str line, words;

    *out = (struct reason){0};
    while (str_split(&rest, '\n', &line)) {
        struct str task = after(line, "Dumping task (pid: ");
        if (task.len && !out->detail[0]) {
            out->pid = (pid_t)strtol(task.at, NULL, 10);
        }
        if (!error_words(line, &words)) {
            continue;
        }
        if (!out->detail[0]) {
            (void)snprintf(out->detail, sizeof(out->detail), "%.*s", (int)words.len, words.at);
        }
        kind_find(words, out);
    }
}

/* Keeps the log of the last failure in the pool, for the operator. */
static char *log_take(int work_fd, const struct pool *pool)
{
    char *log = text_read(work_fd, CRIU_LOG, LOG_BYTES_MAX);
    scoped_fd fd = openat(pool_fd(pool), CRIU_LOG,
                          O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0 || write(fd, log, strlen(log)) < 0) {
        log_warn("CRIU's log cannot be kept: %s", strerrordesc_np(errno));
    }
    return log;
}

/* Without an error message in the log the cause is not the process: CRIU was killed. */
static int process_explain(const struct reason *reason, const struct process *process,
                           struct err *err)
{
    if (reason->what[0]) {
        return err_set(err, reason->passes ? EAGAIN : ENOTSUP,
                       "process %d (%s) holds %s, which cannot be saved", process->inner,
                       process->name, reason->what);
    }
    return err_set(err, reason->detail[0] ? ENOTSUP : EIO, "process %d (%s) cannot be saved: %s",
                   process->inner, process->name,
                   reason->detail[0] ? reason->detail : "CRIU gives no reason");
}

int reason_dump(int work_fd, const struct jail_shared *shared, const char *id, struct err *err)
{
    scoped_text log = log_take(work_fd, shared->pool);
    struct reason reason;
    struct process process;

    reason_find(log, &reason);
    log_debug("jail %s cannot be saved: %s", id, reason.detail[0] ? reason.detail : "no reason");
    if (strstr(reason.detail, strerrordesc_np(ENOSPC))) {
        return err_set(err, ENOSPC, "there is no room on this machine for its memory");
    }
    if (strstr(reason.detail, strerrordesc_np(EDQUOT))) {
        return err_set(err, ENOSPC,
                       "its processes share too much memory: each is saved with a copy of its own");
    }
    if (reason.pid && cgroups_holds(shared->groups, id, reason.pid) &&
        process_read(reason.pid, &process)) {
        return process_explain(&reason, &process, err);
    }
    return err_set(err, EIO, "its processes cannot be saved: %s",
                   reason.detail[0] ? reason.detail : "CRIU gives no reason");
}

int reason_restore(int work_fd, const struct jail_shared *shared, struct err *err)
{
    scoped_text log = log_take(work_fd, shared->pool);
    struct reason reason;

    reason_find(log, &reason);
    return err_set(err, EIO, "its processes cannot be restored: %s",
                   reason.detail[0] ? reason.detail : "CRIU gives no reason");
}
