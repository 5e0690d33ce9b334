#include "keeper/disk/charge.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "keeper/disk/pool.h"
#include "keeper/disk/subvol.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"

enum {
    RECORD_BYTES = 256,
    PATH_BYTES = sizeof(CHARGE_DIR) + KEEPER_ID_BYTES,
    SHORT_SHARE = 4,         /* short of room: less than 1/4 of the limit is left */
    SHARED_SHARE = 8,        /* worth measuring: more than 1/8 of the limit is shared */
    MEASURE_EVERY_MS = 3000, /* measured at most this often */
    MEASURE_IDLE_MS = 10000, /* and this often unless it is short of room and has changed */
    MEASURE_RESTS = 20,      /* pause, as a multiple of the duration */
};

static void path_of(const char *id, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, CHARGE_DIR "/%s", id);
}

/* ---- records ---- */

/* A single write, always of the same length: a reader finds the old record or the new one. */
static int record_put(int fd, const struct charge *charge)
{
    char text[RECORD_BYTES] = {0};

    (void)snprintf(text, sizeof(text),
                   "%s %" PRIu64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32 "\n",
                   charge->id, charge->group, charge->beside_bytes, charge->limit_bytes,
                   charge->shared_bytes, charge->generation, charge->took_ms);
    ssize_t n = pwrite(fd, text, sizeof(text), 0);
    return n == (ssize_t)sizeof(text) ? 0 : n < 0 ? -errno : -EIO;
}

static int record_write(int dir_fd, const char *name, const struct charge *charge)
{
    scoped_fd fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    return fd < 0 ? -errno : record_put(fd, charge);
}

static bool record_get(int fd, struct charge *out)
{
    char text[RECORD_BYTES + 1] = {0};
    struct charge charge = {0};

    if (pread(fd, text, RECORD_BYTES, 0) <= 0 ||
        sscanf(text, "%31s %" SCNu64 " %" SCNd64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32,
               charge.id, &charge.group, &charge.beside_bytes, &charge.limit_bytes,
               &charge.shared_bytes, &charge.generation, &charge.took_ms) != 7) {
        return false;
    }
    *out = charge;
    return true;
}

static bool record_read(int dir_fd, const char *name, struct charge *out)
{
    scoped_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && record_get(fd, out);
}

bool charge_read(struct pool *pool, const char *id, struct charge *out)
{
    char path[PATH_BYTES];

    path_of(id, path);
    return pool_quotas_are_simple(pool) && record_read(pool_fd(pool), path, out);
}

int charge_begin(struct pool *pool, const struct charge *charge, struct err *err)
{
    char path[PATH_BYTES];

    path_of(charge->id, path);
    int r = record_write(pool_fd(pool), path, charge);
    return r < 0 ? err_code(err, -r, "record what the disk of jail %s is charged for", charge->id)
                 : 0;
}

void charge_remove(struct pool *pool, const char *id)
{
    char path[PATH_BYTES];

    path_of(id, path);
    (void)unlinkat(pool_fd(pool), path, 0);
}

/* ---- the limit ---- */

uint64_t charge_used(int disk_fd, const struct charge *charge)
{
    const int64_t used = (int64_t)subvol_bytes(disk_fd, charge->group) + charge->beside_bytes;

    return used > 0 ? (uint64_t)used : 0;
}

/* At least one byte: 0 would mean no limit. The call is made on the pool, because it uses space
 * where it is made, and a full disk has none. */
static int limit_set(struct pool *pool, const struct charge *charge)
{
    const int64_t left = (int64_t)charge->limit_bytes - charge->beside_bytes;

    return subvol_limit(pool_fd(pool), charge->group, left > 0 ? (uint64_t)left : 1);
}

/* The record of a disk that has only the bytes of its own group. */
static struct charge charge_own(int disk_fd, const char *id)
{
    struct charge charge = {.group = subvol_id(disk_fd)};

    (void)snprintf(charge.id, sizeof(charge.id), "%s", id);
    return charge;
}

static struct charge charge_of(struct pool *pool, int disk_fd, const char *id)
{
    struct charge charge;

    return charge_read(pool, id, &charge) ? charge : charge_own(disk_fd, id);
}

int charge_lift(struct pool *pool, int disk_fd, const char *id)
{
    const struct charge charge = charge_of(pool, disk_fd, id);

    return subvol_limit(pool_fd(pool), charge.group, SUBVOL_UNLIMITED);
}

int charge_bound(struct pool *pool, int disk_fd, const char *id, uint64_t limit_bytes)
{
    struct charge charge = charge_of(pool, disk_fd, id);
    char path[PATH_BYTES];

    charge.limit_bytes = limit_bytes;
    path_of(id, path);
    scoped_fd record = openat(pool_fd(pool), path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    int r = record < 0 ? 0 : record_put(record, &charge);
    return r < 0 ? r : limit_set(pool, &charge);
}

/* ---- saves and copies ---- */

/* The record of a disk that has none. False for a copy made by an earlier release: its initial size
 * is unknown. */
static bool charge_find(struct pool *pool, int disk_fd, const char *id, struct charge *out)
{
    struct subvol_look look;

    if (charge_read(pool, id, out)) {
        return true;
    }
    if (subvol_look(disk_fd, &look) < 0 || look.is_copy) {
        return false;
    }
    *out = charge_own(disk_fd, id);
    out->limit_bytes = subvol_limit_bytes(disk_fd, 0);
    return out->group != 0;
}

int charge_keep(struct pool *pool, int disk_fd, const char *id, bool stop, int begun_fd,
                uint64_t *group, struct err *err)
{
    struct charge charge;

    *group = 0;
    if (!pool_quotas_are_simple(pool) || !charge_find(pool, disk_fd, id, &charge)) {
        return 0;
    }
    if (!stop) {
        charge.shared_bytes = charge.limit_bytes;
        return charge_begin(pool, &charge, err);
    }
    int r = charge.group >> SUBVOL_LEVEL_SHIFT
                ? 0
                : subvol_group_make(pool_fd(pool), charge.group, &charge.group);
    if (r == 0) {
        r = record_write(begun_fd, CHARGE_SAVED, &charge);
    }
    if (r < 0) {
        return err_code(err, -r, "keep what the disk of jail %s is charged for", id);
    }
    *group = charge.group;
    return 0;
}

/* A save never changes: it is measured once, for the first copy. */
static int size_of(int saved_fd, int saved_disk_fd, const char *id, uint64_t *bytes,
                   struct err *err)
{
    struct charge size = {.id = "-"};

    if (record_read(saved_fd, CHARGE_SIZE, &size)) {
        *bytes = (uint64_t)size.beside_bytes;
        return 0;
    }
    int r = subvol_measure(saved_disk_fd, bytes);
    if (r < 0) {
        return err_code(err, -r, "measure the saved disk for jail %s", id);
    }
    size.beside_bytes = (int64_t)*bytes;
    (void)!record_write(saved_fd, CHARGE_SIZE, &size); /* otherwise the next copy measures again */
    return 0;
}

int charge_inherit(struct pool *pool, int saved_fd, int saved_disk_fd, const char *id,
                   struct charge *out, struct err *err)
{
    struct charge kept;
    uint64_t bytes = 0;

    *out = (struct charge){0};
    (void)snprintf(out->id, sizeof(out->id), "%s", id);
    if (!pool_quotas_are_simple(pool)) {
        return 0;
    }
    const bool is_kept = record_read(saved_fd, CHARGE_SAVED, &kept);
    if (is_kept && strcmp(kept.id, id) == 0 &&
        subvol_limit(pool_fd(pool), kept.group, SUBVOL_UNLIMITED) == 0) {
        *out = kept;
        return 0;
    }
    int r = size_of(saved_fd, saved_disk_fd, id, &bytes, err);
    if (r == 0 && is_kept && kept.shared_bytes != bytes) { /* the paused disk has a copy now */
        kept.shared_bytes = bytes;
        (void)!record_write(saved_fd, CHARGE_SAVED, &kept);
    }
    out->beside_bytes = (int64_t)bytes;
    out->shared_bytes = bytes;
    return r;
}

/* ---- measuring ---- */

/* Read in this order, so that data written meanwhile counts as used. */
static int measure(int disk_fd, struct charge *charge)
{
    const int64_t from_ms = clock_mono_ms();
    struct subvol_look look = {0};
    uint64_t holds = 0;
    int r = subvol_commit(disk_fd);

    if (r == 0) {
        r = subvol_look(disk_fd, &look);
    }
    if (r < 0 || look.generation == charge->generation) {
        return r;
    }
    const uint64_t charged = subvol_bytes(disk_fd, charge->group);
    r = subvol_measure(disk_fd, &holds);
    if (r == 0) {
        charge->beside_bytes = (int64_t)holds - (int64_t)charged;
        charge->generation = look.generation;
        charge->took_ms = (uint32_t)(clock_mono_ms() - from_ms);
    }
    return r;
}

/* A disk that was removed meanwhile has no record any more: nothing is done. */
static int measure_locked(struct pool *pool, int disk_fd, int record_fd)
{
    struct charge charge;
    struct stat st;

    if (flock(record_fd, LOCK_EX | LOCK_NB) < 0) {
        return -errno;
    }
    if (!record_get(record_fd, &charge)) {
        return -ENOENT;
    }
    int r = measure(disk_fd, &charge);
    if (r == 0 && (fstat(record_fd, &st) < 0 || st.st_nlink == 0)) {
        r = -ENOENT;
    }
    if (r == 0) {
        r = record_put(record_fd, &charge);
    }
    return r < 0 ? r : limit_set(pool, &charge);
}

int charge_measure(struct pool *pool, const char *id)
{
    char path[PATH_BYTES];

    path_of(id, path);
    scoped_fd disk = pool_disk_open(pool, id);
    scoped_fd record = openat(pool_fd(pool), path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (disk < 0 || record < 0) {
        return -ENOENT;
    }
    return measure_locked(pool, disk, record);
}

static bool is_changed(int disk_fd, const struct charge *charge)
{
    struct subvol_look look;

    return subvol_look(disk_fd, &look) == 0 && look.generation != charge->generation;
}

static bool is_short(int disk_fd, const struct charge *charge)
{
    const uint64_t used = charge_used(disk_fd, charge);

    return charge->limit_bytes < used ||
           charge->limit_bytes - used < charge->limit_bytes / SHORT_SHARE;
}

/* The modification time of the record is the time of the last check. */
static bool is_due(int disk_fd, int record_fd, const struct charge *charge)
{
    struct stat st;
    struct timespec now;

    if (fstat(record_fd, &st) < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0) {
        return false;
    }
    const int64_t age_ms =
        (now.tv_sec - st.st_mtim.tv_sec) * 1000 + (now.tv_nsec - st.st_mtim.tv_nsec) / 1000000;
    if (age_ms < 0) { /* the clock was set back */
        return true;
    }
    if (age_ms < MEASURE_EVERY_MS || age_ms < (int64_t)charge->took_ms * MEASURE_RESTS) {
        return false;
    }
    return is_changed(disk_fd, charge) ? age_ms >= MEASURE_IDLE_MS || is_short(disk_fd, charge)
                                       : age_ms >= MEASURE_IDLE_MS && is_short(disk_fd, charge);
}

/* Enough must be shared to be worth measuring. */
static bool is_worth(int disk_fd, const struct charge *charge)
{
    return charge->shared_bytes >= charge->limit_bytes / SHARED_SHARE ||
           (charge->shared_bytes > 0 && is_short(disk_fd, charge));
}

void charge_check(struct pool *pool, const char *id)
{
    char path[PATH_BYTES];
    struct charge charge;

    if (!pool_quotas_are_simple(pool)) {
        return;
    }
    path_of(id, path);
    scoped_fd record = openat(pool_fd(pool), path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (record < 0 || !record_get(record, &charge)) {
        return;
    }
    scoped_fd disk = pool_disk_open(pool, id);
    if (disk < 0 || !is_worth(disk, &charge) || !is_due(disk, record, &charge)) {
        return;
    }
    (void)futimens(record, NULL);
    pool_in_background(pool, charge_measure, id);
}
