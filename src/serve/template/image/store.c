#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "serve/template/image/internal.h"

enum { IDLE_CONNECTIONS = 8 };

static int blobs_open(const char *state, struct err *err)
{
    scoped_fd fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || (mkdirat(fd, "blobs", 0700) < 0 && errno != EEXIST)) {
        return err_sys(err, "make the directory %s/blobs", state);
    }
    int blobs = openat(fd, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return blobs < 0 ? err_sys(err, "open the directory %s/blobs", state) : blobs;
}

int image_store_new(const struct image_options *options, const struct image_jails *jails,
                    struct image_store **out, struct err *err)
{
    const char *map = options->map && options->map[0] ? options->map : IMAGE_MAP_DEFAULT;
    int r = 0;

    if (strcmp(map, "none") == 0) {
        map = "";
    } else {
        r = reference_map_check(str_of(map), err);
    }
    if (r < 0) {
        return r;
    }
    int fd = blobs_open(options->state, err);
    if (fd < 0) {
        return fd;
    }
    struct image_store *store = xnew(struct image_store);
    *store =
        (struct image_store){.use = *options, .jails = *jails, .blobs_fd = fd, .map = xstrdup(map)};
    store->multi = multi_new(options->loop, IDLE_CONNECTIONS);
    *out = store;
    return 0;
}

void image_store_free(struct image_store *store)
{
    if (!store) {
        return;
    }
    multi_free(store->multi);
    fd_closep(&store->blobs_fd);
    free(store->map);
    free(store);
}

const char *image_mapped(struct image_store *store, struct str reference)
{
    struct str value;

    if (!reference_map(str_of(store->map), reference, &value) ||
        !str_copy(store->mapped, sizeof(store->mapped), value)) {
        return NULL;
    }
    return store->mapped;
}

const char *image_offline(const struct image_store *store, struct str reference)
{
    struct str value;
    bool known = strcmp(store->map, IMAGE_MAP_DEFAULT) == 0 &&
                 reference_map(STR(IMAGE_MAP_OFFLINE), reference, &value);

    return known ? "base" : NULL;
}

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

uint64_t image_prune(struct image_store *store, int64_t older_than_ms)
{
    int fd = openat(store->blobs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    uint64_t freed = 0;
    struct stat st;

    if (!dir || store->downloads) {
        fd = dir ? -1 : fd;
        fd_closep(&fd);
        return 0; /* nothing is removed while a blob is being fetched */
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            (int64_t)st.st_mtim.tv_sec * 1000 < older_than_ms &&
            unlinkat(fd, entry->d_name, 0) == 0) {
            freed += (uint64_t)st.st_size;
        }
    }
    return freed;
}
