/* What stands in the way of root in a tree that is not its own: each is refused, at once. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"
#include "keeper/disk/tenant_file.h"
#include "lib/base/fd.h"
#include "tmpdir.h"

enum { BYTES_MAX = 64 };

static const struct tenant_want readable = {.bytes_max = BYTES_MAX};
static const struct tenant_want writable = {.access = O_WRONLY, .bytes_max = BYTES_MAX};
static struct err err;

static void file_new(int dir, const char *name, off_t size)
{
    scoped_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0 || ftruncate(fd, size) < 0) {
        abort();
    }
}

static void refused(int dir, const char *path, int code)
{
    scoped_fd fd = tenant_file_open(dir, path, &readable, &err);
    scoped_fd out = tenant_file_open(dir, path, &writable, &err);

    CHECK_THAT(fd == -code, "%s can be read: %d", path, fd);
    CHECK_THAT(out == -code, "%s can be written: %d", path, out);
    CHECK_THAT(strstr(err.msg, path), "it says: %s", err.msg);
}

static void a_plain_file_is_opened(void)
{
    char text[BYTES_MAX + 1];
    scoped_tmpdir top = tmpdir_make();

    CHECK_INT(mkdirat(top.fd, "dir", 0755), 0);
    file_new(top.fd, "dir/file", 0);
    scoped_fd out = tenant_file_open(top.fd, "dir/file", &writable, &err);
    CHECK_INT(write(out, "words", 5), 5);
    scoped_fd in = tenant_file_open(top.fd, "dir/file", &readable, &err);
    CHECK_INT(tenant_file_read(in, text, sizeof(text)), 5);
    CHECK_STR(text, "words");
    CHECK_INT(tenant_file_read(in, text, 4), 3);
    CHECK_STR(text, "wor");
    refused(top.fd, "nowhere", ENOENT);
}

static void links_lead_nowhere(void)
{
    scoped_tmpdir top = tmpdir_make();

    CHECK_INT(mkdirat(top.fd, "dir", 0755), 0);
    file_new(top.fd, "dir/file", 0);
    CHECK_INT(symlinkat("dir/file", top.fd, "file"), 0);
    CHECK_INT(symlinkat("dir", top.fd, "link"), 0);
    CHECK_INT(symlinkat("/", top.fd, "root"), 0);
    refused(top.fd, "file", ENOTSUP);
    refused(top.fd, "link/file", ENOTSUP);
    refused(top.fd, "root/etc/hostname", ENOTSUP);
    refused(top.fd, "dir/../../etc/hostname", ENOTSUP);
    refused(top.fd, "/etc/hostname", ENOTSUP);
    CHECK_INT(tenant_dir_open(top.fd, "link", false, &err), -ENOTSUP);
    scoped_fd dir = tenant_dir_open(top.fd, "dir", true, &err);
    CHECK(dir >= 0);
}

static void only_plain_files_are_opened(void)
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    scoped_tmpdir top = tmpdir_make();
    scoped_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_INT(mkfifoat(top.fd, "fifo", 0644), 0);
    CHECK_INT(mkdirat(top.fd, "dir", 0755), 0);
    CHECK_INT(fchdir(top.fd), 0);
    CHECK_INT(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_INT(chdir("/"), 0);
    refused(top.fd, "fifo", ENOTSUP);
    refused(top.fd, "dir", ENOTSUP);
    refused(top.fd, "socket", ENOTSUP);
    scoped_fd null = tenant_file_open(top.fd, "fifo/x", &readable, &err);
    CHECK_INT(null, -ENOTSUP);
    scoped_fd dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    refused(dev, "null", ENOTSUP);
}

static void a_file_of_any_length_is_not_read(void)
{
    scoped_tmpdir top = tmpdir_make();

    file_new(top.fd, "most", BYTES_MAX);
    file_new(top.fd, "longer", BYTES_MAX + 1);
    file_new(top.fd, "sparse", (off_t)1 << 40);
    scoped_fd fd = tenant_file_open(top.fd, "most", &readable, &err);
    CHECK(fd >= 0);
    refused(top.fd, "longer", ENOTSUP);
    refused(top.fd, "sparse", ENOTSUP);
}

/* With a lease, a plain open() would wait for the time in /proc/sys/fs/lease-break-time. */
static void a_lease_is_not_waited_for(void)
{
    scoped_tmpdir top = tmpdir_make();

    file_new(top.fd, "leased", 0);
    scoped_fd held = openat(top.fd, "leased", O_RDONLY | O_CLOEXEC);
    CHECK_INT(fcntl(held, F_SETSIG, SIGURG), 0); /* which nobody hears */
    CHECK_INT(fcntl(held, F_SETLEASE, F_RDLCK), 0);
    scoped_fd fd = tenant_file_open(top.fd, "leased", &writable, &err);
    CHECK_INT(fd, -EAGAIN);
}

/* Opened for writing, a file of a template's is copied, however long it is. The lease shows who
 * opens it: it would be broken, and the answer another. */
static void a_file_that_is_too_long_is_not_even_opened(void)
{
    scoped_tmpdir top = tmpdir_make();

    file_new(top.fd, "leased", BYTES_MAX + 1);
    scoped_fd held = openat(top.fd, "leased", O_RDONLY | O_CLOEXEC);
    CHECK_INT(fcntl(held, F_SETSIG, SIGURG), 0);
    CHECK_INT(fcntl(held, F_SETLEASE, F_RDLCK), 0);
    scoped_fd fd = tenant_file_open(top.fd, "leased", &writable, &err);
    CHECK_INT(fd, -ENOTSUP);
    CHECK_INT(fcntl(held, F_GETLEASE), F_RDLCK);
}

static void a_mount_is_told_from_what_was_put_in_its_place(void)
{
    const struct tenant_want mounted = {.bytes_max = BYTES_MAX, .mounted = true};
    scoped_tmpdir top = tmpdir_make();

    file_new(top.fd, "file", 0);
    scoped_fd fd = tenant_file_open(top.fd, "file", &mounted, &err);
    CHECK_INT(fd, -ENOTSUP);
    CHECK_THAT(strstr(err.msg, "replaced"), "it says: %s", err.msg);
}

static void a_file_takes_the_place_of_anything_but_a_directory(void)
{
    char text[BYTES_MAX];
    scoped_tmpdir top = tmpdir_make();

    CHECK_INT(symlinkat("/nowhere/at/all", top.fd, "link"), 0);
    CHECK_INT(mkfifoat(top.fd, "fifo", 0644), 0);
    CHECK_INT(mkdirat(top.fd, "dir", 0755), 0);
    CHECK_INT(tenant_file_replace(top.fd, "link", "words", 0644, &err), 0);
    CHECK_INT(tenant_file_replace(top.fd, "fifo", "words", 0644, &err), 0);
    CHECK_INT(tenant_file_replace(top.fd, "new", "words", 0644, &err), 0);
    CHECK(tenant_file_replace(top.fd, "dir", "words", 0644, &err) < 0);
    scoped_fd fd = tenant_file_open(top.fd, "fifo", &readable, &err);
    CHECK_INT(tenant_file_read(fd, text, sizeof(text)), 5);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a plain file is opened", a_plain_file_is_opened},
        {"links lead nowhere", links_lead_nowhere},
        {"only plain files are opened", only_plain_files_are_opened},
        {"a file of any length is not read", a_file_of_any_length_is_not_read},
        {"a lease is not waited for", a_lease_is_not_waited_for},
        {"a file that is too long is not even opened", a_file_that_is_too_long_is_not_even_opened},
        {"a mount is told from what was put in its place",
         a_mount_is_told_from_what_was_put_in_its_place},
        {"a file takes the place of anything but a directory",
         a_file_takes_the_place_of_anything_but_a_directory},
    };
    return check_run(tests, countof(tests));
}
