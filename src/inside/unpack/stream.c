#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside/unpack/internal.h"

enum {
    SHOWN_BYTES = 120,
    READ_BYTES = 256 * 1024,
    REPORT_BYTES = 32 * 1024 * 1024,
    REPORT_ENTRIES = 4096,
};

static char read_room[READ_BYTES]; /* static, because a process unpacks one archive */

/* ---- reading ---- */

static la_ssize_t on_read(struct archive *archive, void *ctx, const void **data)
{
    struct unpacker *u = ctx;
    ssize_t n;

    do {
        n = read(u->fd, read_room, sizeof(read_room));
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        archive_set_error(archive, errno, "the stream broke");
        return -1;
    }
    u->read += (uint64_t)n;
    *data = read_room;
    return n;
}

static int damaged(struct unpacker *u, struct err *err)
{
    const char *why = archive_error_string(u->archive);
    char shown[SHOWN_BYTES];

    return err_set(err, EBADMSG, "the archive is damaged or not a tar: %s",
                   name_show(why ? why : "unknown reason", shown, sizeof(shown)));
}

/* ---- limits ---- */

static int count_bytes(struct unpacker *u, uint64_t n, const char *path, struct err *err)
{
    char shown[SHOWN_BYTES];

    if (n > u->options->limit - u->written) {
        return err_set(err, EFBIG, "the archive unpacks to more than the limit of %llu MB: /%s",
                       (unsigned long long)(u->options->limit >> 20),
                       name_show(path, shown, sizeof(shown)));
    }
    u->written += n;
    return 0;
}

static int check_ratio(const struct unpacker *u, uint64_t written, struct err *err)
{
    if (written > UNPACK_RATIO_FROM && written / UNPACK_RATIO_MAX > u->read) {
        return err_set(err, EFBIG,
                       "the archive unpacks to more than %d times its own size: it is a "
                       "compression bomb",
                       UNPACK_RATIO_MAX);
    }
    return 0;
}

static int write_all(int fd, const char *data, size_t len, off_t at)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, at);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        n = n < 0 ? 0 : n;
        data += n;
        len -= (size_t)n;
        at += n;
    }
    return 0;
}

/* Blocks come with offsets, so holes are left out; the size is checked before, with holes. */
int stream_data(struct unpacker *u, int file_fd, const char *path, struct err *err)
{
    char shown[SHOWN_BYTES];
    const void *data;
    uint64_t before = u->written;
    size_t len;
    la_int64_t at;
    int r;

    while ((r = archive_read_data_block(u->archive, &data, &len, &at)) == ARCHIVE_OK) {
        uint64_t end = (uint64_t)at + len;
        int e =
            end > u->written - before ? count_bytes(u, end - (u->written - before), path, err) : 0;
        e = e < 0 ? e : check_ratio(u, u->written, err);
        if (e < 0) {
            return e;
        }
        e = write_all(file_fd, data, len, at);
        if (e < 0) {
            return err_set(err, -e, "%s/%s: %s",
                           e == -ENOSPC || e == -EDQUOT ? "the disk is full: write " : "write ",
                           name_show(path, shown, sizeof(shown)), strerror(-e));
        }
        if (u->written - u->reported >= REPORT_BYTES) {
            report(u);
        }
    }
    if (r != ARCHIVE_EOF) {
        return damaged(u, err);
    }
    if (ftruncate(file_fd, (off_t)(u->written - before)) < 0) {
        return err_sys(err, "set the size of /%s", name_show(path, shown, sizeof(shown)));
    }
    return 0;
}

/* Checks the size that an entry claims before any byte of it is read. */
static int check_claim(struct unpacker *u, struct archive_entry *entry, struct err *err)
{
    const char *name = archive_entry_pathname(entry);
    char shown[SHOWN_BYTES];

    if (archive_entry_size_is_set(entry) &&
        (archive_entry_size(entry) < 0 ||
         (uint64_t)archive_entry_size(entry) > u->options->limit - u->written)) {
        return err_set(err, EFBIG, "the archive unpacks to more than the limit of %llu MB: %s",
                       (unsigned long long)(u->options->limit >> 20),
                       name_show(name ? name : "?", shown, sizeof(shown)));
    }
    if (++u->entries > UNPACK_ENTRIES_MAX) {
        return err_set(err, EFBIG, "the archive holds more than %d entries", UNPACK_ENTRIES_MAX);
    }
    return 0;
}

/* ---- all of it ---- */

static int entries_unpack(struct unpacker *u, struct err *err)
{
    struct archive_entry *entry;
    int r;

    while ((r = archive_read_next_header(u->archive, &entry)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
        int e = check_claim(u, entry, err);
        if (e == 0) {
            e = u->options->mode == UNPACK_LAYER ? layer_entry(u, entry, err)
                                                 : copy_entry(u, entry, err);
        }
        if (e < 0) {
            return e;
        }
        if (u->entries % REPORT_ENTRIES == 0) {
            report(u);
        }
    }
    return r == ARCHIVE_EOF ? 0 : damaged(u, err);
}

/* Reads the padding after the end of the archive: so the sender is not cut off, and sees the
 * answer. */
static void drain(struct unpacker *u)
{
    const void *data;

    while (on_read(u->archive, u, &data) > 0) {
    }
}

static void archive_freep(struct archive **archive)
{
    (void)archive_read_free(*archive);
}

int stream_unpack(struct unpacker *u, struct err *err)
{
    scoped(archive_freep) struct archive *archive = archive_read_new();

    if (!archive) {
        return err_set(err, ENOMEM, "no memory to read the archive");
    }
    u->archive = archive;
    (void)archive_read_support_format_tar(archive);
    (void)archive_read_support_format_empty(archive);
    (void)archive_read_support_filter_gzip(archive);
    (void)archive_read_support_filter_zstd(archive);
    (void)archive_read_support_filter_xz(archive);
    if (archive_read_open(archive, u, NULL, on_read, NULL) != ARCHIVE_OK) {
        return damaged(u, err);
    }
    int r = entries_unpack(u, err);
    if (r == 0) {
        drain(u);
    }
    return r;
}
