#include "serve/secrets/key.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/fd.h"
#include "lib/base/id.h"

static int directory_sync(const char *path, struct err *err)
{
    char directory[PATH_MAX];

    (void)snprintf(directory, sizeof(directory), "%s", path);
    scoped_fd fd = open(dirname(directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? err_sys(err, "sync the directory of %s", ours(path)) : 0;
}

/* The file has its name only once its bytes are on the disk. */
static int key_make(const char *path, uint8_t out[SECRET_KEY_BYTES], struct err *err)
{
    char temporary[PATH_MAX];

    if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary)) {
        return err_set(err, ENAMETOOLONG, "the path %.80s... is too long", ours(path));
    }
    (void)unlink(temporary);
    scoped_fd fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, "create %s", ours(temporary));
    }
    id_random(out, SECRET_KEY_BYTES);
    if (write(fd, out, SECRET_KEY_BYTES) != SECRET_KEY_BYTES || fsync(fd) < 0 ||
        rename(temporary, path) < 0) {
        return err_sys(err, "write %s", ours(path));
    }
    return directory_sync(path, err);
}

int key_load(const char *path, uint8_t out[SECRET_KEY_BYTES], struct err *err)
{
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    uint8_t more[SECRET_KEY_BYTES + 1];
    struct stat st;

    if (fd < 0 && errno == ENOENT) {
        return key_make(path, out, err);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(err, "open %s", ours(path));
    }
    if (st.st_mode & (S_IRWXG | S_IRWXO)) {
        return err_set(err, EPERM, "%s can be read by others: chmod 600 it", ours(path));
    }
    ssize_t n = read(fd, more, sizeof(more));
    memcpy(out, more, SECRET_KEY_BYTES);
    explicit_bzero(more, sizeof(more));
    return n == SECRET_KEY_BYTES ? 0
                                 : err_set(err, EINVAL, "%s is damaged: it must have %d bytes",
                                           ours(path), SECRET_KEY_BYTES);
}

void key_derive(const uint8_t key[SECRET_KEY_BYTES], const char *label,
                uint8_t out[SECRET_KEY_BYTES])
{
    if (!HMAC(EVP_sha256(), key, SECRET_KEY_BYTES, (const unsigned char *)label, strlen(label), out,
              NULL)) {
        abort(); /* only without memory */
    }
}
