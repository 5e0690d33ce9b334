#include "inside/gateway/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

enum {
    PATH_BYTES = 4096,
    REPORT_BYTES_MAX = 16 * 1024,
    UP = '+', /* the first byte of a report */
    FAILED = '-',
};

int launch_directories(const char *path, struct err *err)
{
    char parent[PATH_BYTES];

    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        if (!str_copy(parent, sizeof(parent), (struct str){path, (size_t)(at - path)})) {
            return err_set(err, ENAMETOOLONG, "the path %.80s... is too long", path);
        }
        if (mkdir(parent, 0755) < 0 && errno != EEXIST) {
            return err_sys(err, "make the directory %s", parent);
        }
    }
    return 0;
}

/* ---- the parent ---- */

static int report_read(int fd, struct buf *out)
{
    (void)!small_file_append(fd, out); /* a part tells more than nothing */
    return buf_len(out) ? buf_at(out)[0] : FAILED;
}

static _Noreturn void parent_wait(int fd, const char *log_path)
{
    scoped_buf(report, REPORT_BYTES_MAX);

    if (report_read(fd, &report) == UP) {
        exit(0);
    }
    if (buf_len(&report) > 1) {
        (void)fprintf(stderr, "%.*s", (int)buf_len(&report) - 1, buf_at(&report) + 1);
    } else {
        (void)fprintf(stderr, "mcp-gateway: it ended before it was up; see %s\n", log_path);
    }
    exit(1);
}

/* ---- the child ---- */

static int outputs_set(const char *log_path, struct err *err)
{
    int r = launch_directories(log_path, err);
    scoped_fd nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    scoped_fd log = r < 0 ? -1 : open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    if (r < 0) {
        return r;
    }
    if (nothing < 0 || log < 0 || dup2(nothing, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) {
        return err_sys(err, "open the log %s", log_path);
    }
    return 0;
}

int launch(const char *log_path, struct err *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(err, "make a pair of sockets");
    }
    scoped_fd ours = pair[0];
    scoped_fd theirs = pair[1];
    pid_t pid = fork();
    if (pid < 0) {
        return err_sys(err, "start a process for the background");
    }
    if (pid > 0) {
        fd_closep(&theirs);
        parent_wait(ours, log_path);
    }
    fd_closep(&ours);
    (void)setsid();
    if (outputs_set(log_path, err) < 0) {
        launch_report_failure(theirs, err->msg, (struct str){"", 0});
        exit(1);
    }
    return move_fd(&theirs);
}

/* ---- reports ---- */

static void all_write(int fd, struct str bytes)
{
    while (bytes.len) {
        ssize_t n = write(fd, bytes.at, bytes.len);
        if (n < 0 && errno != EINTR) {
            return; /* nobody is left who would read it */
        }
        bytes = str_skip(bytes, n > 0 ? (size_t)n : 0);
    }
}

void launch_report_up(int fd)
{
    if (fd >= 0) {
        all_write(fd, STR("+"));
    }
}

void launch_report_failure(int fd, const char *why, struct str said)
{
    scoped_buf(text, REPORT_BYTES_MAX);

    while (said.len && (said.at[said.len - 1] == '\n' || said.at[said.len - 1] == ' ')) {
        said.len--;
    }
    int r = buf_printf(&text, "%smcp-gateway: %s%s", fd < 0 ? "" : "-", why,
                       said.len ? "; it wrote:\n" : "");
    r = r == 0 ? buf_append(&text, said.at, said.len) : r;
    r = r == 0 ? buf_append(&text, "\n", 1) : r;
    if (r == 0) {
        all_write(fd < 0 ? STDERR_FILENO : fd, buf_str(&text));
    }
}
