/* files.h - shared by the endpoints below /files.
 *
 * Owns:     nothing beyond the exchange it is given.
 * Needs:    the agent's defaults, copied out of it: the thread pool never sees the agent.
 * Blocks:   never on the loop; the disk is the pool's.
 * Threads:  the loop's.
 */
#ifndef AGENT_FILES_H
#define AGENT_FILES_H

#include "inside/agent/internal.h"
#include "lib/base/log.h"

enum {
    FILES_CHUNK_BYTES = 256 * 1024,
};

/* A request that has been let in. */
struct files_request {
    uv_loop_t *loop;
    struct http_exchange *ex;
    struct user user;
    char *workdir;              /* the default one, or NULL */
    char *path;                 /* as in the query, decoded; NULL: none */
    struct volume_terms *terms; /* of a file in a volume; NULL: /files */
    bool has_mode;              /* of an upload: its files get `mode` */
    mode_t mode;
};

void files_request_free(struct files_request *req);

/* Both take the exchange, and req. */
void files_get(struct files_request *req);
void files_post(struct files_request *req);

/* POST /files/compose: takes the exchange. */
void files_compose(struct agent *agent, struct http_exchange *ex);

/* The user that is wanted (at == NULL: the default one). The status to refuse with, or 0. */
int files_user(const struct agent *agent, struct str wanted, struct user *out, struct err *err);

/* The status for an errno of atomic_file.h and friends. */
int files_status(int error);

/* Writes to the journal: the operation on a file, the number of bytes, or why it failed. */
void files_tell(enum log_level level, const char *event, struct str path, int64_t bytes);
void files_tell_failed(const char *event, struct str path, const char *why);

/* {"code":status,"message":text}: the body of every error of the HTTP surface; with the code as a
 * text where that is the API's way. */
must_check int files_error_body(struct buf *out, int status, bool code_is_text, const char *text);
/* On an exchange that is accepted, or (files_refuse) not yet. */
void files_fail(struct http_exchange *ex, int status, const char *text);
void files_refuse(struct http_exchange *ex, int status, const char *text);

#endif
