/* internal.h - shared by the files of the agent.
 *
 * The agent is pid 1 of a jail: a static program on one libuv loop. It reaps, starts processes as
 * any user of the jail, serves the process and filesystem services and /files on port 49983, and
 * hands out sockets over the channel (channel.h). User and group names are read from the jail's
 * own /etc/passwd and /etc/group each time (users.c): a static program has no NSS, and users may be
 * made while the sandbox runs.
 */
#ifndef AGENT_INTERNAL_H
#define AGENT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <uv.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/http/http.h"
#include "lib/http/server.h"
#include "lib/rpc/rpc.h"

enum {
    AGENT_GROUPS_MAX = 64,
    AGENT_ENVS_MAX = 4096,
    AGENT_ENV_BYTES_MAX = 1024 * 1024,
    AGENT_PATH_BYTES = 4096,
};

struct processes; /* process.h */
struct channel;   /* channel.c */
struct watchers;  /* watch_rpc.c */

/* The tag of a connection (http_request.connection_tag) that came over the channel: requests from
 * outside through the edge, and the daemon's own. Connections over TCP in the jail have none. */
extern const char agent_tag_edge[];
extern const char agent_tag_control[];

/* The limits of the sandbox, for /metrics; 0: ask the kernel. */
struct agent_limits {
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    uint32_t cpus;
};

/* Settings that the processes of the jail inherit from the agent (alone.h). */
struct agent_inherited {
    struct rlimit limits[RLIM_NLIMITS];
    int nice;
    int policy;
};

struct agent {
    uv_loop_t *loop;
    struct http_server *server;
    struct processes *processes;
    struct channel *channel;
    struct watchers *watchers; /* NULL until the first watch */

    /* From /init; empty until then. */
    char *access_token; /* NULL: not secured */
    char *ca_bundle;    /* the authorities that were made trusted last; NULL: none */
    char *default_user;
    char *default_workdir; /* "": the user's home */
    struct agent_env *envs;
    size_t envs_n;
    size_t env_bytes;
    int64_t init_ms; /* its timestamp: an older /init is ignored */
    struct agent_limits limits;
    size_t output_kept_bytes; /* of each process while nobody reads it */

    unsigned tunnels_n; /* tunnel.h */
    size_t looks;       /* lists of processes and ports that are being made (proc_routes.c) */

    struct agent_inherited inherited; /* as it was at the start */
    struct rlimit nofile; /* the limit that processes are started with; the agent's own is raised */
};

struct agent_env {
    char *name;
    char *value;
};

/* ---- rehearse.c ---- */

void rehearse(const struct agent *agent);

/* ---- env.c ---- */

/* Sets one of the variables every process gets. -EINVAL for a name that cannot be one, -ENOBUFS
 * when there are too many. */
must_check int agent_env_set(struct agent *agent, const char *name, const char *value,
                             struct err *err);
void agent_env_clear(struct agent *agent);

/* ---- users.c ---- */

struct user {
    char name[256];
    char home[AGENT_PATH_BYTES];
    char shell[AGENT_PATH_BYTES];
    uid_t uid;
    gid_t gid;
    gid_t groups[AGENT_GROUPS_MAX]; /* with gid */
    size_t groups_n;
};

/* By exact name in /etc/passwd; numbers are names like any other ("0x0", "-1", "1000:0" do not
 * exist). -ENOENT when there is none. */
must_check int user_find(const char *name, struct user *out);
/* Names of ids, or the number as text when there is none. */
void user_name_of(uid_t uid, char *out, size_t size);
void group_name_of(gid_t gid, char *out, size_t size);

/* Finds the user that a request acts as: Authorization: Basic "<user>:" (RPC), else the default
 * user. -ENOENT with the name in err when it does not exist. */
must_check int user_of_request(const struct agent *agent, const struct http_request *req,
                               struct user *out, struct err *err);

/* "~", "~/x", relative to the user's home, empty: the default workdir or home. Refuses NUL bytes
 * and over-long paths. The result is absolute and lexically clean; links are not followed. */
must_check int user_path(const struct agent *agent, const struct user *user, struct str path,
                         char out[AGENT_PATH_BYTES], struct err *err);

/* ---- channel.c ---- */

/* Root of the jail lacks CAP_SYS_PTRACE, so this keeps it from our memory, descriptors and control
 * flow. It must be off while the jail is saved: CRIU looks at us from inside our user namespace. */
void privacy_keep(bool kept);

/* Serves the channel on a listening socket, which it takes over. */
must_check int channel_new(struct agent *agent, int listen_fd, struct channel **out,
                           struct err *err);

/* Has the kernel killed for memory in this jail since the last time this was asked? Calls done
 * once, at once or within 200 ms. NULL for a channel answers no. */
void channel_oom_ask(struct channel *channel, void (*done)(void *ctx, bool killed), void *ctx);

/* ---- the parts of the HTTP surface; each takes the exchange when the path is its own ---- */

bool process_handle(struct agent *agent, struct http_exchange *ex); /* /process.Process/... */
bool filesystem_handle(struct agent *agent,
                       struct http_exchange *ex);                 /* /filesystem.Filesystem/... */
bool files_handle(struct agent *agent, struct http_exchange *ex); /* /files */
bool system_handle(struct agent *agent,
                   struct http_exchange *ex); /* /health /init /envs /metrics */

bool proc_handle(struct agent *agent, struct http_exchange *ex); /* /processes /ports */

/* The agent's one handler of requests: CORS, the access token, then the parts above. */
void agent_request(void *agent, struct http_exchange *ex);

#endif
