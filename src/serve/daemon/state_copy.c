#include "serve/daemon/state_copy.h"

#include <errno.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "serve/daemon/drop.h"
#include "serve/daemon/lock.h"
#include "serve/daemon/prepare_host.h"
#include "serve/store/store.h"

int state_copy(const struct config *config, const struct paths *paths,
               void (*each)(void *ctx, const char *table, int64_t rows), void *ctx, struct err *err)
{
    struct server_user who;

    if (geteuid() != 0) {
        return err_set(err, EPERM, "this must be started as root");
    }
    if (!store_is_postgres(config->database)) {
        return err_set(err, EINVAL,
                       "name the database with --database postgresql://user@host/name");
    }
    scoped_fd lock = lock_take(paths->serve_lock, 0, err);
    if (lock == -EBUSY) {
        return err_set(err, EBUSY, "a daemon serves %s: stop it first", config->data);
    }
    if (lock < 0) {
        return lock;
    }
    int r = server_user_find(config->user, &who, err);
    r = r < 0 ? r : drop_privileges(&who, err);
    return r < 0 ? r : store_copy(paths->database, config->database, each, ctx, err);
}
