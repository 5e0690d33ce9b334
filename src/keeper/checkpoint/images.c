#include "keeper/checkpoint/images.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.pb-c.h"
#include "keeper/disk/disk_repair.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"
#include "wire/keeper.h"

enum {
    IMAGE_BYTES_MAX =
        256 * 1024 * 1024, /* limit for images that are read whole: they hold no memory */
    HEADER_BYTES = 8,
    LENGTH_BYTES = 4,
    TYPE_TIMER = 17,
    TYPE_INOTIFY = 8,
    OVERLAY_HANDLE =
        0xf8, /* overlayfs's handle type: three bytes, then the layout of disk_repair.h */
    OVERLAY_HANDLE_PAD = 3,
    OVERLAY_FLAGS_AT = OVERLAY_HANDLE_PAD + 3,
    OVERLAY_FLAG_UPPER = 1 << 2,
};

struct bytes {
    uint8_t *at;
    size_t n;
};

static void bytes_freep(struct bytes *bytes)
{
    free(bytes->at);
}

static int file_read(int dir_fd, const char *name, struct bytes *out, struct err *err)
{
    struct stat st;
    scoped_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(err, "open the image %s", name);
    }
    if (st.st_size < HEADER_BYTES || st.st_size > IMAGE_BYTES_MAX) {
        return err_set(err, EINVAL, "the image %s is of an odd size", name);
    }
    out->at = xcalloc(1, (size_t)st.st_size + 1);
    out->n = (size_t)st.st_size;
    return small_file_read_fd(fd, (char *)out->at, out->n + 1) == st.st_size
               ? 0
               : err_set(err, EIO, "the image %s is cut off", name);
}

static int file_write(int dir_fd, const char *name, const struct bytes *bytes, struct err *err)
{
    scoped_fd fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    for (size_t done = 0; fd >= 0 && done < bytes->n;) {
        ssize_t n = write(fd, bytes->at + done, bytes->n - done);
        if (n <= 0) {
            return err_sys(err, "write the image %s", name);
        }
        done += (size_t)n;
    }
    return fd < 0 ? err_sys(err, "make the image %s", name) : 0;
}

/* ---- entries ---- */

/* Changes one entry. 1 with the new entry in *out, 0 when it stays as it is, -EINVAL. */
typedef int entry_change(const struct bytes *in, const struct images_change *change,
                         struct bytes *out);

static void out_add(struct bytes *out, const struct bytes *entry)
{
    uint32_t length = htole32((uint32_t)entry->n);

    out->at = xrealloc(out->at, out->n + LENGTH_BYTES + entry->n);
    memcpy(out->at + out->n, &length, LENGTH_BYTES);
    if (entry->n) {
        memcpy(out->at + out->n + LENGTH_BYTES, entry->at, entry->n);
    }
    out->n += LENGTH_BYTES + entry->n;
}

/* 1 when anything was changed. */
static int entries_change(const struct bytes *in, entry_change *entry, const void *change,
                          struct bytes *out)
{
    bool changed = false;

    *out = (struct bytes){.at = xcalloc(1, HEADER_BYTES), .n = HEADER_BYTES};
    memcpy(out->at, in->at, HEADER_BYTES);
    for (size_t at = HEADER_BYTES; at < in->n;) {
        uint32_t length;
        if (in->n - at < LENGTH_BYTES) {
            return -EINVAL;
        }
        memcpy(&length, in->at + at, LENGTH_BYTES);
        struct bytes one = {in->at + at + LENGTH_BYTES, le32toh(length)};
        at += LENGTH_BYTES;
        if (in->n - at < one.n) {
            return -EINVAL;
        }
        at += one.n;
        scoped(bytes_freep) struct bytes packed = {0};
        int r = entry(&one, change, &packed);
        if (r < 0) {
            return r;
        }
        out_add(out, r ? &packed : &one);
        changed |= r == 1;
    }
    return changed;
}

static void message_pack(const ProtobufCMessage *message, struct bytes *out)
{
    out->n = protobuf_c_message_get_packed_size(message);
    out->at = xcalloc(1, out->n + 1);
    (void)protobuf_c_message_pack(message, out->at);
}

/* ---- changes ---- */

static void file_freep(Image__File **file)
{
    if (*file) {
        image__file__free_unpacked(*file, NULL);
    }
}

static int timer_mend(const struct bytes *in, const struct images_change *change, struct bytes *out)
{
    scoped(file_freep) Image__File *file = image__file__unpack(NULL, in->n, in->at);

    (void)change;
    if (!file) {
        return -EINVAL;
    }
    Image__Timer *timer = file->type == TYPE_TIMER ? file->tfd : NULL;
    if (!timer || timer->vsec || timer->vnsec || !timer->ticks || !(timer->isec || timer->insec)) {
        return 0;
    }
    timer->vsec = timer->isec;
    timer->vnsec = timer->insec;
    message_pack(&file->base, out);
    return 1;
}

static int merging_mend(const struct bytes *in, const struct images_change *change,
                        struct bytes *out)
{
    const uint64_t merging = (uint64_t)1 << MADV_MERGEABLE;
    Image__Memory *memory = image__memory__unpack(NULL, in->n, in->at);
    bool changed = false;

    (void)change;
    if (!memory) {
        return -EINVAL;
    }
    for (size_t i = 0; i < memory->n_vmas; i++) {
        changed |= (memory->vmas[i]->madv & merging) != 0;
        memory->vmas[i]->madv &= ~merging;
    }
    if (changed) {
        message_pack(&memory->base, out);
    }
    image__memory__free_unpacked(memory, NULL);
    return changed;
}

/* A file handle on the jail's own disk names the disk that it was dumped from. */
static bool handle_change(Image__Handle *handle, uint64_t subvol)
{
    uint8_t *bytes = (uint8_t *)handle->handle;
    size_t n = handle->n_handle * sizeof(uint64_t);

    n = handle->bytes < n ? handle->bytes : n;
    if (handle->type != OVERLAY_HANDLE || n <= OVERLAY_FLAGS_AT ||
        !(bytes[OVERLAY_FLAGS_AT] & OVERLAY_FLAG_UPPER)) {
        return false;
    }
    return handle_repair(bytes + OVERLAY_HANDLE_PAD, n - OVERLAY_HANDLE_PAD, subvol) == 1;
}

static int watches_change(const struct bytes *in, const struct images_change *change,
                          struct bytes *out)
{
    scoped(file_freep) Image__File *file = image__file__unpack(NULL, in->n, in->at);
    bool changed = false;

    if (!file) {
        return -EINVAL;
    }
    for (size_t i = 0; file->type == TYPE_INOTIFY && file->ify && i < file->ify->n_wd; i++) {
        Image__Handle *handle = file->ify->wd[i]->f_handle;
        changed |= handle && handle_change(handle, change->subvol);
    }
    if (changed) {
        message_pack(&file->base, out);
    }
    return changed;
}

/* The keeper sets all of these, whatever the image says. */
static Image__Extent extent_of(const Image__Extent *was, uint32_t uid_base)
{
    Image__Extent extent = *was;

    extent.first = 0;
    extent.lower_first = uid_base;
    extent.count = KEEPER_UID_RANGE;
    return extent;
}

static int ids_change(const struct bytes *in, const struct images_change *change, struct bytes *out)
{
    Image__Ids *ids = image__ids__unpack(NULL, in->n, in->at);

    if (!ids || ids->n_uid_map != 1 || ids->n_gid_map != 1) {
        if (ids) {
            image__ids__free_unpacked(ids, NULL);
        }
        return -EINVAL;
    }
    *ids->uid_map[0] = extent_of(ids->uid_map[0], change->uid_base);
    *ids->gid_map[0] = extent_of(ids->gid_map[0], change->uid_base);
    message_pack(&ids->base, out);
    image__ids__free_unpacked(ids, NULL);
    return 1;
}

static int names_change(const struct bytes *in, const struct images_change *change,
                        struct bytes *out)
{
    Image__Names *names = image__names__unpack(NULL, in->n, in->at);

    if (!names) {
        return -EINVAL;
    }
    char *own = names->nodename;
    names->nodename = (char *)(uintptr_t)change->hostname;
    message_pack(&names->base, out);
    names->nodename = own;
    image__names__free_unpacked(names, NULL);
    return 1;
}

/* ---- whole images ---- */

/* 1 when a changed image was written to to_fd, 0 when nothing had to be changed. */
static int image_change(int from_fd, const char *name, int to_fd, const char *to_name,
                        entry_change *entry, const struct images_change *change, struct err *err)
{
    scoped(bytes_freep) struct bytes in = {0};
    scoped(bytes_freep) struct bytes out = {0};
    int r = file_read(from_fd, name, &in, err);

    if (r < 0) {
        return r;
    }
    r = entries_change(&in, entry, change, &out);
    if (r < 0) {
        return err_set(err, EINVAL, "the image %s cannot be read", name);
    }
    if (r == 1) {
        r = file_write(to_fd, to_name, &out, err);
        return r < 0 ? r : 1;
    }
    return 0;
}

static entry_change *change_of(const char *name)
{
    if (strcmp(name, "files.img") == 0) {
        return watches_change;
    }
    if (strncmp(name, "userns-", 7) == 0) {
        return ids_change;
    }
    return strncmp(name, "utsns-", 6) == 0 ? names_change : NULL;
}

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

static DIR *dir_open(int fd)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : fdopendir(own);

    if (!dir) {
        fd_closep(&own);
    }
    return dir;
}

static entry_change *mend_of(const char *name)
{
    if (strcmp(name, "files.img") == 0) {
        return timer_mend;
    }
    return strncmp(name, "mm-", 3) == 0 ? merging_mend : NULL;
}

/* Replaces the image by one rename. */
static int image_correct(int dir_fd, const char *name, entry_change *mends, struct err *err)
{
    char hidden[NAME_MAX + 2];

    (void)snprintf(hidden, sizeof(hidden), ".%s", name);
    int r = image_change(dir_fd, name, dir_fd, hidden, mends, NULL, err);
    if (r == 1 && renameat(dir_fd, hidden, dir_fd, name) < 0) {
        return err_sys(err, "replace the image %s", name);
    }
    return r;
}

int images_correct(int dir_fd, struct err *err)
{
    scoped(dir_closep) DIR *dir = dir_open(dir_fd);
    int r = 0;

    if (!dir) {
        return err_sys(err, "list the images");
    }
    for (struct dirent *entry; r >= 0 && (entry = readdir(dir));) {
        entry_change *mends = mend_of(entry->d_name);
        r = mends ? image_correct(dir_fd, entry->d_name, mends, err) : 0;
    }
    return r < 0 ? r : 0;
}

int images_change(int from_fd, int to_fd, const struct images_change *change, struct err *err)
{
    scoped(dir_closep) DIR *dir = dir_open(from_fd);
    int r = 0;

    if (!dir) {
        return err_sys(err, "list the images");
    }
    for (struct dirent *entry; r >= 0 && (entry = readdir(dir));) {
        entry_change *changes = change_of(entry->d_name);
        if (changes) {
            r = image_change(from_fd, entry->d_name, to_fd, entry->d_name, changes, change, err);
        }
    }
    return r < 0 ? r : 0;
}

int images_bytes(int dir_fd, uint64_t *bytes, struct err *err)
{
    scoped(dir_closep) DIR *dir = dir_open(dir_fd);

    if (!dir) {
        return err_sys(err, "list the images");
    }
    *bytes = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        if (entry->d_type != DT_REG) {
            continue;
        }
        if (fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            return err_sys(err, "look at the image %s", entry->d_name);
        }
        *bytes += (uint64_t)st.st_blocks * 512;
    }
    return 0;
}
