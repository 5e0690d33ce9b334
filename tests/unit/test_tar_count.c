/* Files in a tar stream are counted as it passes, whatever pieces it comes in. */
#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli/tar_count.h"
#include "lib/base/compiler.h"

enum { ROOM = 64 * 1024, LONG_NAME = 250 };

static char tar[ROOM];
static size_t tar_len;

static void entry_write(struct archive *archive, const char *name, unsigned type, size_t size)
{
    static const char zeroes[5000];
    struct archive_entry *entry = archive_entry_new();

    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, (la_int64_t)size);
    if (type == AE_IFLNK) {
        archive_entry_set_symlink(entry, "elsewhere");
    }
    (void)archive_write_header(archive, entry);
    (void)archive_write_data(archive, zeroes, size);
    archive_entry_free(entry);
}

static void tar_make(void)
{
    struct archive *archive = archive_write_new();
    char name[LONG_NAME + 1];

    memset(name, 'n', LONG_NAME);
    name[LONG_NAME] = '\0';
    (void)archive_write_set_format_gnutar(archive);
    (void)archive_write_open_memory(archive, tar, sizeof(tar), &tar_len);
    entry_write(archive, "dir", AE_IFDIR, 0);
    entry_write(archive, "dir/empty", AE_IFREG, 0);
    entry_write(archive, "dir/small", AE_IFREG, 1000);
    entry_write(archive, "link", AE_IFLNK, 0);
    entry_write(archive, name, AE_IFREG, 4096); /* an entry of its own carries the name */
    (void)archive_write_free(archive);
}

static void pieces_of_any_length(void)
{
    static const size_t lengths[] = {1, 7, 511, 512, 513, 4096, ROOM};

    tar_make();
    for (size_t i = 0; i < countof(lengths); i++) {
        struct tar_count count = {0};
        for (size_t at = 0; at < tar_len; at += lengths[i]) {
            size_t left = tar_len - at;
            tar_count_feed(&count, tar + at, left < lengths[i] ? left : lengths[i]);
        }
        CHECK_INT(count.files, 3);
        CHECK_INT(count.bytes, 5096);
    }
}

static void odd_sizes_are_read(void)
{
    struct tar_count count = {0};
    char header[TAR_BLOCK_BYTES] = "large";

    header[124] = (char)0x80; /* 10 GB in binary: more than octal digits hold */
    header[124 + 7] = 2;
    header[124 + 8] = 84;
    header[156] = '0';
    tar_count_feed(&count, header, sizeof(header));
    CHECK_INT(count.files, 1);
    CHECK_INT(count.bytes, 2LL << 32 | 84LL << 24);
    CHECK_INT(count.skip, count.bytes); /* whole blocks */

    count = (struct tar_count){0};
    memset(header + 124, 0xff, 12);
    tar_count_feed(&count, header, sizeof(header));
    CHECK_INT(count.files, 1);
    CHECK_INT(count.bytes, 0);
    CHECK_INT(count.skip, 0);
}

/* Nothing but the counts is at stake; the sanitizers look on. */
static void rubbish_is_harmless(void)
{
    struct tar_count count = {0};
    unsigned char data[TAR_BLOCK_BYTES];

    for (unsigned i = 0; i < 20000; i++) {
        for (size_t n = 0; n < sizeof(data); n++) {
            data[n] = (unsigned char)(i * 31 + n * n * 7 + i * n);
        }
        count.skip = i % 3 ? count.skip : 0; /* the next is a header again */
        tar_count_feed(&count, data, i % sizeof(data));
    }
    CHECK(count.have < TAR_BLOCK_BYTES);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"pieces of any length", pieces_of_any_length},
        {"odd sizes are read", odd_sizes_are_read},
        {"rubbish is harmless", rubbish_is_harmless},
    };

    return check_run(tests, countof(tests));
}
