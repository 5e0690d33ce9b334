#include "serve/daemon/prepare_host.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "keeper/disk/pool.h"
#include "keeper/probe.h"
#include "lib/base/fd.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "serve/daemon/builtin.h"
#include "serve/daemon/layer.h"
#include "serve/daemon/lock.h"
#include "serve/daemon/run.h"

enum { PREPARE_WAIT_MS = 20 * 60 * 1000 }; /* another start may be making a template */

int server_user_find(const char *user, struct server_user *out, struct err *err)
{
    errno = 0;
    const struct passwd *entry = getpwnam(user);
    if (!entry) {
        return err_set(err, ENOENT, "there is no user '%s'", user);
    }
    *out = (struct server_user){.uid = entry->pw_uid, .gid = entry->pw_gid};
    return 0;
}

static int prepare_user(const struct config *config, struct server_user *who, struct err *err)
{
    const char *const useradd[] = {"useradd",         "--system", "--user-group",      "--home-dir",
                                   config->data,      "--shell",  "/usr/sbin/nologin", "--comment",
                                   "atoll sandboxes", "--",       config->user,        NULL};

    if (server_user_find(config->user, who, err) == 0) {
        return who->uid != 0 ? 0 : err_set(err, EINVAL, "the server may not run as root");
    }
    (void)fprintf(stderr, "Making the system user %s\n", config->user);
    int r = run(useradd, err);
    if (r < 0) {
        return err_wrap(err, "make the user '%s' (or name an existing one with --user)",
                        config->user);
    }
    return server_user_find(config->user, who, err);
}

static int make_parents(const char *path, struct err *err)
{
    char part[DATA_PATH_BYTES];

    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0755) < 0 && errno != EEXIST) {
            return err_sys(err, "make the directory %s", part);
        }
    }
    return 0;
}

static int make_dir(const char *path, mode_t mode, const struct server_user *owner, struct err *err)
{
    if (mkdir(path, mode) < 0 && errno != EEXIST) {
        return err_sys(err, "make the directory %s", path);
    }
    scoped_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return err_sys(err, "open the directory %s", path);
    }
    if (fchown(fd, owner->uid, owner->gid) < 0 || fchmod(fd, mode) < 0) {
        return err_sys(err, "set owner and mode of %s", path);
    }
    return 0;
}

/* An existing file changes its owner only if it is a regular file with a single name. */
static int make_file(const char *path, mode_t mode, const struct server_user *owner,
                     struct err *err)
{
    struct stat st;
    scoped_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(err, "make %s", path);
    }
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1) {
        return err_set(err, EINVAL, "%s is not a file of the daemon: remove it", path);
    }
    if (fchown(fd, owner->uid, owner->gid) < 0 || fchmod(fd, mode) < 0) {
        return err_sys(err, "make %s", path);
    }
    return 0;
}

/* The server writes its URL and its domain into files of its own, in a directory that is not: so
 * root can keep sockets and locks beside it. Only its group may open the lock file, because a
 * process that can open it can hold the lock. */
static int make_run_files(const struct paths *paths, const struct server_user *who, struct err *err)
{
    const struct server_user root_and_group = {.uid = 0, .gid = who->gid};

    int r = make_file(paths->endpoint, 0644, who, err);
    if (r == 0) {
        r = make_file(paths->domain, 0644, who, err);
    }
    return r == 0 ? make_file(paths->serve_lock, 0640, &root_and_group, err) : r;
}

static int prepare_dirs(const struct config *config, const struct paths *paths,
                        const struct server_user *who, struct err *err)
{
    static const struct server_user root = {0, 0};

    int r = make_parents(config->data, err);
    if (r == 0) {
        r = make_dir(config->data, 0755, &root, err);
    }
    if (r == 0) {
        r = make_dir(paths->run, 0755, &root, err);
    }
    if (r == 0) {
        r = make_dir(paths->notices, 0755, &root, err);
    }
    if (r == 0) {
        r = make_dir(paths->state, 0700, who, err);
    }
    return r == 0 ? make_run_files(paths, who, err) : r;
}

/* Writes the findings that are not ok to a file, for the operator's page of the dashboard. A
 * failure is ignored: the start matters more. The file is replaced by a rename, so that a server
 * that reads it meanwhile finds the old text or the new. */
static void findings_write(const char *path, const struct probe_result *results, size_t n)
{
    static const char *const words[] = {
        [PROBE_OK] = "ok", [PROBE_DEGRADED] = "degraded", [PROBE_MISSING] = "missing"};
    char fresh[DATA_PATH_BYTES + 8];
    json_t *all = json_array();

    for (size_t i = 0; i < n; i++) {
        if (results[i].verdict != PROBE_OK) {
            (void)json_array_append_new(
                all, json_pack("{ssssso}", "verdict", words[results[i].verdict], "name",
                               results[i].name, "sentence", json_sentence(results[i].sentence)));
        }
    }
    (void)snprintf(fresh, sizeof(fresh), "%s.new", path);
    if (json_dump_file(all, fresh, JSON_COMPACT) < 0 || chmod(fresh, 0644) < 0 ||
        rename(fresh, path) < 0) {
        log_warn("write %s: %s", path, strerror(errno));
    }
    json_decref(all);
}

/* Logs the missing features of this machine, and refuses where no sandbox could start. */
static int check_machine(const struct config *config, const struct paths *paths, struct err *err)
{
    struct probe_result results[PROBE_RESULTS_MAX + 2];
    size_t n = probe_machine(config->data, results);

    results[n] = probe_merging(config->merge_pages);
    results[n + 1] = probe_size_bpf(config->bpf_figures);
    findings_write(paths->findings, results, n + 2); /* the keeper logs the last two itself */
    for (size_t i = 0; i < n; i++) {
        if (results[i].verdict == PROBE_MISSING) {
            return err_set(err, ENOTSUP,
                           "this machine cannot run sandboxes: %s (`atoll doctor` "
                           "shows every point)",
                           results[i].sentence);
        }
        if (results[i].verdict == PROBE_DEGRADED) {
            log_warn("%s: %s", results[i].name, results[i].sentence);
        }
    }
    return 0;
}

/* The pool stays mounted when it is closed here. */
static int prepare_pool(const struct config *config, const struct paths *paths, struct err *err)
{
    struct pool *pool = NULL;

    int r = pool_open(paths->pool, config->pool_bytes, &pool, err);
    if (r < 0) {
        return err_wrap(err, "prepare the pool");
    }
    if (!pool_limits_disk(pool)) {
        log_warn("sandboxes have no disk limit here: %s", pool_limits_why(pool));
    }
    pool_close(pool);
    return 0;
}

/* Tells the user first that the first start takes a while. */
static void tell_first(const struct config *config, const struct paths *paths)
{
    if (access(paths->state, F_OK) < 0) {
        (void)fprintf(stderr,
                      "Preparing %s: checking this machine and making the pool of sandbox disks\n",
                      config->data);
    }
}

int prepare_host(const struct config *config, const struct paths *paths, struct server_user *who,
                 struct err *err)
{
    tell_first(config, paths);
    int r = prepare_user(config, who, err);
    if (r == 0) {
        r = prepare_dirs(config, paths, who, err);
    }
    if (r == 0) {
        r = check_machine(config, paths, err);
    }
    if (r < 0) {
        return r;
    }
    if (lock_is_held(paths->prepare_lock)) {
        (void)fprintf(stderr, "Another process prepares %s: waiting until it is done\n",
                      config->data);
    }
    scoped_fd lock = lock_take(paths->prepare_lock, PREPARE_WAIT_MS, err);
    if (lock < 0) {
        return lock;
    }
    r = prepare_pool(config, paths, err);
    return r == 0 ? layer_prepare(config, paths, BUILTIN_BASE, NULL, err) : r;
}
