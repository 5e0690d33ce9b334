/* unpack.h - atoll-unpack: archives become files, inside the jail that they are for.
 *
 * The agent starts it when it is dialled with CHANNEL_PORT_UNPACK, and hands out the other end of
 * its socket. So it runs as the jail's root in any image, even in an empty one, and an archive that
 * takes it over stays in the jail. It reads from the socket
 *
 *      name value\n ...      options, below; a value goes to the end of the line
 *      \n                    an empty line
 *      bytes                 the archive, to the end of the stream (shutdown)
 *
 * and it answers with lines:
 *
 *      at BYTES ENTRIES\n            now and then, what has been written so far
 *      done BYTES ENTRIES\n          the last line of a success
 *      error SENTENCE\n              the last line of a failure; it may come before all was read
 *
 * Options:
 *      mode layer|copy      a layer of an image, applied to /; or files, copied as COPY does
 *      limit BYTES          that may be written; past it the archive is refused
 * of copy alone:
 *      source PATH          what of the archive is meant, as COPY names it: relative, no globs
 *      target PATH          absolute; with '/' at the end: a directory
 *      owner USER:GROUP     names of the jail or numbers
 *      chmod OCTAL          of every file and directory copied; without: as in the archive
 *
 * tar (ustar, pax, GNU), plain or in gzip, zstd or xz. In a layer `.wh.NAME` removes NAME and
 * `.wh..wh..opq` all that was in the directory before; what lies below /dev, /proc, /sys and /run
 * is left out, because a jail has its own.
 *
 * Refused, with a sentence that names the entry: names that are empty, too long or lead out by
 * "..", hard links to such, devices elsewhere than below /dev, files that go on beyond
 * `limit`, archives that unpack to more than UNPACK_RATIO_MAX times what was read, more than
 * UNPACK_ENTRIES_MAX entries. Links of the archive and of the jail are resolved below the jail's
 * root alone.
 */
#ifndef UNPACK_UNPACK_H
#define UNPACK_UNPACK_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    UNPACK_OPTION_BYTES_MAX = 16 * 1024, /* all lines together */
    UNPACK_PATH_BYTES_MAX = 4095,
    UNPACK_DEPTH_MAX = 256, /* directories of one name */
    UNPACK_ENTRIES_MAX = 4 * 1000 * 1000,
    UNPACK_RATIO_MAX = 200,
    /* The ratio is checked only beyond this many written bytes. */
    UNPACK_RATIO_FROM = 512 * 1024 * 1024,
};
#define UNPACK_LIMIT_DEFAULT ((uint64_t)64 << 30)

/* argv[0] of the agent's program when it runs as the unpacker. */
#define UNPACK_PROGRAM "atoll-unpack"

/* Reads the request from `fd` and answers there. Returns the exit code. */
int unpack_main(int fd);

#endif
