#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/call.h"
#include "cli/cli.h"

enum { HEAD_BYTES = 8192, PART_BYTES = 64 * 1024, AGENT_PORT = 49983 };

static int head_send(int fd, const struct endpoint *endpoint, const char *sandbox_id,
                     const char *path, struct err *err)
{
    char head[HEAD_BYTES];
    int n = snprintf(head, sizeof(head),
                     "GET %s HTTP/1.1\r\nhost: %s\r\ne2b-sandbox-id: %s\r\n"
                     "e2b-sandbox-port: %d\r\nconnection: close\r\n\r\n",
                     path, endpoint->url + strlen("http://"), sandbox_id, AGENT_PORT);

    if (n >= (int)sizeof(head)) {
        return err_set(err, EINVAL, "the path of a file is too long");
    }
    return send(fd, head, (size_t)n, MSG_NOSIGNAL) == n ? 0 : err_sys(err, "ask for a file");
}

/* The answer's head, which ends with an empty line: nothing behind it is read. */
static int head_read(int fd, char head[HEAD_BYTES], struct err *err)
{
    size_t len = 0;

    while (len + 1 < HEAD_BYTES && recv(fd, head + len, 1, 0) == 1) {
        head[++len] = '\0';
        if (str_ends((struct str){head, len}, STR("\r\n\r\n"))) {
            return 0;
        }
    }
    return err_set(err, EIO, "the daemon broke off the answer to a download");
}

static int64_t length_of(const char *head)
{
    const char *at = strcasestr(head, "\r\ncontent-length:");

    return at ? strtoll(at + strlen("\r\ncontent-length:"), NULL, 10) : -1;
}

static int body_keep(int from, int to, int64_t bytes, struct err *err)
{
    char part[PART_BYTES];

    while (bytes > 0) {
        size_t want = bytes < PART_BYTES ? (size_t)bytes : PART_BYTES;
        ssize_t n = recv(from, part, want, 0);
        if (n <= 0) {
            return err_set(err, EIO, "the daemon broke off a download");
        }
        if (write(to, part, (size_t)n) != n) {
            return err_sys(err, "keep a download");
        }
        bytes -= n;
    }
    return 0;
}

int endpoint_download(const struct endpoint *endpoint, const char *sandbox_id, const char *path,
                      struct err *err)
{
    const char *dir = getenv("TMPDIR");
    char head[HEAD_BYTES] = "";
    scoped_fd fd = endpoint_dial(endpoint, err);

    if (fd < 0) {
        return fd;
    }
    int r = head_send(fd, endpoint, sandbox_id, path, err);
    r = r == 0 ? head_read(fd, head, err) : r;
    if (r < 0) {
        return r;
    }
    int64_t bytes = length_of(head);
    if (strncmp(head, "HTTP/1.1 200", strlen("HTTP/1.1 200")) != 0 || bytes < 0) {
        return err_set(err, EPROTO, "a file of a sandbox could not be read: %.*s",
                       (int)strcspn(head, "\r\n"), head);
    }
    scoped_fd out = open(dir && dir[0] ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (out < 0) {
        return err_sys(err, "make a temporary file");
    }
    r = body_keep(fd, out, bytes, err);
    return r < 0 ? r : move_fd(&out);
}
