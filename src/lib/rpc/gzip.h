/* gzip.h - one message packed and unpacked, whole and in memory. Pure.
 *
 * A message is bounded, so unlike a file it needs no stream: see inside/agent/gzip.h for those.
 */
#ifndef RPC_GZIP_H
#define RPC_GZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

/* Whether a list of codings, as Accept-Encoding has it, names gzip and gives it a weight. */
bool rpc_gzip_accepted(struct str accept);

/* Appends `plain` packed. False, and *out as it was, when that would not be shorter. */
must_check bool rpc_gzip_pack(struct str plain, struct buf *out);

/* Unpacks members one after the other, as gzip(1) does, into *out, which is initialised here and
 * is the caller's to finish whatever is returned. -EINVAL when the data is not gzip; -ENOBUFS when
 * it holds more than max bytes; what a little data unpacks to is never in memory beyond that. */
must_check int rpc_gzip_unpack(struct str packed, size_t max, struct buf *out, struct err *err);

#endif
