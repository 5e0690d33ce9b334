/* stow.h - the files of a file system in memory, as one stream: what CRIU calls `tar` for.
 *
 * CRIU has each tmpfs of a jail written and read by a program of that name, which it finds in its
 * PATH, with fixed words; four of them for every save and every restore. GNU tar with gzip takes
 * four milliseconds for each, nearly all of it to start two programs and a shell. This one is the
 * agent's program under another name: static, and in memory already. It keeps what tar leaves out,
 * too: times to the nanosecond and extended attributes.
 *
 * The stream is a magic and records, each a struct stow_record with a name and a value behind it,
 * in the byte order of the machine: images do not leave its kind. A file's record is followed by
 * those of its pieces and attributes, a directory's also by those of the files in it, and then by
 * one STOW_END. Sockets are left out, since CRIU binds them anew. Nothing is compressed: pack.h
 * does that to images that lie idle, and while they are written the jail stands still.
 *
 * Needs:   the rights of the jail's root; owners are numbers of its user namespace.
 * Blocks:  until all is written or read.
 */
#ifndef STOW_STOW_H
#define STOW_STOW_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

#define STOW_MAGIC "atoll-stow-1\n\0\0" /* with the NUL that ends it: 16 bytes */

enum stow_kind {
    STOW_END = 1,   /* of the file, or of what is in the directory */
    STOW_FILE,      /* of any type, which is in its mode; the value is a symbolic link's target */
    STOW_LINK,      /* another name of a file: the value is the first one, from the top */
    STOW_ATTRIBUTE, /* an extended one of the file */
    STOW_PIECE,     /* bytes of the file, at `at`; what lies between pieces is a hole */
};

struct stow_record {
    uint32_t kind; /* enum stow_kind; of STOW_FILE are the fields up to mtime_ns */
    uint32_t mode;
    uint32_t uid, gid;
    uint64_t device;
    uint64_t size;
    int64_t atime_s, mtime_s;
    uint32_t atime_ns, mtime_ns;
    uint64_t at;
    uint64_t value_n; /* with the NUL that ends it, if it is a text */
    uint32_t name_n;  /* with the NUL that ends it; 0: none */
    uint32_t zero;
};

/* Both of a directory: all below it, on the same file system, to a file; and the other way. */
must_check int stow_write(int dir_fd, int out_fd, struct err *err);
must_check int stow_read(int in_fd, int dir_fd, struct err *err);

/* With CRIU's words. What was written by GNU tar is left to it. Returns the exit code. */
int stow_main(int argc, char **argv);

#endif
