#include "lib/base/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"

enum { NUMBER_BYTES = 32, APPEND_BYTES = 16 * 1024 };

static ssize_t read_again(int fd, void *bytes, size_t size)
{
    ssize_t n;

    do {
        n = read(fd, bytes, size);
    } while (n < 0 && errno == EINTR);
    return n;
}

ssize_t small_file_read_fd(int fd, char *text, size_t size)
{
    size_t len = 0;
    ssize_t n = 1;

    while (n > 0 && len < size - 1) {
        n = read_again(fd, text + len, size - 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    text[n < 0 ? 0 : len] = '\0';
    return n < 0 ? -errno : (ssize_t)len;
}

ssize_t small_file_read(int dir_fd, const char *name, char *text, size_t size)
{
    scoped_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0) {
        text[0] = '\0';
        return -errno;
    }
    return small_file_read_fd(fd, text, size);
}

uint64_t small_file_number(int dir_fd, const char *name)
{
    char text[NUMBER_BYTES];

    (void)small_file_read(dir_fd, name, text, sizeof(text));
    return strtoull(text, NULL, 10);
}

/* Appends the result of one read(). A full buffer is no failure when the file has ended too. */
static ssize_t piece_append(int fd, struct buf *out)
{
    const size_t room = out->max - buf_len(out);
    const size_t want = room < APPEND_BYTES ? room : APPEND_BYTES;
    char beyond, *at = &beyond;

    int r = want ? buf_reserve(out, want, &at) : 0;
    if (r < 0) {
        return r;
    }
    ssize_t n = read_again(fd, at, want ? want : 1);
    if (n > 0 && !want) {
        return -ENOBUFS;
    }
    buf_commit(out, n > 0 ? (size_t)n : 0);
    return n < 0 ? -errno : n;
}

int small_file_append(int fd, struct buf *out)
{
    ssize_t n;

    do {
        n = piece_append(fd, out);
    } while (n > 0);
    return (int)n;
}

ssize_t small_file_text(int fd, size_t max, char **out)
{
    scoped_buf(text, max);
    int r = small_file_append(fd, &text);
    const size_t len = buf_len(&text);

    if (r == 0 || r == -ENOBUFS) {
        text.max++; /* for the zero byte */
        r = buf_append(&text, "", 1);
    }
    if (r < 0) {
        return r;
    }
    *out = move_ptr(&text.data);
    return (ssize_t)len;
}
