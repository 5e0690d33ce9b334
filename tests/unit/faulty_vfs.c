#include "faulty_vfs.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "lib/base/alloc.h"

struct undo { /* what a piece of a file was before it was written */
    struct undo *prev, *next;
    char path[128];
    sqlite3_int64 at, size; /* size: of the whole file */
    int len;
    char old[];
};

struct file {
    sqlite3_file base;
    sqlite3_file *real;
    char path[128];
};

static struct {
    pthread_mutex_t lock;
    sqlite3_vfs vfs, *real;
    enum fault fault;
    int after, struck;
    bool forever, dead;
    struct undo *undo; /* newest first */
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct file *of(sqlite3_file *file)
{
    return (struct file *)(void *)file;
}

/* ---- faults ---- */

static bool strikes(enum fault fault)
{
    if (shim.fault != fault) {
        return false;
    }
    if (shim.after > 0) {
        shim.after--;
        return false;
    }
    shim.struck++;
    if (!shim.forever) {
        shim.fault = FAULT_NONE;
    }
    return true;
}

static void remember(struct file *f, sqlite3_int64 at, int len)
{
    struct undo *undo = xcalloc(1, sizeof(struct undo) + (size_t)len);

    (void)snprintf(undo->path, sizeof(undo->path), "%s", f->path);
    undo->at = at;
    undo->len = len;
    (void)f->real->pMethods->xFileSize(f->real, &undo->size);
    if (len > 0) {
        (void)f->real->pMethods->xRead(f->real, undo->old, len, at);
    }
    DL_PREPEND(shim.undo, undo);
}

static void forget(const char *path)
{
    struct undo *undo = NULL, *next = NULL;

    DL_FOREACH_SAFE (shim.undo, undo, next) {
        if (strcmp(undo->path, path) == 0) {
            DL_DELETE(shim.undo, undo);
            free(undo);
        }
    }
}

static int write_now(struct file *f, const void *data, int len, sqlite3_int64 at)
{
    if (shim.dead) {
        return SQLITE_IOERR_WRITE;
    }
    if (strikes(FAULT_WRITE)) {
        return SQLITE_IOERR_WRITE;
    }
    if (strikes(FAULT_FULL)) {
        return SQLITE_FULL;
    }
    remember(f, at, len);
    if (strikes(FAULT_TORN)) {
        (void)f->real->pMethods->xWrite(f->real, data, len / 2, at);
        return SQLITE_IOERR_WRITE;
    }
    return f->real->pMethods->xWrite(f->real, data, len, at);
}

static int on_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    pthread_mutex_lock(&shim.lock);
    int r = write_now(of(file), data, len, at);
    pthread_mutex_unlock(&shim.lock);
    return r;
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct file *f = of(file);
    sqlite3_int64 old = 0;
    int r = SQLITE_IOERR_TRUNCATE;

    pthread_mutex_lock(&shim.lock);
    if (!shim.dead) {
        (void)f->real->pMethods->xFileSize(f->real, &old);
        remember(f, size, old > size ? (int)(old - size) : 0);
        r = f->real->pMethods->xTruncate(f->real, size);
    }
    pthread_mutex_unlock(&shim.lock);
    return r;
}

static int on_sync(sqlite3_file *file, int flags)
{
    struct file *f = of(file);
    int r = SQLITE_IOERR_FSYNC;

    pthread_mutex_lock(&shim.lock);
    if (!shim.dead && !strikes(FAULT_SYNC)) {
        r = f->real->pMethods->xSync(f->real, flags);
        forget(f->path);
    }
    pthread_mutex_unlock(&shim.lock);
    return r;
}

/* ---- what passes through ---- */

static int on_close(sqlite3_file *file)
{
    struct file *f = of(file);
    int r = f->real->pMethods ? f->real->pMethods->xClose(f->real) : SQLITE_OK;

    free(f->real);
    return r;
}

static int on_read(sqlite3_file *file, void *data, int len, sqlite3_int64 at)
{
    return of(file)->real->pMethods->xRead(of(file)->real, data, len, at);
}

static int on_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return of(file)->real->pMethods->xFileSize(of(file)->real, size);
}

static int on_lock(sqlite3_file *file, int level)
{
    return of(file)->real->pMethods->xLock(of(file)->real, level);
}

static int on_unlock(sqlite3_file *file, int level)
{
    return of(file)->real->pMethods->xUnlock(of(file)->real, level);
}

static int on_reserved(sqlite3_file *file, int *out)
{
    return of(file)->real->pMethods->xCheckReservedLock(of(file)->real, out);
}

static int on_control(sqlite3_file *file, int op, void *arg)
{
    return of(file)->real->pMethods->xFileControl(of(file)->real, op, arg);
}

static int on_sector(sqlite3_file *file)
{
    return of(file)->real->pMethods->xSectorSize(of(file)->real);
}

static int on_traits(sqlite3_file *file)
{
    return of(file)->real->pMethods->xDeviceCharacteristics(of(file)->real);
}

static int on_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
    return of(file)->real->pMethods->xShmMap(of(file)->real, page, size, extend, out);
}

static int on_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return of(file)->real->pMethods->xShmLock(of(file)->real, offset, n, flags);
}

static void on_shm_barrier(sqlite3_file *file)
{
    of(file)->real->pMethods->xShmBarrier(of(file)->real);
}

static int on_shm_unmap(sqlite3_file *file, int remove)
{
    return of(file)->real->pMethods->xShmUnmap(of(file)->real, remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2, /* no memory maps of the database: every write is seen */
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_reserved,
    .xFileControl = on_control,
    .xSectorSize = on_sector,
    .xDeviceCharacteristics = on_traits,
    .xShmMap = on_shm_map,
    .xShmLock = on_shm_lock,
    .xShmBarrier = on_shm_barrier,
    .xShmUnmap = on_shm_unmap,
};

static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    struct file *f = of(file);

    (void)vfs;
    *f = (struct file){.real = xcalloc(1, (size_t)shim.real->szOsFile)};
    (void)snprintf(f->path, sizeof(f->path), "%s", name ? name : "");
    int r = shim.real->xOpen(shim.real, name, f->real, flags, out);
    if (r != SQLITE_OK) {
        free(f->real);
        return r;
    }
    f->base.pMethods = &methods;
    return r;
}

/* A dead machine removes nothing either: the log that a good close takes away must stay. */
static int on_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    return shim.dead ? SQLITE_IOERR_DELETE : shim.real->xDelete(shim.real, name, sync);
}

void faulty_vfs_install(void)
{
    shim.real = sqlite3_vfs_find(NULL);
    shim.vfs = *shim.real;
    shim.vfs.zName = "faulty";
    shim.vfs.szOsFile = (int)sizeof(struct file);
    shim.vfs.xOpen = on_open;
    shim.vfs.xDelete = on_delete;
    if (sqlite3_vfs_register(&shim.vfs, 1) != SQLITE_OK) {
        abort();
    }
}

void faulty_vfs_arm(enum fault fault, int after, bool forever)
{
    pthread_mutex_lock(&shim.lock);
    shim.fault = fault;
    shim.after = after;
    shim.forever = forever;
    shim.struck = 0;
    pthread_mutex_unlock(&shim.lock);
}

int faulty_vfs_struck(void)
{
    pthread_mutex_lock(&shim.lock);
    int n = shim.struck;
    pthread_mutex_unlock(&shim.lock);
    return n;
}

void faulty_vfs_cut_power(void)
{
    pthread_mutex_lock(&shim.lock);
    shim.dead = true;
    pthread_mutex_unlock(&shim.lock);
}

void faulty_vfs_restore_power(void)
{
    struct undo *undo = NULL, *next = NULL;

    DL_FOREACH_SAFE (shim.undo, undo, next) {
        int fd = open(undo->path, O_WRONLY | O_CLOEXEC);
        if (fd >= 0) {
            if (pwrite(fd, undo->old, (size_t)undo->len, undo->at) != undo->len ||
                ftruncate(fd, undo->size) < 0) {
                abort();
            }
            (void)close(fd);
        }
        DL_DELETE(shim.undo, undo);
        free(undo);
    }
    shim.dead = false;
}
