#include "keeper/jail/first_release.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "wire/keeper.h"

#define ELDERS "elders"
#define ELDERS_NEW ".elders" /* name of the directory until all jails are marked */

enum { PATH_BYTES = sizeof(ELDERS_NEW) + KEEPER_ID_BYTES };

static void path_of(const char *dir, const char *id, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "%s/%s", dir, id);
}

static int mark_in(struct pool *pool, const char *dir, const char *id, struct err *err)
{
    char path[PATH_BYTES];

    path_of(dir, id, path);
    scoped_fd fd = openat(pool_fd(pool), path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? err_sys(err, "mark jail %s as one of the first release", id) : 0;
}

bool first_release_is(struct pool *pool, const char *id)
{
    char path[PATH_BYTES];

    path_of(ELDERS, id, path);
    return faccessat(pool_fd(pool), path, F_OK, 0) == 0;
}

int first_release_mark(struct pool *pool, const char *id, struct err *err)
{
    return mark_in(pool, ELDERS, id, err);
}

void first_release_unmark(struct pool *pool, const char *id)
{
    char path[PATH_BYTES];

    path_of(ELDERS, id, path);
    (void)unlinkat(pool_fd(pool), path, 0);
}

/* ---- the start ---- */

struct round {
    struct pool *pool;
    struct cgroups *groups;
    int status;
    struct err *err;
};

static void found_running(void *ctx, const char *id)
{
    struct round *round = ctx;

    if (round->status == 0 && cgroups_populated(round->groups, id)) {
        round->status = mark_in(round->pool, ELDERS_NEW, id, round->err);
    }
}

static void found_marked(void *ctx, const char *id)
{
    struct round *round = ctx;

    if (!cgroups_populated(round->groups, id)) {
        first_release_unmark(round->pool, id);
    }
}

static int first_time(struct round *round)
{
    const int dir = pool_fd(round->pool);

    if (mkdirat(dir, ELDERS_NEW, 0700) < 0 && errno != EEXIST) {
        return err_sys(round->err, "make the list of jails of the first release");
    }
    int r = cgroups_each(round->groups, found_running, round, round->err);
    r = r < 0 ? r : round->status;
    if (r == 0 && renameat(dir, ELDERS_NEW, dir, ELDERS) < 0) {
        r = err_sys(round->err, "keep the list of jails of the first release");
    }
    if (r == 0 && fsync(dir) < 0) {
        r = err_sys(round->err, "sync the pool");
    }
    return r;
}

int first_release_open(struct pool *pool, struct cgroups *groups, struct err *err)
{
    struct round round = {.pool = pool, .groups = groups, .err = err};
    scoped_fd dir = openat(pool_fd(pool), ELDERS, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (dir < 0) {
        return errno == ENOENT ? first_time(&round)
                               : err_sys(err, "open the list of jails of the first release");
    }
    return pool_names_each(dir, POOL_SHOWN, found_marked, &round, err);
}
