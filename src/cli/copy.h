/* copy.h - copies files and directories between this machine, sandboxes, volumes and pipes.
 *
 * A file travels as its bytes, a directory as a tar stream. One side of a copy writes to a socket,
 * in a thread of its own, and the other side reads from it: so every source goes with every target,
 * and nothing is gathered. When the source fails, the target must not take what has come for the
 * whole: `spoilt` says so before the stream ends.
 *
 * Owns:     the socket and the threads of a copy.
 * Needs:    tar on this machine for directories of this machine.
 * Blocks:   until all is copied.
 * Threads:  the caller's, one for the source, one for signals and progress.
 */
#ifndef CLI_COPY_H
#define CLI_COPY_H

#include <stdatomic.h>
#include <sys/types.h>

#include "cli/link.h"

enum { COPY_PATH_BYTES = 4096 };

enum place_kind { PLACE_LOCAL, PLACE_PIPE, PLACE_SANDBOX, PLACE_VOLUME };

enum place_type { PLACE_MISSING, PLACE_FILE, PLACE_DIRECTORY, PLACE_SPECIAL };

/* The source or the destination of a copy. */
struct place {
    enum place_kind kind;
    struct link link; /* of a sandbox; its endpoint also of a volume */
    bool resumed;     /* the sandbox was paused, and runs now */
    const char *user; /* in a sandbox; NULL: its default */
    char volume_id[LINK_ID_BYTES], volume_token[LINK_TOKEN_BYTES];
    char path[COPY_PATH_BYTES];
    enum place_type type; /* place_look() finds these */
    mode_t mode;
    int64_t bytes; /* -1: not known */
};

struct copy {
    struct place *from, *to;
    bool tree; /* what travels is a tar stream */
    bool quiet;
    mode_t mode;   /* of a file */
    int64_t bytes; /* of a file; -1: not known */
    atomic_llong moved;
    atomic_bool spoilt;    /* what comes is not the whole */
    atomic_bool cancelled; /* a signal came */
    atomic_int entries_skipped;
};

/* Sums of a copy, for --json. */
struct copied {
    int64_t files, bytes;
    int skipped;
};

/* Reads "ID:PATH", "vol:NAME/PATH", "-" or a path of this machine. Asks the daemon for a sandbox or
 * a volume that is named. */
must_check int place_open(const struct endpoint *endpoint, const char *text, const char *user,
                          struct place *out, struct err *err);

/* Sees what is there. A path that names nothing is no failure. */
must_check int place_look(struct place *place, struct err *err);

/* Copies as `cp -r` does: into a directory that exists, else to that very name. Returns -EINTR when
 * a signal ended it. `count` may be NULL; with it, what was left out is not told on stderr. */
must_check int copy_run(struct place *from, struct place *to, bool quiet, struct copied *count,
                        struct err *err);

/* The same for a command: with --json it prints what was copied. */
must_check int copy_command(const struct cli *cli, struct place *from, struct place *to,
                            struct err *err);

/* ---- the ends; each reads or writes the stream to its end, and does not close it ---- */

must_check int local_send(struct copy *copy, int out, struct err *err);
must_check int local_receive(struct copy *copy, int in, struct err *err);
must_check int pipe_send(struct copy *copy, int out, struct err *err);
must_check int pipe_receive(struct copy *copy, int in, struct err *err);
must_check int sandbox_look(struct place *place, struct err *err);
must_check int sandbox_send(struct copy *copy, int out, struct err *err);
must_check int sandbox_receive(struct copy *copy, int in, struct err *err);
must_check int volume_open(struct place *place, const char *name, struct err *err);
/* Lists a directory of a volume; the caller decrefs the list. Its texts are fit for a terminal. */
must_check int volume_entries(const struct place *place, json_t **list, struct err *err);
must_check int volume_look(struct place *place, struct err *err);
must_check int volume_send(struct copy *copy, int out, struct err *err);
must_check int volume_receive(struct copy *copy, int in, struct err *err);

/* Reads what follows the end of a tar stream, until its writer is through: only then is it known
 * whether that went well. Fails when it did not, or when the stream does not end. */
must_check int copy_drain(const struct copy *copy, int in, struct err *err);

/* ---- HTTP of sandboxes and volumes (copy_transfer.c) ---- */

/* Gets the body of an answer to `out`, or sends `in` as the body of a request; the handle has its
 * address and headers. */
must_check int transfer_get(struct copy *copy, CURL *easy, int out, struct err *err);
must_check int transfer_put(struct copy *copy, CURL *easy, int in, struct err *err);

/* "PATH?path=...&" with the path percent-encoded. */
must_check int transfer_path(char *out, size_t size, const char *route, const char *path,
                             const char *more, struct err *err);

#endif
