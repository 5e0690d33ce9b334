#include "serve/daemon/layer.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/str.h"
#include "serve/daemon/builtin.h"
#include "serve/daemon/lock.h"
#include "wire/keeper.h"

enum {
    PATH_BYTES = 2 * DATA_PATH_BYTES,
    LAYERS_BYTES = KEEPER_LAYERS_MAX * KEEPER_LAYER_BYTES, /* a list of them */
    LOCK_WAIT_MS = 10 * 60 * 1000,                         /* another start may be unpacking */
};

#define UNPACK_PREFIX ".unpack-"

struct how {
    const struct config *config;
    const struct paths *paths;
    const struct run_lines *lines;
};

struct making { /* of one layer */
    const struct how *how;
    const char *template;
    char recipe[PATH_BYTES];
    char layer[KEEPER_LAYER_BYTES]; /* its name */
    char archive[PATH_BYTES];
    char layers[PATH_BYTES]; /* the directory of all */
    char path[PATH_BYTES + KEEPER_LAYER_BYTES];
};

static void jsonp_decref(json_t **json)
{
    json_decref(*json);
}

/* ---- names ---- */

static int name_read(const struct making *making, char name[KEEPER_LAYER_BYTES], struct err *err)
{
    const char *const argv[] = {making->recipe, "name", NULL};
    struct str template = str_of(making->template);

    int r = run_read(argv, name, KEEPER_LAYER_BYTES, err);
    if (r < 0) {
        return r;
    }
    if (!str_starts(str_of(name), template) || name[template.len] != '-') {
        return err_set(err, EINVAL, "%s names no layer", making->recipe);
    }
    return 0;
}

/* A recipe that puts a program of ours into its layer finds it by a variable. */
static int making_begin(struct making *making, const struct how *how, const char *template,
                        struct err *err)
{
    const struct paths *paths = how->paths;

    *making = (struct making){.how = how, .template = template};
    if (setenv("ATOLL_INTERPRETER", paths->interpreter, 1) < 0 ||
        setenv("ATOLL_GATEWAY", paths->gateway, 1) < 0) {
        return err_sys(err, "tell the recipes where our programs are");
    }
    (void)snprintf(making->recipe, PATH_BYTES, "%s/%s/recipe", paths->templates, template);
    int r = name_read(making, making->layer, err);
    if (r < 0) {
        return err_wrap(err, "the recipe of the template %s", template);
    }
    (void)snprintf(making->archive, PATH_BYTES, "%s/templates/%s.tar.zst", how->config->cache,
                   making->layer);
    (void)snprintf(making->layers, PATH_BYTES, "%s/layers", paths->pool);
    (void)snprintf(making->path, sizeof(making->path), "%s/%s", making->layers, making->layer);
    return 0;
}

/* ---- the archive ---- */

/* Removes leftovers of a recipe that was ended. */
static void archive_clean(const struct making *making)
{
    const char *const argv[] = {making->recipe, "clean", making->how->config->cache, NULL};
    struct err ignored; /* the next start removes it */

    (void)!run(argv, &ignored);
}

static int archive_prepare(const struct making *making, struct err *err)
{
    const char *const argv[] = {making->recipe, "build", making->how->config->cache, NULL};

    if (access(making->archive, R_OK) == 0) {
        return 0;
    }
    int r = run_contained(argv, making->how->lines, err);
    if (r == -EINTR) {
        archive_clean(making);
        return err_set(err, EINTR, "asked to end while the template %s was being made",
                       making->template);
    }
    return r < 0 ? err_set(err, -r, "the template %s could not be made; the reason is above",
                           making->template)
                 : 0;
}

/* ---- the pool ---- */

static void remove_tree(const char *path)
{
    const char *const argv[] = {"rm", "-rf", "--one-file-system", "--", path, NULL};
    struct err ignored; /* the next start removes the rest */

    (void)!run(argv, &ignored);
}

static void dirp_close(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

/* The layers lock is ours, so every half-unpacked layer is a dead process's. */
static void remove_leftovers(const char *layers)
{
    char path[2 * PATH_BYTES];
    const struct dirent *entry;

    scoped(dirp_close) DIR *dir = opendir(layers);
    while (dir && (entry = readdir(dir))) {
        if (str_starts(str_of(entry->d_name), STR(UNPACK_PREFIX))) {
            (void)snprintf(path, sizeof(path), "%s/%s", layers, entry->d_name);
            remove_tree(path);
        }
    }
}

/* Synced before it gets its name: a layer with a name is complete, also after a power cut. */
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

static long long megabytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (long long)st.st_size / 1000000 : 0;
}

static int unpack(const struct making *making, struct err *err)
{
    char work[PATH_BYTES + sizeof(UNPACK_PREFIX) + KEEPER_LAYER_BYTES];
    const char *const tar[] = {"tar",      "--extract",          "--zstd",
                               "--file",   making->archive,      "--directory",
                               work,       "--numeric-owner",    "--same-owner",
                               "--xattrs", "--xattrs-include=*", "--preserve-permissions",
                               NULL};

    (void)snprintf(work, sizeof(work), "%s/" UNPACK_PREFIX "%s", making->layers, making->layer);
    run_say(making->how->lines,
            "Unpacking the template %s (%lld MB compressed; up to a minute, and then to the disk)",
            making->template, megabytes(making->archive));
    if (mkdir(work, 0700) < 0) {
        return err_sys(err, "make the directory %s", work);
    }
    int r = run_contained(tar, making->how->lines, err);
    r = r < 0 ? err_wrap(err, "unpack %s", making->archive) : publish(work, making->path, err);
    if (r < 0) {
        remove_tree(work);
    }
    return r;
}

static int unpack_locked(const struct making *making, struct err *err)
{
    scoped_fd lock = lock_take(making->how->paths->layers_lock, LOCK_WAIT_MS, err);

    if (lock < 0) {
        return lock;
    }
    if (access(making->path, F_OK) == 0) {
        return 0;
    }
    remove_leftovers(making->layers);
    return unpack(making, err);
}

/* ---- a template ---- */

/* Its layer and those below it; the names are appended to `list`, topmost first. */
static int layers_prepare(const struct how *how, const char *name, const json_t *settings,
                          char list[LAYERS_BYTES], struct err *err)
{
    struct making making;
    const char *from = builtin_from(settings);
    size_t len = strlen(list);

    int r = making_begin(&making, how, name, err);
    if (r < 0) {
        return r;
    }
    if (len + strlen(making.layer) + 2 > LAYERS_BYTES) {
        return err_set(err, ELOOP, "the template %s has too many templates below it", name);
    }
    (void)snprintf(list + len, LAYERS_BYTES - len, "%s%s", len ? "," : "", making.layer);
    if (from) {
        scoped(jsonp_decref) json_t *below = NULL;
        r = builtin_read(how->paths, from, &below, err);
        if (r == 0) {
            r = layers_prepare(how, from, below, list, err);
        }
    }
    if (r < 0 || access(making.path, F_OK) == 0) {
        return r;
    }
    r = archive_prepare(&making, err);
    return r == 0 ? unpack_locked(&making, err) : r;
}

int layer_prepare(const struct config *config, const struct paths *paths, const char *name,
                  const struct run_lines *lines, struct err *err)
{
    const struct how how = {.config = config, .paths = paths, .lines = lines};
    char layers[LAYERS_BYTES] = "";
    scoped(jsonp_decref) json_t *settings = NULL;

    int r = builtin_read(paths, name, &settings, err);
    if (r == 0) {
        r = layers_prepare(&how, name, settings, layers, err);
    }
    if (r < 0 || builtin_is_layer(settings)) {
        return r;
    }
    return notice_ready(paths, name, settings, layers, err);
}

/* The pool need not be mounted, so the record of the last unpacking counts. */
enum layer_state layer_look(const struct config *config, const struct paths *paths,
                            const char *name)
{
    const struct how how = {.config = config, .paths = paths};
    struct making making;
    char unpacked[LAYERS_BYTES] = "";
    struct err err;

    if (making_begin(&making, &how, name, &err) < 0) {
        return LAYER_NONE;
    }
    struct str first = str_of(making.layer);
    if (notice_layers(paths, name, unpacked, sizeof(unpacked), &err) == 0 &&
        str_starts(str_of(unpacked), first)) {
        return LAYER_READY;
    }
    return access(making.archive, R_OK) == 0 ? LAYER_ARCHIVE : LAYER_NONE;
}
