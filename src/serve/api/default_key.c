/* The first start makes a team and a key; the key's text goes into a file that only the daemon's
 * user can read. When that key is revoked, another takes its place, so that a user who may read the
 * file is never locked out. The order keeps the two in step: the text is on disk under a temporary
 * name, then the key is in the store, then the file gets its name. A crash in between leaves a key
 * that nobody knows. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"
#include "serve/api/internal.h"

#define TEAM_NAME "default"
#define TEMPORARY_SUFFIX ".new"

static bool file_has_working_key(struct api *api)
{
    char text[KEY_TEXT_LEN + 2];
    ssize_t n = small_file_read(AT_FDCWD, api->default_key_path, text, sizeof(text));
    bool works =
        n >= KEY_TEXT_LEN && accounts_find_text(api, (struct str){text, KEY_TEXT_LEN}) != NULL;

    explicit_bzero(text, sizeof(text));
    return works;
}

/* ---- the file ---- */

int key_file_write(const char *path, const char *text, struct err *err)
{
    char line[KEY_FILE_BYTES];

    if (unlink(path) < 0 && errno != ENOENT) {
        return err_sys(err, "remove %s", path);
    }
    scoped_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, "create %s", path);
    }
    int len = snprintf(line, sizeof(line), "%s\n", text);
    ssize_t n = write(fd, line, (size_t)len);
    explicit_bzero(line, sizeof(line));
    if (n != len || fsync(fd) < 0) {
        return err_sys(err, "write %s", path);
    }
    return 0;
}

static int temporary_rename(const char *from, const char *to, struct err *err)
{
    char dir_path[PATH_MAX];

    if (rename(from, to) < 0) {
        return err_sys(err, "rename %s to %s", from, to);
    }
    (void)snprintf(dir_path, sizeof(dir_path), "%s", to);
    scoped_fd dir = open(dirname(dir_path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fsync(dir) < 0) {
        return err_sys(err, "sync the directory of %s", to);
    }
    return 0;
}

/* ---- the store ---- */

struct saved {
    bool done;
    int error;
    struct err err;
};

static void on_saved(void *ctx, int error, const struct err *err)
{
    struct saved *saved = ctx;

    *saved = (struct saved){true, error, *err};
}

/* Start-up only: nothing else is on the loop yet that a wait could delay. */
static int saved_wait(struct api *api, struct saved *saved, struct err *err)
{
    while (!saved->done) {
        (void)uv_run(api->options.loop, UV_RUN_ONCE);
    }
    if (saved->error < 0) {
        *err = saved->err;
    }
    return saved->error;
}

static int team_make(struct api *api, struct err *err)
{
    struct saved saved = {0};
    char id[ID_UUID_LEN + 1];

    id_uuid(id);
    struct team_row row = {.id = id, .name = TEAM_NAME, .created_ms = clock_wall_ms()};
    store_team_save(api->options.store, &row, on_saved, &saved);
    int r = saved_wait(api, &saved, err);
    if (r == 0) {
        (void)accounts_add_team(api, &row);
        templates_name_team(api->options.templates, id, TEAM_NAME);
    }
    return r;
}

/* ---- a new key ---- */

struct renewal {
    struct api *api;
    struct key *key;
    char temporary[PATH_MAX];
    store_done *done;
    void *ctx;
};

static void renewal_end(struct renewal *renewal, int error, const struct err *err)
{
    renewal->api->renewing = false;
    renewal->done(renewal->ctx, error, err);
    free(renewal);
}

static void on_key_saved(void *ctx, int error, const struct err *store_err)
{
    struct renewal *renewal = ctx;
    struct err err = *store_err;

    if (error < 0) {
        (void)unlink(renewal->temporary);
        key_free(renewal->key);
    } else {
        accounts_add(renewal->api, renewal->key);
        error = temporary_rename(renewal->temporary, renewal->api->default_key_path, &err);
    }
    renewal_end(renewal, error, &err);
}

static void renew(struct api *api, store_done *done, void *ctx)
{
    struct renewal *renewal = xnew(struct renewal);
    char text[KEY_TEXT_LEN + 1];
    struct err err = {0};

    *renewal = (struct renewal){.api = api, .done = done, .ctx = ctx};
    api->renewing = true;
    (void)snprintf(renewal->temporary, sizeof(renewal->temporary), "%s" TEMPORARY_SUFFIX,
                   api->default_key_path);
    renewal->key = key_new(api->teams, "default", text);
    int r = key_file_write(renewal->temporary, text, &err);
    explicit_bzero(text, sizeof(text));
    if (r < 0) {
        (void)unlink(renewal->temporary);
        key_free(renewal->key);
        renewal_end(renewal, r, &err);
        return;
    }
    key_save(api, renewal->key, on_key_saved, renewal);
}

void default_key_keep(struct api *api, store_done *done, void *ctx)
{
    const struct err none = {0};

    if (!api->default_key_path || api->renewing || file_has_working_key(api)) {
        done(ctx, 0, &none);
    } else {
        renew(api, done, ctx);
    }
}

int api_prepare_default_key(struct api *api, const char *key_path, struct err *err)
{
    struct saved saved = {0};

    if (strlen(key_path) + strlen(TEMPORARY_SUFFIX) >= PATH_MAX) {
        return err_set(err, ENAMETOOLONG, "the path of the key file is too long");
    }
    if (!api->teams) {
        int r = team_make(api, err);
        if (r < 0) {
            return r;
        }
    }
    free(api->default_key_path);
    api->default_key_path = xstrdup(key_path);
    default_key_keep(api, on_saved, &saved);
    return saved_wait(api, &saved, err);
}
