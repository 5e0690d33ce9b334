/* seal.h - the sealed stream of an exported save: zstd, then libsodium's secretstream.
 *
 * docs/internals/travel.md has the format. A reader gets nothing that was not sealed with the key,
 * in the order in which it was written; and it fails unless it gets the end.
 *
 * Owns:    its buffers and states.
 * Blocks:  as its source or sink does.
 * Threads: one for each stream.
 */
#ifndef TRAVEL_SEAL_H
#define TRAVEL_SEAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/export_key.h"

enum {
    SEAL_VERSION = 1,
    SEAL_MAGIC_BYTES = 8,
    SEAL_ID_BYTES = 8,
    SEAL_NONCE_BYTES = 24,
    SEAL_PLAIN_HEAD_BYTES = SEAL_MAGIC_BYTES + 4 + SEAL_ID_BYTES,
    SEAL_HEAD_BYTES = SEAL_PLAIN_HEAD_BYTES + SEAL_NONCE_BYTES,
    SEAL_CHUNK_BYTES = 64 * 1024, /* before it is sealed */
    SEAL_ADDED_BYTES = 17,
    SEAL_PIECE_BYTES = 128 * 1024, /* of what a reader gives at once */
};

struct seal_key {
    unsigned char bytes[EXPORT_KEY_BYTES];
    unsigned char id[SEAL_ID_BYTES]; /* tells keys apart, and nothing about them */
};
/* `hex` as export_key_read() gives it. */
must_check int seal_key_of(const char *hex, struct seal_key *out, struct err *err);

/* ---- writing ---- */

struct seal_out;
/* Takes all bytes, or fails. */
typedef int seal_sink(void *ctx, const void *bytes, size_t len, struct err *err);

must_check int seal_out_new(const struct seal_key *key, seal_sink *sink, void *ctx,
                            struct seal_out **out, struct err *err);
must_check int seal_out_write(struct seal_out *out, struct str bytes, struct err *err);
/* Nothing can be written afterwards. */
must_check int seal_out_end(struct seal_out *out, struct err *err);
void seal_out_free(struct seal_out *out);

/* ---- reading ---- */

struct seal_in;
/* Gives at most `size` bytes; 0: there are no more. */
typedef ssize_t seal_source(void *ctx, void *at, size_t size, struct err *err);

struct seal_in *seal_in_new(const struct seal_key *key, seal_source *source, void *ctx);
/* Appends at most SEAL_PIECE_BYTES to `out`. 1: go on; 0: that was all, and its end has come;
 * -EBADMSG, -EKEYREJECTED or -EPROTONOSUPPORT with a sentence for a file that is refused. */
must_check int seal_in_read(struct seal_in *in, struct buf *out, struct err *err);
void seal_in_free(struct seal_in *in);

#endif
