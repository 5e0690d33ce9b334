/* send.h - writes the files of a save as records.
 *
 * Owns:    the table of files with several names.
 * Blocks:  for the disk, and as the stream does.
 * Threads: one.
 */
#ifndef TRAVEL_SEND_H
#define TRAVEL_SEND_H

#include <stdint.h>
#include <sys/stat.h>
#include <uthash.h>

#include "keeper/travel/record.h"
#include "keeper/travel/seal.h"

enum {
    SEND_NAMES_BYTES_MAX = 256 * 1024 * 1024, /* of the paths of files with several names */
};

struct send_file; /* a file with several names, by inode number */

struct send {
    struct seal_out *out;
    uint64_t entries, bytes;
    struct buf record; /* the one that is being written */
    char *data;        /* RECORD_DATA_BYTES */
    struct send_file *files;
    size_t names_bytes;
    char path[RECORD_PATH_BYTES_MAX + 1]; /* of the file that is being sent */
    size_t path_len;
};

void send_init(struct send *send, struct seal_out *out);
void send_fini(struct send *send);

/* Sends the record in send->record. */
must_check int send_flush(struct send *send, int put, struct err *err);

/* All plain files of the directory whose name has no dot in front. */
must_check int send_memory(struct send *send, int dir_fd, struct err *err);
/* The whole tree below the directory, which stands still, and the directory itself. */
must_check int send_tree(struct send *send, int dir_fd, struct err *err);

/* Sends the file dir_fd/name under send->path, or as another name of a file that was sent. */
must_check int send_file(struct send *send, int dir_fd, const char *name, const struct stat *st,
                         struct err *err);
/* Sends an open directory under send->path, without what is in it, and later its time. */
must_check int send_dir(struct send *send, int fd, const struct stat *st, struct err *err);
must_check int send_stamp(struct send *send, const struct stat *st, struct err *err);

/* Appends a name to send->path, and takes it off again. -ENAMETOOLONG. */
must_check int send_enter(struct send *send, const char *name, struct err *err);
void send_leave(struct send *send, size_t path_len);

#endif
