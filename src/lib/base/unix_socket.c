#include "lib/base/unix_socket.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/str.h"

enum { BACKLOG = 4096 };

static int named(const char *path, struct sockaddr_un *out, struct err *err)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    return str_copy(out->sun_path, sizeof(out->sun_path), str_of(path))
               ? 0
               : err_set(err, ENAMETOOLONG, "the socket's path %s is too long", path);
}

int unix_listen(const char *path, struct err *err)
{
    struct sockaddr_un address;
    int r = named(path, &address, err);

    if (r < 0) {
        return r;
    }
    scoped_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)unlink(path);
    /* The mode of the socket itself is the mode that its name gets. */
    if (fd < 0 || fchmod(fd, 0600) < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, BACKLOG) < 0) {
        return err_sys(err, "listen on %s", path);
    }
    return move_fd(&fd);
}

int unix_connect(const char *path, struct err *err)
{
    struct sockaddr_un address;
    int r = named(path, &address, err);

    if (r < 0) {
        return r;
    }
    scoped_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        return err_sys(err, "connect to %s", path);
    }
    return move_fd(&fd);
}
