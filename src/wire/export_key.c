#include "wire/export_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/encode.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

#define HALF_FILE "." EXPORT_KEY_FILE

enum { OTHERS_WRITE = 022, OTHERS = 077 };

bool export_key_ok(const char *hex)
{
    return strlen(hex) == EXPORT_KEY_HEX_LEN &&
           strspn(hex, "0123456789abcdef") == EXPORT_KEY_HEX_LEN;
}

/* Only root may have put the file there, and only root may read it. */
static int owner_check(int dir_fd, int fd, struct err *err)
{
    struct stat dir, st;

    if (fstat(dir_fd, &dir) < 0 || fstat(fd, &st) < 0) {
        return err_sys(err, "look at " EXPORT_KEY_FILE);
    }
    if (dir.st_uid != 0 || dir.st_mode & OTHERS_WRITE || st.st_uid != 0 || st.st_mode & OTHERS ||
        !S_ISREG(st.st_mode)) {
        return err_set(err, EPERM,
                       EXPORT_KEY_FILE " in the data directory is not root's alone: want owner "
                                       "root, mode 0600, in a directory that only root writes to");
    }
    return 0;
}

int export_key_read(int dir_fd, char hex[EXPORT_KEY_HEX_LEN + 1], struct err *err)
{
    char text[EXPORT_KEY_HEX_LEN + 3];
    scoped_fd fd = openat(dir_fd, EXPORT_KEY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0) {
        return errno == ENOENT ? err_set(err, ENOENT, "this machine has no export key")
                               : err_sys(err, "open " EXPORT_KEY_FILE);
    }
    int r = owner_check(dir_fd, fd, err);
    if (r < 0) {
        return r;
    }
    if (small_file_read_fd(fd, text, sizeof(text)) < 0) {
        return err_sys(err, "read " EXPORT_KEY_FILE);
    }
    text[strcspn(text, "\n")] = '\0';
    if (!export_key_ok(text)) {
        return err_set(err, EINVAL, EXPORT_KEY_FILE " does not have %d hexadecimal digits",
                       EXPORT_KEY_HEX_LEN);
    }
    memcpy(hex, text, EXPORT_KEY_HEX_LEN + 1);
    explicit_bzero(text, sizeof(text));
    return 0;
}

/* Writes the key under a name of its own, on the disk. */
static int half_write(int dir_fd, const char *hex, struct err *err)
{
    (void)unlinkat(dir_fd, HALF_FILE, 0);
    scoped_fd fd =
        openat(dir_fd, HALF_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || dprintf(fd, "%s\n", hex) != EXPORT_KEY_HEX_LEN + 1 || fsync(fd) < 0) {
        return err_sys(err, "write " EXPORT_KEY_FILE);
    }
    return 0;
}

int export_key_write(int dir_fd, const char *hex, struct err *err)
{
    if (!export_key_ok(hex)) {
        return err_set(err, EINVAL, "an export key has %d hexadecimal digits, in lower case",
                       EXPORT_KEY_HEX_LEN);
    }
    int r = half_write(dir_fd, hex, err);
    if (r == 0 && (renameat(dir_fd, HALF_FILE, dir_fd, EXPORT_KEY_FILE) < 0 || fsync(dir_fd) < 0)) {
        r = err_sys(err, "name " EXPORT_KEY_FILE);
    }
    return r;
}

int export_key_read_or_make(int dir_fd, char hex[EXPORT_KEY_HEX_LEN + 1], struct err *err)
{
    unsigned char bytes[EXPORT_KEY_BYTES];
    int r = export_key_read(dir_fd, hex, err);

    if (r != -ENOENT) {
        return r;
    }
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return err_sys(err, "draw a key");
    }
    hex_encode(hex, bytes, sizeof(bytes));
    explicit_bzero(bytes, sizeof(bytes));
    r = half_write(dir_fd, hex, err);
    /* linkat() does not replace a key that another process has made meanwhile. */
    if (r == 0 && linkat(dir_fd, HALF_FILE, dir_fd, EXPORT_KEY_FILE, 0) < 0 && errno != EEXIST) {
        r = err_sys(err, "name " EXPORT_KEY_FILE);
    }
    (void)unlinkat(dir_fd, HALF_FILE, 0);
    return r < 0 ? r : export_key_read(dir_fd, hex, err);
}
