/* entry.h - the API's information about a file (EntryInfo), read from the file system.
 *
 * Owns:     nothing; entries live in the caller's arena.
 * Blocks:   on the disk: for the thread pool.
 * Threads:  any, with its own arena and names.
 */
#ifndef AGENT_ENTRY_H
#define AGENT_ENTRY_H

#include <sys/stat.h>

#include "filesystem.pb-c.h"
#include "inside/agent/arena.h"
#include "lib/base/str.h"

enum {
    ENTRY_PERMISSIONS_BYTES = 16, /* "Dcrw-rw-rw-" and the like; at most 4 letters and 9 bits */
    ENTRY_NAMES_MAX = 16,
};

/* Names of owners seen in one request: a listing has few, and /etc/passwd is read for each. */
struct entry_names {
    struct entry_name {
        uint32_t id;
        char *name; /* in the arena; NULL: free slot */
    } users[ENTRY_NAMES_MAX], groups[ENTRY_NAMES_MAX];
};

/* The mode as Go prints it: "-rw-r--r--", "dtrwxrwxrwx", "urwxr-xr-x", "Lrwxrwxrwx". */
void entry_permissions(mode_t mode, char out[ENTRY_PERMISSIONS_BYTES]);

/* Describes the file at `path`, not following it when it is a link, but reporting its target.
 * `shown` is the path to report. -errno of lstat(), or -ENOBUFS when the arena is full. */
must_check int entry_read(struct arena *arena, struct entry_names *names, const char *path,
                          const char *shown, Filesystem__EntryInfo **out);

/* Keeps only name, type and path: the first version of EntryInfo had no more. */
void entry_reduce(Filesystem__EntryInfo *entry);

/* text as a string of a message: valid UTF-8. NULL when the arena is full. */
must_check char *entry_text(struct arena *arena, struct str text);

#endif
