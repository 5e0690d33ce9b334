/* upload.h - writes the bytes of one POST /files to the disk, without HTTP.
 *
 * A chain: [gunzip] -> [multipart] -> files written aside (atomic_file.h). Nothing is visible
 * before upload_finish() has put all files in their places; any failure leaves none.
 *
 * Owns:     the temporary files.
 * Blocks:   on the disk: for the thread pool.
 * Threads:  any one at a time.
 */
#ifndef AGENT_UPLOAD_H
#define AGENT_UPLOAD_H

#include "inside/agent/files.h"
#include "inside/agent/metadata.h"

struct upload;

/* Checks the head of the request. NULL with the sentence when it cannot be an upload (400). */
struct upload *upload_new(const struct files_request *req, const struct http_request *http,
                          struct err *err);

/* -errno with a sentence; files_status() has the status. */
must_check int upload_feed(struct upload *up, const void *data, size_t len, struct err *err);

/* The body has ended well: puts the files in place and writes the answer's JSON to reply. */
must_check int upload_finish(struct upload *up, struct buf *reply, struct err *err);

/* Bytes of files so far. */
int64_t upload_written(const struct upload *up);

/* Removes what is not in place. Accepts NULL. */
void upload_free(struct upload *up);

#endif
