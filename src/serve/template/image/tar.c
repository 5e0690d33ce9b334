#include "serve/template/image/tar.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK = 512,
    NAME_AT = 0,
    NAME_LEN = 100,
    SIZE_AT = 124,
    SIZE_LEN = 12,
    TYPE_AT = 156,
    LINK_AT = 157,
    PREFIX_AT = 345,
    PREFIX_LEN = 155,
    LINKS_MAX = 1,
};

/* Octal, or, with the first bit set, a big number in base 256. -1: neither. */
static int64_t size_read(const unsigned char *field)
{
    uint64_t size = 0;

    if (field[0] & 0x80) {
        for (int i = 4; i < SIZE_LEN; i++) {
            size = size << 8 | field[i];
        }
        return size > INT64_MAX / 2 ? -1 : (int64_t)size;
    }
    for (int i = 0; i < SIZE_LEN && field[i] && field[i] != ' '; i++) {
        if (field[i] < '0' || field[i] > '7') {
            return -1;
        }
        size = size << 3 | (unsigned)(field[i] - '0');
    }
    return (int64_t)size;
}

static void name_read(const char *block, char out[NAME_LEN + PREFIX_LEN + 2])
{
    size_t prefix =
        memcmp(block + 257, "ustar", 5) == 0 ? strnlen(block + PREFIX_AT, PREFIX_LEN) : 0;
    size_t n = strnlen(block + NAME_AT, NAME_LEN), at = 0;

    if (prefix > 0 && block[263 - 1] == '\0') {
        memcpy(out, block + PREFIX_AT, prefix);
        out[prefix] = '/';
        at = prefix + 1;
    }
    memcpy(out + at, block + NAME_AT, n);
    out[at + n] = '\0';
}

static const char *plain(const char *name)
{
    return strncmp(name, "./", 2) == 0 ? name + 2 : name;
}

static bool is_link(char type)
{
    return type == '1' || type == '2';
}

/* A link of docker save's leads to "../<id>/layer.tar". */
static void link_target(const char *block, char out[NAME_LEN + 1])
{
    const char *to = block + LINK_AT;
    size_t n = strnlen(to, NAME_LEN);

    if (n > 3 && memcmp(to, "../", 3) == 0) {
        to += 3;
        n -= 3;
    }
    memcpy(out, to, n);
    out[n] = '\0';
}

static int find(int fd, const char *name, int links, struct tar_file *out, struct err *err)
{
    char block[BLOCK], entry[NAME_LEN + PREFIX_LEN + 2], target[NAME_LEN + 1];
    int64_t at = 0;

    for (int i = 0; i < TAR_ENTRIES_MAX && pread(fd, block, BLOCK, at) == BLOCK && block[0]; i++) {
        int64_t size = size_read((const unsigned char *)block + SIZE_AT);
        char type = block[TYPE_AT];
        if (size < 0) {
            return err_set(err, EINVAL, "the archive is damaged or not a tar");
        }
        name_read(block, entry);
        if (strcmp(plain(entry), plain(name)) == 0 && is_link(type) && links < LINKS_MAX) {
            link_target(block, target);
            return find(fd, target, links + 1, out, err);
        }
        if (strcmp(plain(entry), plain(name)) == 0 && (type == '0' || type == '\0')) {
            *out = (struct tar_file){.offset = at + BLOCK, .length = size};
            return 0;
        }
        at += BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
    }
    return err_set(err, ENOENT, "the archive has no file %.150s", name);
}

int tar_find(int fd, const char *name, struct tar_file *out, struct err *err)
{
    return find(fd, name, 0, out, err);
}
