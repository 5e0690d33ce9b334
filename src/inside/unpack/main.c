#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside/unpack/internal.h"
#include "lib/base/fd.h"

static void answer(int fd, const char *line, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, line, len);
        if (n < 0 && errno != EINTR) {
            return; /* the peer is gone; the next read reports it */
        }
        n = n < 0 ? 0 : n;
        line += n;
        len -= (size_t)n;
    }
}

static void count_answer(const struct unpacker *u, const char *word)
{
    char line[80];
    int n = snprintf(line, sizeof(line), "%s %llu %llu\n", word, (unsigned long long)u->written,
                     (unsigned long long)u->entries);

    answer(u->fd, line, (size_t)n);
}

void report(struct unpacker *u)
{
    u->reported = u->written;
    count_answer(u, "at");
}

static void error_answer(int fd, const struct err *err)
{
    char line[sizeof(err->msg) + 16], shown[sizeof(err->msg)];
    int n = snprintf(line, sizeof(line), "error %s\n", name_show(err->msg, shown, sizeof(shown)));

    answer(fd, line, (size_t)n);
}

/* Reads byte by byte, because the bytes after the empty line are not part of it. */
static int lines_read(int fd, char text[UNPACK_OPTION_BYTES_MAX], size_t *len, struct err *err)
{
    size_t n = 0;

    while (n < UNPACK_OPTION_BYTES_MAX) {
        ssize_t got = read(fd, text + n, 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got != 1) {
            return err_set(err, EPROTO, "the unpacker's options ended early");
        }
        n++;
        if (text[n - 1] == '\n' && (n == 1 || text[n - 2] == '\n')) {
            *len = n - 1;
            return 0;
        }
    }
    return err_set(err, EPROTO, "the unpacker's options are longer than %d bytes",
                   UNPACK_OPTION_BYTES_MAX);
}

static int copy_prepare(struct unpacker *u, struct err *err)
{
    const struct options *o = u->options;

    if (o->target[0] == '\0' && !o->target_is_dir) {
        return err_set(err, EINVAL, "the unpacker was told no target to copy to");
    }
    int r = owner_find(o->owner, &u->uid, &u->gid, err);
    u->root.owns_dirs = true;
    u->root.uid = u->uid;
    u->root.gid = u->gid;
    return r;
}

static int unpack(struct unpacker *u, struct err *err)
{
    int r = rootdir_init(&u->root, "/", err);

    if (r == 0 && u->options->mode == UNPACK_COPY) {
        r = copy_prepare(u, err);
    }
    if (r == 0) {
        r = stream_unpack(u, err);
    }
    if (r == 0 && u->options->mode == UNPACK_COPY && !u->matched) {
        r = err_set(err, ENOENT, "the files sent hold nothing named %s", u->options->source);
    }
    rootdir_fini(&u->root);
    return r;
}

int unpack_main(int fd)
{
    static char text[UNPACK_OPTION_BYTES_MAX];
    static struct options options;
    struct unpacker u = {.options = &options, .fd = fd};
    size_t len = 0;
    struct err err = {0};

    (void)signal(SIGPIPE, SIG_IGN);
    (void)umask(0);
    int r = lines_read(fd, text, &len, &err);
    if (r == 0) {
        r = options_parse((struct str){text, len}, &options, &err);
    }
    if (r == 0) {
        made_init(&u.made);
        r = unpack(&u, &err);
        made_fini(&u.made);
    }
    if (r < 0) {
        error_answer(fd, &err);
    } else {
        count_answer(&u, "done");
    }
    return r < 0;
}
