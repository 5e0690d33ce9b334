#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/str.h"
#include "daemon/prepare.h"
#include "daemon/run.h"
#include "keeper/keeper.h"

enum { ARCHIVE_BYTES = CONFIG_TEXT_BYTES + KEEPER_LAYER_BYTES + 32 };

#define UNPACK_PREFIX ".unpack-"

static int name_read(const struct places *places, char name[KEEPER_LAYER_BYTES], struct err *err)
{
    const char *const argv[] = {places->recipe, "name", NULL};

    if (!places->recipe[0]) {
        return err_set(err, ENOENT,
                       "the recipe of the base template is missing: name its directory "
                       "with --templates");
    }
    int r = run_read(argv, name, KEEPER_LAYER_BYTES, err);
    if (r == 0 && !str_starts(str_of(name), STR("base-"))) {
        return err_set(err, EINVAL, "%s names no layer", places->recipe);
    }
    return r;
}

static void archive_path(const struct config *config, const char *name, char out[ARCHIVE_BYTES])
{
    (void)snprintf(out, ARCHIVE_BYTES, "%s/templates/%s.tar.zst", config->cache, name);
}

/* Removes what a recipe that was ended left behind. */
static void archive_clean(const struct config *config, const struct places *places)
{
    const char *const argv[] = {places->recipe, "clean", config->cache, NULL};
    struct err ignored; /* the next start removes it */

    (void)!run(argv, &ignored);
}

static int archive_prepare(const struct config *config, const struct places *places,
                           const char *archive, struct err *err)
{
    const char *const argv[] = {places->recipe, "build", config->cache, NULL};

    if (access(archive, R_OK) == 0) {
        return 0;
    }
    int r = run_contained(argv, err);
    if (r == -EINTR) {
        archive_clean(config, places);
        return err_set(err, EINTR, "asked to end while the base template was being made");
    }
    return r < 0 ? err_set(err, -r, "the base template could not be made; the reason is above") : 0;
}

static void remove_tree(const char *path)
{
    const char *const argv[] = {"rm", "-rf", "--one-file-system", "--", path, NULL};
    struct err ignored; /* what stays behind is removed by the next start */

    (void)!run(argv, &ignored);
}

static void dirp_close(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

/* The prepare lock is ours, so every half-unpacked layer is a dead process's. */
static void remove_leftovers(const char *layers)
{
    char path[2 * PLACE_BYTES];
    const struct dirent *entry;

    scoped(dirp_close) DIR *dir = opendir(layers);
    while (dir && (entry = readdir(dir))) {
        if (str_starts(str_of(entry->d_name), STR(UNPACK_PREFIX))) {
            (void)snprintf(path, sizeof(path), "%s/%s", layers, entry->d_name);
            remove_tree(path);
        }
    }
}

/* On disk before it gets its name: a layer that is there is whole, also after a power cut. */
static int publish(const char *unpacked, const char *layer, struct err *err)
{
    scoped_fd fd = open(unpacked, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 || fchmod(fd, 0755) < 0 || syncfs(fd) < 0) {
        return err_sys(err, "write %s to disk", unpacked);
    }
    if (rename(unpacked, layer) < 0) {
        return err_sys(err, "put the layer %s in place", layer);
    }
    return 0;
}

static int unpack(const char *archive, const char *layers, const char *name, struct err *err)
{
    char work[2 * PLACE_BYTES];
    char layer[2 * PLACE_BYTES];
    const char *const tar[] = {"tar",
                               "--extract",
                               "--zstd",
                               "--file",
                               archive,
                               "--directory",
                               work,
                               "--numeric-owner",
                               "--same-owner",
                               "--xattrs",
                               "--xattrs-include=*",
                               "--preserve-permissions",
                               NULL};

    (void)snprintf(layer, sizeof(layer), "%s/%s", layers, name);
    (void)snprintf(work, sizeof(work), "%s/" UNPACK_PREFIX "%s", layers, name);
    (void)fprintf(stderr, "Unpacking the base template\n");
    if (mkdir(work, 0700) < 0) {
        return err_sys(err, "make the directory %s", work);
    }
    int r = run_contained(tar, err);
    r = r < 0 ? err_wrap(err, "unpack %s", archive) : publish(work, layer, err);
    if (r < 0) {
        remove_tree(work);
    }
    return r;
}

/* By a rename, so that a server that reads it meanwhile finds the old name or the new one. */
static int name_write(const struct places *places, const char *name, struct err *err)
{
    char fresh[PLACE_BYTES + 8];

    (void)snprintf(fresh, sizeof(fresh), "%s.new", places->base_layer);
    scoped_fd fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 || dprintf(fd, "%s\n", name) < 0 || rename(fresh, places->base_layer) < 0) {
        return err_sys(err, "write %s", places->base_layer);
    }
    return 0;
}

int layer_prepare(const struct config *config, const struct places *places, struct err *err)
{
    char name[KEEPER_LAYER_BYTES] = "";
    char archive[ARCHIVE_BYTES];
    char layers[PLACE_BYTES + 8];
    char layer[sizeof(layers) + KEEPER_LAYER_BYTES];
    struct stat st;

    int r = name_read(places, name, err);
    if (r < 0) {
        return r;
    }
    (void)snprintf(layers, sizeof(layers), "%s/layers", places->pool);
    (void)snprintf(layer, sizeof(layer), "%s/%s", layers, name);
    if (stat(layer, &st) < 0) {
        archive_path(config, name, archive);
        r = archive_prepare(config, places, archive, err);
        if (r == 0) {
            remove_leftovers(layers);
            r = unpack(archive, layers, name, err);
        }
    }
    return r == 0 ? name_write(places, name, err) : r;
}

/* The pool need not be mounted, so what was unpacked last is believed. */
enum layer_state layer_look(const struct config *config, const struct places *places)
{
    char name[KEEPER_LAYER_BYTES] = "";
    char unpacked[KEEPER_LAYER_BYTES] = "";
    char archive[ARCHIVE_BYTES];
    struct err err;

    if (name_read(places, name, &err) < 0) {
        return LAYER_NONE;
    }
    if (place_read(places->base_layer, unpacked, sizeof(unpacked), &err) == 0 &&
        strcmp(name, unpacked) == 0) {
        return LAYER_READY;
    }
    archive_path(config, name, archive);
    return access(archive, R_OK) == 0 ? LAYER_ARCHIVE : LAYER_NONE;
}
