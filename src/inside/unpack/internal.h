/* internal.h - shared by the files of unpack/.
 *
 *   main.c      the request and the answers
 *   options.c   the lines before the archive
 *   name.c      which names an archive may use
 *   stream.c    entry by entry, with the limits that hold for all of them
 *   layer.c     what an entry means in a layer of an image
 *   copy.c      what it means in a COPY
 *   rootdir.c   making and removing files below the root
 *   made.c      which paths this archive has made
 */
#ifndef UNPACK_INTERNAL_H
#define UNPACK_INTERNAL_H

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "inside/unpack/unpack.h"
#include "lib/base/str.h"

enum {
    PATH_BYTES = UNPACK_PATH_BYTES_MAX + 1,
    NAME_BYTES_MAX = 255, /* for one part of a path */
};

/* ---- options.c ---- */

enum unpack_mode { UNPACK_LAYER, UNPACK_COPY };

struct options {
    enum unpack_mode mode;
    uint64_t limit;
    char source[PATH_BYTES]; /* after name_check(); "": all */
    char target[PATH_BYTES]; /* likewise: below the root */
    bool target_is_dir;      /* it ended with '/' */
    char owner[PATH_BYTES];
    int chmod; /* -1: as in the archive */
};

/* Reads the lines up to the empty one, which is not part of `text`. */
must_check int options_parse(struct str text, struct options *out, struct err *err);

/* Parses "user:group", "user", or numbers, by the jail's /etc/passwd and /etc/group. */
must_check int owner_find(const char *owner, uid_t *uid, gid_t *gid, struct err *err);

/* ---- name.c ---- */

/* Turns a name of an archive into a path below the root: parts other than "." and "..", one '/'
 * between them, none at either end; "" is the root itself. -EINVAL with a sentence. */
must_check int name_check(const char *name, char out[PATH_BYTES], struct err *err);

/* The last part of a checked path; *parent_len is the length of what comes before, without '/'. */
const char *name_last(const char *path, size_t *parent_len);

/* Whether path is dir or lies below it; dir "" holds all. */
bool name_is_below(const char *path, const char *dir);

/* Prepares a name for a sentence: replaces control characters, and cuts it to size. */
const char *name_show(const char *name, char *out, size_t size);

/* ---- made.c ---- */

struct made {
    uint64_t key[2];
    uint64_t *slots; /* hashes; 0: free */
    size_t n, cap;
};

void made_init(struct made *made);
void made_fini(struct made *made);
void made_add(struct made *made, struct str path); /* and every directory above it */
bool made_has(const struct made *made, struct str path);

/* ---- rootdir.c ---- */

/* Files below a root directory. No path leads out of it, or into a mount in it (-EXDEV). */
struct rootdir {
    int root_fd;
    int parent_fd; /* descriptor of parent, or -1 */
    char parent[PATH_BYTES];
    bool owns_dirs; /* new parent directories belong to uid and gid, else to root */
    uid_t uid;
    gid_t gid;
};

struct attributes {
    uid_t uid;
    gid_t gid;
    mode_t mode;
    struct timespec mtime;
};

must_check int rootdir_init(struct rootdir *root, const char *path, struct err *err);
void rootdir_fini(struct rootdir *root);

/* Opens the parent directory of a path, and makes it if needed. Valid until the next call. */
must_check int rootdir_parent(struct rootdir *root, const char *path, struct err *err);

/* The file at the path, without following links (rootdir_stat), or following them below the root
 * (rootdir_is_dir). */
must_check int rootdir_stat(struct rootdir *root, const char *path, struct stat *st,
                            struct err *err);
bool rootdir_is_dir(const struct rootdir *root, const char *path);

/* Removes the path with all below it, except paths that `keep` has. NULL keeps nothing. 0 when
 * there is nothing. */
must_check int rootdir_remove(struct rootdir *root, const char *path, const struct made *keep,
                              struct err *err);
/* The same for the entries of the directory; the directory itself stays. */
must_check int rootdir_empty(struct rootdir *root, const char *path, const struct made *keep,
                             struct err *err);

/* Each expects that the path does not exist. rootdir_file() returns a descriptor to write to. */
must_check int rootdir_file(struct rootdir *root, const char *path, struct err *err);
must_check int rootdir_dir(struct rootdir *root, const char *path, struct err *err);
must_check int rootdir_symlink(struct rootdir *root, const char *path, const char *to,
                               struct err *err);
must_check int rootdir_fifo(struct rootdir *root, const char *path, struct err *err);
must_check int rootdir_hardlink(struct rootdir *root, const char *path, const char *to,
                                struct err *err);

/* Sets the mode too, except for links. */
must_check int rootdir_attributes(struct rootdir *root, const char *path,
                                  const struct attributes *attr, bool is_link, struct err *err);
must_check int rootdir_file_attributes(int fd, const char *path, const struct attributes *attr,
                                       struct err *err);

/* ---- stream.c ---- */

struct unpacker {
    const struct options *options;
    struct rootdir root;
    struct made made;
    struct archive *archive;
    int fd;            /* the socket */
    uint64_t read;     /* bytes read from it */
    uint64_t written;  /* bytes written to files, and sizes claimed by entries */
    uint64_t entries;  /* made or removed */
    uint64_t reported; /* written + entries at the last progress line */
    bool matched;      /* copy: the archive has a matching entry */
    uid_t uid;         /* copy: the owner */
    gid_t gid;
};

must_check int stream_unpack(struct unpacker *u, struct err *err);

/* Writes the archive's data into a new file. */
must_check int stream_data(struct unpacker *u, int file_fd, const char *path, struct err *err);

/* ---- layer.c, copy.c: one entry ---- */

must_check int layer_entry(struct unpacker *u, struct archive_entry *entry, struct err *err);
must_check int copy_entry(struct unpacker *u, struct archive_entry *entry, struct err *err);

/* ---- main.c ---- */

void report(struct unpacker *u);

#endif
