/* users.h - users.c with its files named, and paths without an agent: for the thread pool and
 * tests.
 *
 * Owns:     nothing.
 * Blocks:   on reading two small files, of at most 16 MiB each.
 * Threads:  any.
 */
#ifndef AGENT_USERS_H
#define AGENT_USERS_H

#include "inside/agent/internal.h"

struct users_files {
    const char *passwd;
    const char *group;
};

/* user_find(), user_name_of() and group_name_of() are these on /etc/passwd and /etc/group. */
must_check int users_find(const struct users_files *files, const char *name, struct user *out);
void users_user_name(const struct users_files *files, uid_t uid, char *out, size_t size);
void users_group_name(const struct users_files *files, gid_t gid, char *out, size_t size);

/* user_path() with the default workdir (NULL or "": none) as the caller copied it from the agent.
 */
must_check int path_resolve(const char *workdir, const struct user *user, struct str path,
                            char out[AGENT_PATH_BYTES], struct err *err);

#endif
