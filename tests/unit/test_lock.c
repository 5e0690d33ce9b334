#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"
#include "lib/base/fd.h"
#include "serve/daemon/lock.h"
#include "tmpdir.h"

static void one_holder(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[64];
    struct err err;

    (void)snprintf(path, sizeof(path), "%s/lock", dir.path);
    CHECK(!lock_is_held(path));
    scoped_fd first = lock_take(path, 0, &err);
    CHECK(first >= 0);
    CHECK(lock_is_held(path));
    CHECK_INT(lock_take(path, 20, &err), -EBUSY);
    fd_closep(&first);
    CHECK(!lock_is_held(path));
    scoped_fd second = lock_take(path, 0, &err);
    CHECK(second >= 0);
}

/* A forked child holds its parent's lock until it is gone as well, however it goes. */
static void held_by_children(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[64];
    struct err err;

    (void)snprintf(path, sizeof(path), "%s/lock", dir.path);
    scoped_fd lock = lock_take(path, 0, &err);
    CHECK(lock >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    fd_closep(&lock);
    bool held = lock_is_held(path);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    CHECK(held);
    CHECK(!lock_is_held(path));
}

static void what_is_no_file_is_refused_at_once(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[64];
    struct err err;

    (void)snprintf(path, sizeof(path), "%s/lock", dir.path);
    CHECK_INT(mkfifo(path, 0600), 0);
    CHECK_INT(lock_take(path, 0, &err), -EINVAL);
    CHECK(!lock_is_held(path));
}

static void a_link_is_refused(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[64];
    struct err err;

    (void)snprintf(path, sizeof(path), "%s/lock", dir.path);
    CHECK_INT(symlink("/etc/passwd", path), 0);
    CHECK_INT(lock_take(path, 0, &err), -ELOOP);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"one holder at a time", one_holder},
        {"a child holds it too", held_by_children},
        {"a symbolic link is no lock file", a_link_is_refused},
        {"what is no file is refused at once", what_is_no_file_is_refused_at_once},
    };
    return check_run(tests, countof(tests));
}
