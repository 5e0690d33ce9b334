#include "serve/daemon/listeners.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/http/server.h"
#include "serve/daemon/tls_address.h"

enum {
    INHERITED_FIRST = 3, /* SD_LISTEN_FDS_START of sd_listen_fds(3) */
    INHERITED_MAX = 2,
};

static int open_one(const char *address, int *out, struct err *err)
{
    const char *port = strrchr(address, ':');

    if (*out >= 0 || !address[0] || !port || strcmp(port, ":0") == 0) {
        return 0;
    }
    *out = http_address_open(address, err);
    return *out < 0 ? *out : 0;
}

/* Names below localhost lead to ::1 first, and some clients try no second address. */
static void open_other(const char *address, int *out)
{
    char other[CONFIG_TEXT_BYTES];
    struct err err;

    if (tls_address_other(address, other, sizeof(other)) && open_one(other, out, &err) < 0) {
        log_info("TLS is served on %s alone: %s", address, err.msg);
    }
}

int listeners_open(const struct config *config, struct listeners *out, struct err *err)
{
    bool given = out->tls >= 0;
    int r = open_one(config->listen, &out->plain, err);

    r = r == 0 ? open_one(config->tls_listen, &out->tls, err) : r;
    if (r == 0 && !given) {
        open_other(config->tls_listen, &out->tls6);
    }
    return r;
}

/* ---- systemd ---- */

static long number_of(const char *name)
{
    const char *text = getenv(name);

    return text ? strtol(text, NULL, 10) : 0;
}

static bool is_listening(int fd)
{
    int listening = 0;
    socklen_t len = sizeof(listening);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening;
}

static int take_one(struct listeners *out, int fd, struct str name, struct err *err)
{
    int *place = str_eq(name, STR(LISTENERS_TLS_NAME)) ? &out->tls : &out->plain;

    if (!is_listening(fd) || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        return err_set(err, EINVAL,
                       "the socket unit handed over descriptor %d, which does not listen", fd);
    }
    if (*place >= 0) {
        return err_set(err, EINVAL,
                       "the socket unit handed over two sockets named '%.*s'; one for TLS "
                       "must have FileDescriptorName=" LISTENERS_TLS_NAME,
                       (int)name.len, name.at);
    }
    *place = fd;
    return 0;
}

int listeners_inherit(struct listeners *out, struct err *err)
{
    const char *names = getenv("LISTEN_FDNAMES");
    struct str rest = str_of(names ? names : "");
    long n = number_of("LISTEN_FDS");
    int r = 0;

    if (number_of("LISTEN_PID") != getpid() || n <= 0) {
        return 0;
    }
    if (n > INHERITED_MAX) {
        return err_set(err, E2BIG, "the socket unit hands over %ld sockets; atoll takes %d", n,
                       INHERITED_MAX);
    }
    for (int i = 0; i < (int)n && r == 0; i++) {
        struct str name = {"", 0};
        (void)str_split(&rest, ':', &name);
        r = take_one(out, INHERITED_FIRST + i, name, err);
    }
    return r;
}
