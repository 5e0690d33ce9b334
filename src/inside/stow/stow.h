/* stow.h - writes the files of a tmpfs to one stream, and reads them back: CRIU's `tar`.
 *
 * CRIU writes and reads each tmpfs of a jail with a program of that name, which it finds in its
 * PATH, with fixed arguments; four times for every save and every restore. GNU tar with gzip takes
 * four milliseconds each time, nearly all of it to start two programs and a shell. This one is the
 * agent's program under another name: static, and in memory already. It also keeps what tar leaves
 * out: times to the nanosecond, and extended attributes.
 *
 * The stream is a magic and records, each a struct stow_record followed by a name and a value, in
 * the byte order of the machine: images are not used on other kinds of machines. The record of a
 * file is followed by those of its pieces and attributes, that of a directory also by those of the
 * files in it, and then by one STOW_END. Sockets are left out, because CRIU binds them again.
 * Nothing is compressed: the jail is frozen while this writes, and pack.h compresses images later.
 *
 * Owns:    nothing.
 * Needs:   the rights of the jail's root; owners are ids of its user namespace.
 * Blocks:  until all is written or read.
 * Threads: one.
 */
#ifndef STOW_STOW_H
#define STOW_STOW_H

#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

#define STOW_MAGIC "atoll-stow-1\n\0\0" /* with the final NUL: 16 bytes */

enum stow_kind {
    STOW_END = 1, /* end of a file, or of the entries of a directory */
    STOW_FILE, /* a file of any type (see its mode); the value is the target of a symbolic link */
    STOW_LINK, /* another name of a file: the value is its first name, from the top */
    STOW_ATTRIBUTE, /* an extended attribute of the file */
    STOW_PIECE,     /* bytes of the file, at `at`; between pieces there are holes */
};

struct stow_record {
    uint32_t kind; /* enum stow_kind; the fields up to mtime_ns are for STOW_FILE */
    uint32_t mode;
    uint32_t uid, gid;
    uint64_t device;
    uint64_t size;
    int64_t atime_s, mtime_s;
    uint32_t atime_ns, mtime_ns;
    uint64_t at;
    uint64_t value_n; /* with the final NUL, if it is a text */
    uint32_t name_n;  /* with the final NUL; 0: none */
    uint32_t zero;
};

/* Writes all files below a directory, on the same file system, to out_fd; and reads them back. */
must_check int stow_write(int dir_fd, int out_fd, struct err *err);

/* Which files are written. Each function returns 1: write it; 0: leave it out, a directory with all
 * that is in it; or -errno and a sentence: stop. `path` is from the top, which is always written.
 */
struct stow_filter {
    int (*file)(void *ctx, const char *path, const struct stat *st, struct err *err);
    /* NULL: all attributes are written. */
    int (*attribute)(void *ctx, const char *path, const char *name, struct str value,
                     struct err *err);
    void *ctx;
};
/* Writes the chosen files. -ENAMETOOLONG for a file whose path is longer than PATH_MAX. */
must_check int stow_write_chosen(int dir_fd, int out_fd, const struct stow_filter *filter,
                                 struct err *err);
/* Reads files back into a tree that has some of them already: they are replaced, and a directory
 * with the mark of an overlay loses those that are not in the stream. */
#define STOW_OPAQUE "trusted.overlay.opaque"
must_check int stow_read_over(int in_fd, int dir_fd, struct err *err);
must_check int stow_read(int in_fd, int dir_fd, struct err *err);

/* Takes CRIU's arguments. Passes streams of GNU tar on to GNU tar. Returns the exit code. */
int stow_main(int argc, char **argv);

#endif
