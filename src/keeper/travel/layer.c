#include "keeper/travel/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/disk/saved.h"
#include "lib/base/fd.h"
#include "wire/keeper.h"

enum { LAYER_PATH_BYTES = KEEPER_LAYER_BYTES + 32, DEPTH_MAX = 1024 };

int layer_open(struct pool *pool, const char *name, struct err *err)
{
    const bool is_saved = strncmp(name, KEEPER_SAVED_PREFIX, strlen(KEEPER_SAVED_PREFIX)) == 0;
    char path[LAYER_PATH_BYTES];

    (void)snprintf(path, sizeof(path),
                   is_saved ? "saved/%s/" SAVED_DISK "/" POOL_UPPER : "layers/%s", name);
    int fd = openat(pool_fd(pool), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
        return err_set(err, ENOENT,
                       "this machine lacks the layer %s, on which the sandbox is built", name);
    }
    return fd < 0 ? err_sys(err, "open the layer %s", name) : fd;
}

struct digest {
    crypto_hash_sha256_state state;
    int depth;
};

static void text_add(struct digest *digest, const char *text)
{
    (void)crypto_hash_sha256_update(&digest->state, (const unsigned char *)text, strlen(text) + 1);
}

static int link_add(struct digest *digest, int dir_fd, const char *name, struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);

    if (n < 0) {
        return err_sys(err, "read a link of a layer");
    }
    target[n] = '\0';
    text_add(digest, target);
    return 0;
}

static void plain_add(struct digest *digest, const struct stat *st)
{
    char text[96];

    (void)snprintf(text, sizeof(text), "%jd %jd.%09ld", (intmax_t)st->st_size,
                   (intmax_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    text_add(digest, text);
}

static int tree_add(struct digest *digest, int fd, struct err *err);

static int entry_add(struct digest *digest, int dir_fd, const char *name, struct err *err)
{
    struct stat st;
    char text[64];

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(err, "look at a file of a layer");
    }
    (void)snprintf(text, sizeof(text), "%o %u %u", st.st_mode, st.st_uid, st.st_gid);
    text_add(digest, name);
    text_add(digest, text);
    if (S_ISLNK(st.st_mode)) {
        return link_add(digest, dir_fd, name, err);
    }
    if (S_ISREG(st.st_mode)) {
        plain_add(digest, &st);
    }
    if (!S_ISDIR(st.st_mode)) {
        return 0;
    }
    scoped_fd fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(err, "open a directory of a layer") : tree_add(digest, fd, err);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct names {
    char **list;
    size_t n, cap;
};

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        free(names->list[i]);
    }
    free(names->list);
}

static void names_add(struct names *names, const char *name)
{
    if (names->n == names->cap) {
        names->cap = names->cap ? 2 * names->cap : 64;
        names->list = reallocarray(names->list, names->cap, sizeof(char *));
    }
    char *copy = names->list ? strdup(name) : NULL;
    if (!copy) {
        abort();
    }
    names->list[names->n++] = copy;
}

static int names_read(int fd, struct names *names, struct err *err)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : fdopendir(own);

    if (!dir) {
        return err_sys(err, "list a directory of a layer");
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            names_add(names, entry->d_name);
        }
    }
    (void)closedir(dir);
    if (names->n > 0) {
        qsort(names->list, names->n, sizeof(char *), by_bytes);
    }
    return 0;
}

/* An empty name ends a directory: no entry has one. */
static int tree_add(struct digest *digest, int fd, struct err *err)
{
    scoped(names_fini) struct names names = {0};
    int r = ++digest->depth > DEPTH_MAX ? err_set(err, ELOOP, "a layer is too deep")
                                        : names_read(fd, &names, err);

    for (size_t i = 0; r == 0 && i < names.n; i++) {
        r = entry_add(digest, fd, names.list[i], err);
    }
    digest->depth--;
    text_add(digest, "");
    return r;
}

int layer_digest(int layer_fd, char out[SHA256_HEX_LEN + 1], struct err *err)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    struct digest digest = {0};

    (void)crypto_hash_sha256_init(&digest.state);
    int r = tree_add(&digest, layer_fd, err);
    if (r < 0) {
        return r;
    }
    (void)crypto_hash_sha256_final(&digest.state, hash);
    hex_encode(out, hash, sizeof(hash));
    return 0;
}
