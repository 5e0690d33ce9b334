/* record.h - the records of an exported save: written, read and checked.
 *
 * docs/internals/travel.md lists the records. record_read() checks one record by itself,
 * records_follow() whether it may come now. What both accept can be used as it is: paths lead
 * below the directory where they begin, names are names, and no attribute refers to another file.
 *
 * Owns:    nothing; a record that was read points into its bytes.
 * Blocks:  never.
 * Threads: any. Pure: the fuzzer calls it.
 */
#ifndef TRAVEL_RECORD_H
#define TRAVEL_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/encode.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "wire/keeper.h"

enum {
    RECORD_HEAD_BYTES = 8,
    RECORD_BODY_BYTES_MAX = 192 * 1024,
    RECORD_BYTES_MAX = RECORD_HEAD_BYTES + RECORD_BODY_BYTES_MAX,
    RECORD_DATA_BYTES = 128 * 1024, /* of one DATA, as an export writes it */
    RECORD_PATH_BYTES_MAX = 4095,   /* of a path, or of a link's target */
    RECORD_NAME_BYTES_MAX = 255,
    RECORD_ATTRIBUTES_MAX = 256,
    RECORD_ATTRIBUTE_NAME_MAX = 255,
    RECORD_ABOUT_BYTES_MAX = 4095,
};
#define RECORD_ENTRIES_MAX (UINT64_C(1) << 26)

enum record_kind {
    RECORD_ABOUT = 1,
    RECORD_META = 2,
    RECORD_LAYER = 3,
    RECORD_PART = 4,
    RECORD_ENTRY = 5,
    RECORD_DATA = 6,
    RECORD_LINK = 7,
    RECORD_STAMP = 8,
    RECORD_END = 9,
};

enum record_part { RECORD_PART_NONE = 0, RECORD_PART_MEMORY = 1, RECORD_PART_DISK = 2 };

struct record {
    enum record_kind kind;
    struct str bytes; /* ABOUT, META, DATA */
    struct {
        struct str name;
        char digest[SHA256_HEX_LEN + 1];
    } layer;
    enum record_part part;
    struct str path;   /* ENTRY, LINK, STAMP */
    struct str target; /* ENTRY of a symbolic link; LINK: the file that gets another name */
    uint32_t mode;     /* ENTRY: type and permissions, as st_mode */
    uint32_t uid, gid;
    int64_t mtime_s;
    uint32_t mtime_ns;
    uint64_t size; /* ENTRY of a plain file; END: bytes of all DATA */
    uint32_t attributes_n;
    struct str attributes; /* record_attribute() reads them */
    uint64_t offset;       /* DATA */
    uint64_t entries;      /* END: ENTRY and LINK together */
};

/* ---- reading ---- */

/* Reads the record that `bytes` begin with. Returns its length; 0: more bytes are needed; -EBADMSG
 * with a sentence. */
must_check ssize_t record_read(struct str bytes, struct record *out, struct err *err);

struct record_attribute {
    char name[RECORD_ATTRIBUTE_NAME_MAX + 1];
    struct str value;
};
/* Takes the next attribute off `rest`, which begins as record.attributes. False at the end. */
bool record_attribute(struct str *rest, struct record_attribute *out);

/* Whether an extended attribute travels: those of overlayfs that name files by number do not. */
bool record_attribute_travels(const char *name);

/* The order of the records; zero except bytes_max is the beginning. */
struct records {
    uint64_t bytes_max; /* of all DATA */
    enum record_kind last;
    enum record_part part;
    uint32_t layers_n;
    uint64_t entries, bytes;
    bool takes_data; /* the last ENTRY is a plain file, and only DATA came since */
    uint64_t file_size, file_at;
};
must_check int records_follow(struct records *records, const struct record *record,
                              struct err *err);

/* ---- writing: each appends one record ---- */

must_check int record_put_bytes(struct buf *out, enum record_kind kind, struct str bytes);
must_check int record_put_layer(struct buf *out, const char *name, const char *digest);
must_check int record_put_part(struct buf *out, enum record_part part);
/* Uses path, target, mode, uid, gid, mtime, size, attributes. */
must_check int record_put_entry(struct buf *out, const struct record *entry);
must_check int record_put_data(struct buf *out, uint64_t offset, struct str bytes);
must_check int record_put_link(struct buf *out, struct str path, struct str target);
must_check int record_put_stamp(struct buf *out, struct str path, int64_t s, uint32_t ns);
must_check int record_put_end(struct buf *out, uint64_t entries, uint64_t bytes);
/* Appends an attribute, as they lie in record.attributes. */
must_check int record_put_attribute(struct buf *out, const char *name, struct str value);

#endif
