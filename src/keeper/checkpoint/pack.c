#include "keeper/checkpoint/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <linux/ioprio.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "keeper/disk/saved.h"
#include "keeper/disk/subvol.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

#define MARK "packed"

enum {
    PIECE_BYTES = 16 * 1024 * 1024,
    SAMPLES =
        32, /* evenly spread over an image; each as long as the blocks that btrfs compresses */
    SAMPLE_BYTES = 128 * 1024,
    SAMPLE_LEVEL = 1,
    GAIN_PERCENT_MIN = 10,
    FILE_BYTES_MIN = 64 * 1024, /* smaller files are skipped */
    NICEST = 19,
    COMPRESS_ZSTD = 3, /* btrfs's number for it */
};

struct packing {
    int root_fd;   /* saved/<name>; it has no entries when the save was removed */
    int memory_fd; /* saved/<name>/memory */
    uint64_t before, after;
};

/* Data that is not on the disk yet is not counted yet: sync first. */
static uint64_t bytes_now(const struct packing *packing)
{
    (void)syncfs(packing->memory_fd);
    return subvol_bytes(packing->memory_fd, 0);
}

/* ---- the mark ---- */

static bool mark_read(struct packing *packing)
{
    char text[64];

    return small_file_read(packing->memory_fd, MARK, text, sizeof(text)) > 0 &&
           sscanf(text, "%" SCNu64 " %" SCNu64, &packing->before, &packing->after) == 2;
}

static int mark_write(const struct packing *packing, struct err *err)
{
    char text[64];
    int n =
        snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64 "\n", packing->before, packing->after);
    scoped_fd fd =
        openat(packing->memory_fd, "." MARK, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, text, (size_t)n) != n ||
        renameat(packing->memory_fd, "." MARK, packing->memory_fd, MARK) < 0) {
        return err_sys(err, "record what packing came to");
    }
    return 0;
}

/* ---- packing ---- */

/* Pauses for as long as the last piece took: so this uses half of one processor, and the disk is
 * free in between. */
static void rest(int64_t since_us)
{
    int64_t us = clock_mono_us() - since_us;

    (void)nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static int piece_pack(struct packing *packing, int fd, uint64_t at, struct err *err)
{
    struct btrfs_ioctl_defrag_range_args args = {
        .start = at,
        .len = PIECE_BYTES,
        .flags = BTRFS_DEFRAG_RANGE_COMPRESS | BTRFS_DEFRAG_RANGE_START_IO,
        .extent_thresh = UINT32_MAX,
        .compress_type = COMPRESS_ZSTD,
    };
    struct stat st;
    int64_t since_us = clock_mono_us();

    if (fstat(packing->root_fd, &st) < 0 || st.st_nlink == 0) {
        return err_set(err, ENOENT, "it was forgotten meanwhile");
    }
    if (ioctl(fd, BTRFS_IOC_DEFRAG_RANGE, &args) < 0 || fdatasync(fd) < 0) {
        return err_sys(err, "pack what was saved");
    }
    rest(since_us);
    return 0;
}

/* Tries samples first: rewriting an image that does not shrink would only cost. */
static bool pays(int fd, off_t size)
{
    static char plain[SAMPLE_BYTES], packed[ZSTD_COMPRESSBOUND(SAMPLE_BYTES)];
    off_t step = size / SAMPLES > SAMPLE_BYTES ? size / SAMPLES : SAMPLE_BYTES;
    size_t before = 0, after = 0;

    for (off_t at = 0; at < size; at += step) {
        ssize_t n = pread(fd, plain, sizeof(plain), at);
        size_t took =
            n <= 0 ? 0 : ZSTD_compress(packed, sizeof(packed), plain, (size_t)n, SAMPLE_LEVEL);
        before += n > 0 ? (size_t)n : 0;
        after += ZSTD_isError(took) ? (size_t)n : took;
    }
    return after + before * GAIN_PERCENT_MIN / 100 < before;
}

static int file_pack(struct packing *packing, const char *name, struct err *err)
{
    struct stat st;
    scoped_fd fd = openat(packing->memory_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    int r = 0;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(err, "open the image %s", name);
    }
    if (st.st_size < FILE_BYTES_MIN || !pays(fd, st.st_size)) {
        return 0;
    }
    for (off_t at = 0; r == 0 && at < st.st_size; at += PIECE_BYTES) {
        r = piece_pack(packing, fd, (uint64_t)at, err);
    }
    return r;
}

static int all_pack(struct packing *packing, struct err *err)
{
    int fd = openat(packing->memory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = dir ? 0 : err_sys(err, "list the images");

    for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
        /* The agent's blocks are shared with the copy in the pool. */
        const char *end = strrchr(entry->d_name, '.');
        if (end && strcmp(end, ".img") == 0) {
            r = file_pack(packing, entry->d_name, err);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    return r;
}

static void be_nice(void)
{
    (void)setpriority(PRIO_PROCESS, 0, NICEST);
    (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

int pack_saved(struct pool *pool, const char *name, struct keeper_saved *out, struct err *err)
{
    scoped_fd root = saved_open(pool, name, err);

    if (root < 0) {
        return root;
    }
    scoped_fd memory = openat(root, SAVED_MEMORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (memory < 0) {
        return err_set(err, ENOENT, "%s was saved without its memory", name);
    }
    struct packing packing = {.root_fd = root, .memory_fd = memory};
    if (!mark_read(&packing)) {
        be_nice();
        packing.before = bytes_now(&packing);
        int r = all_pack(&packing, err);
        packing.after = bytes_now(&packing);
        if (r == 0) {
            r = mark_write(&packing, err);
        }
        if (r < 0) {
            return r;
        }
    }
    out->memory_bytes = packing.after;
    out->plain_bytes = packing.before;
    return 0;
}
