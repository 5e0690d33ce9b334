#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside/stow/stow.h"
#include "lib/base/fd.h"

#define GNU_TAR "/usr/bin/tar"

static const char gzip_magic[] = {0x1f, (char)0x8b};

struct words {
    bool create, extract;
    const char *directory;
};

static struct words words_read(int argc, char **argv)
{
    struct words words = {0};

    for (int i = 1; i < argc; i++) {
        words.create |= strcmp(argv[i], "--create") == 0;
        words.extract |= strcmp(argv[i], "--extract") == 0;
        if (strcmp(argv[i], "--directory") == 0 && i + 1 < argc) {
            words.directory = argv[++i];
        }
    }
    return words;
}

static bool is_gnu(int fd)
{
    char begin[sizeof(gzip_magic)];

    return pread(fd, begin, sizeof(begin), 0) == sizeof(begin) &&
           memcmp(begin, gzip_magic, sizeof(begin)) == 0;
}

static int work(const struct words *words, struct err *err)
{
    scoped_fd dir = open(words->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)fd_allow_most(); /* one descriptor for each directory on the way down */
    (void)umask(0);
    if (dir < 0) {
        return err_sys(err, "open %s", words->directory);
    }
    return words->create ? stow_write(dir, STDOUT_FILENO, err) : stow_read(STDIN_FILENO, dir, err);
}

int stow_main(int argc, char **argv)
{
    struct words words = words_read(argc, argv);
    struct err err;

    if (!words.directory || words.create == words.extract) {
        (void)fputs("usage: tar --create|--extract --directory DIRECTORY\n", stderr);
        return 2;
    }
    if (words.extract && is_gnu(STDIN_FILENO)) {
        (void)execv(GNU_TAR, argv);
        perror(GNU_TAR);
        return 1;
    }
    if (work(&words, &err) < 0) {
        (void)fprintf(stderr, "tar: Error (stow): %s\n", err.msg);
        return 1;
    }
    return 0;
}
