/* link.h - the way to the agent of a sandbox, through the daemon's address.
 *
 * Owns:     nothing; a plain value.
 * Needs:    a daemon, near or far, over http:// or https://.
 * Blocks:   link_open() and link_call() until they are answered.
 * Threads:  any; each thread has handles of its own.
 */
#ifndef CLI_LINK_H
#define CLI_LINK_H

#include <curl/curl.h>

#include "cli/cli.h"

enum {
    LINK_ID_BYTES = 64,
    LINK_TOKEN_BYTES = 2048,
    LINK_PATH_BYTES = 8192,
    LINK_RESUMED_S = 300, /* how long a sandbox lives that was resumed for a command, by default */
};

struct link {
    struct endpoint endpoint;
    char id[LINK_ID_BYTES];
    char token[LINK_TOKEN_BYTES]; /* "": the sandbox is not secured */
};

/* Finds a sandbox. A paused one is resumed, for so many seconds, and *resumed says so. -ENOENT:
 * there is none. */
must_check int link_open(const struct endpoint *endpoint, const char *id, int resume_s,
                         struct link *out, bool *resumed, struct err *err);

/* Takes a sandbox from the API's answer to a create. */
must_check int link_of(const struct endpoint *endpoint, const json_t *sandbox, struct link *out,
                       struct err *err);

/* Sets address and headers of a request to the agent; `type` is that of its body, and `user`, if
 * it is not NULL, the one that it acts as. The caller frees *headers after the handle. */
must_check int link_prepare(const struct link *link, CURL *easy, const char *method,
                            const char *path, const char *type, const char *user,
                            struct curl_slist **headers, struct err *err);

/* A unary call. `body` stays the caller's; *answer is the caller's, and its texts are as they came.
 * -ENOENT and -EEXIST when the agent says so. */
must_check int link_call(const struct link *link, const char *path, const char *user,
                         const json_t *body, json_t **answer, struct err *err);

/* Performs a request that was prepared. *answer is NULL when the answer was no JSON. */
must_check int link_perform(const struct link *link, CURL *easy, json_t **answer, struct err *err);

/* The sentence in the body of a refusal. */
int link_refusal(struct str body, long status, struct err *err);

/* Resumes a sandbox if it is paused, and lets it live at least that many seconds from now. */
must_check int link_resume(const struct link *link, int seconds, struct err *err);

/* Lets a running sandbox live at least that many seconds from now; a paused one stays so.
 * -CALL_NOT_FOUND: it is gone. */
must_check int link_extend(const struct link *link, int seconds, struct err *err);

#endif
