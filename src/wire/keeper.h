/* keeper.h - the door to the privileged side: what the daemon may ask of `atoll keeper`.
 *
 * A SOCK_SEQPACKET connection. One request message, one answer message with up to KEEPER_FDS_MAX
 * descriptors.
 * Requests carry `seq`; answers come in any order. All structures are of fixed size and hold no
 * pointers; the keeper checks every field again (keeper_request_check), because the daemon that
 * parses hostile bytes may have been taken over: a request can name only things below the pool
 * and limits within the bounds here. It can never name a path, a program or a uid of the host's.
 */
#ifndef WIRE_KEEPER_H
#define WIRE_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/log.h"

enum {
    KEEPER_VERSION = 6,
    KEEPER_ID_BYTES = 32,    /* sandbox id and NUL: [a-z0-9], at least one */
    KEEPER_LAYERS_MAX = 32,  /* lower layers of one jail, topmost first */
    KEEPER_LAYER_BYTES = 72, /* a layer's name and NUL: [a-z0-9-] */
    KEEPER_HOSTNAME_BYTES = 64,
    KEEPER_SAVED_BYTES = 56, /* the name of what was saved and NUL: [a-z0-9-] */
    KEEPER_VOLUMES_MAX = 16, /* of one jail */
    KEEPER_VOLUME_BYTES = 40,
    KEEPER_VOLUME_PATH_BYTES = 256,
    KEEPER_BATCH_MAX = 32,  /* jails of one USAGE_MANY: the keeper does nothing else meanwhile */
    KEEPER_SOCKETS_MAX = 8, /* of one SOCKETS */

    KEEPER_UID_RANGE = 65536, /* ids of one jail */
    KEEPER_UID_FIRST = 0x10000000,
    KEEPER_UID_SLOTS = 24576, /* ranges from KEEPER_UID_FIRST up */

    KEEPER_CPU_MILLIS_MIN = 100,
    KEEPER_CPU_MILLIS_MAX = 128 * 1000,
    KEEPER_MEMORY_MB_MIN = 16,
    KEEPER_MEMORY_MB_MAX = 1024 * 1024,
    KEEPER_DISK_MB_MIN = 16,
    KEEPER_DISK_MB_MAX = 16 * 1024 * 1024,
    KEEPER_PIDS_MIN = 16,
    KEEPER_PIDS_MAX = 65536,
};

enum keeper_op {
    KEEPER_HELLO = 1,  /* answers with keeper_status */
    KEEPER_CREATE = 2, /* plan: starts a jail; answers pid, start time, pidfd and the channel */
    KEEPER_ATTACH = 3, /* jail: a running one; answers pidfd and a fresh channel, and, with
                          plan.network, fresh sockets in its network */
    KEEPER_DESTROY =
        4,            /* jail: kills it, removes cgroups, mounts and upper; fine if gone already */
    KEEPER_LIST = 5,  /* id: the next jail after it that left a trace; "": the first. ENOENT: no
                         more. One that is there all the while is told, whatever comes and goes */
    KEEPER_USAGE = 6, /* jail: memory, cpu, disk, out-of-memory kills */
    KEEPER_USAGE_MANY = 7, /* batch: cpu, memory and disk of each, and keeper_status */
    KEEPER_SAVE = 8,    /* save: keeps a jail's disk, and its processes if wanted, under a name */
    KEEPER_RESTORE = 9, /* plan, with `from`: a jail that goes on where the saved one was; answers
                           as CREATE does */
    KEEPER_FORGET = 10, /* save.name: removes what was saved; fine if gone already */
    KEEPER_LIST_SAVED = 11,    /* save.name: the next one saved, in `saved`; as LIST */
    KEEPER_VOLUME_MAKE = 12,   /* volume: an empty one; -EEXIST when there is one of that name */
    KEEPER_VOLUME_REMOVE = 13, /* volume: fine if gone; -EBUSY while a jail has it mounted. It is
                                  gone from the disk when it is answered */
    KEEPER_VOLUME_USAGE = 14,  /* volume: its bytes, in usage.disk_bytes */
    KEEPER_PACK = 15,    /* save.name: compresses the memory saved under it, which takes its time;
                            fine when it is done. -EBUSY while another is at it */
    KEEPER_SOCKETS = 16, /* jail, sockets_n: answers that many TCP sockets in its network, which are
                            not connected, and of which nobody inside has a copy */
};

/* A layer whose name begins so is the disk of what was saved under that name. */
#define KEEPER_SAVED_PREFIX "saved-"
/* Begun so, it is what builds of templates keep, and theirs alone to forget. */
#define KEEPER_SAVED_BUILT KEEPER_SAVED_PREFIX "build-"
/* A layer that every pool has, and that holds nothing: below a disk that needs no other. */
#define KEEPER_LAYER_EMPTY "empty"

/* A volume that is mounted read-write into a jail. The path is absolute and holds no "." or "..";
 * what is missing of it is made on the jail's own disk, root's. */
struct keeper_mount {
    char volume[KEEPER_VOLUME_BYTES];
    char path[KEEPER_VOLUME_PATH_BYTES];
};

struct keeper_plan {
    uint32_t uid_slot; /* range = KEEPER_UID_FIRST + uid_slot * KEEPER_UID_RANGE */
    uint32_t cpu_millis;
    uint32_t memory_mb;
    uint32_t disk_mb;
    uint32_t pids;
    uint32_t network;  /* CREATE: 1: no jail without a way out; 0: loopback will do */
    uint32_t layers_n; /* 0: it begins empty */
    char layers[KEEPER_LAYERS_MAX][KEEPER_LAYER_BYTES];
    char hostname[KEEPER_HOSTNAME_BYTES];
    /* CREATE: the disk begins as a copy of what was saved under that name; "": empty.
     * RESTORE: what is restored, never "". */
    char from[KEEPER_SAVED_BYTES];
    uint32_t keeps_disk; /* the jail's own disk is there already and is used as it is: a sandbox
                            that was paused. With it, RESTORE's `from` gives the memory alone. */
    uint32_t
        channel_min; /* RESTORE: -ENOTSUP when the agent in the images speaks an older version */
    uint32_t volumes_n;
    struct keeper_mount volumes[KEEPER_VOLUMES_MAX];
};

enum keeper_save_flag {
    KEEPER_SAVE_MEMORY = 1 << 0, /* processes too; else the disk alone, as a crash would leave it */
    KEEPER_SAVE_STOP = 1 << 1,   /* the jail ends once all is saved and synced; its own disk stays
                                    for keeps_disk. Without: it goes on running */
    KEEPER_SAVE_SYNC = 1 << 2,   /* answered when it is durable */
    KEEPER_SAVE_LOOK = 1 << 3,   /* saves nothing and stops nothing: 0 when no process is seen to
                                    hold what cannot be saved with the memory */
};

struct keeper_save {
    char name[KEEPER_SAVED_BYTES]; /* begins with KEEPER_SAVED_PREFIX; -EEXIST when there is one */
    uint32_t flags;
};

struct keeper_volume {
    char name[KEEPER_VOLUME_BYTES];
    uint32_t size_mb; /* MAKE */
};

/* What a SAVE came to. */
struct keeper_saved {
    char name[KEEPER_SAVED_BYTES]; /* LIST_SAVED */
    uint64_t memory_bytes;         /* of the images on disk */
    uint64_t disk_bytes;           /* of its disk, shared with others or not; 0: unknown */
    uint64_t plain_bytes;          /* PACK: what they took before */
    uint64_t frozen_usec;          /* for how long the jail stood still; 0 when it was stopped */
};

/* Which process is a jail's first. Pids come round again; with the start time they do not. */
struct keeper_jail {
    int32_t pid;
    uint32_t reserved;
    uint64_t start_ticks; /* field 22 of /proc/<pid>/stat */
};

struct keeper_batch {
    uint32_t n;
    char ids[KEEPER_BATCH_MAX][KEEPER_ID_BYTES];
};

struct keeper_request {
    uint32_t version; /* KEEPER_VERSION */
    uint32_t op;
    uint32_t seq;
    uint32_t reserved;
    char id[KEEPER_ID_BYTES];
    struct keeper_jail jail;
    union {
        struct keeper_plan plan;     /* CREATE */
        struct keeper_batch batch;   /* USAGE_MANY */
        struct keeper_save save;     /* SAVE, FORGET */
        struct keeper_volume volume; /* VOLUME_* */
        uint32_t sockets_n;          /* SOCKETS */
    };
};

enum keeper_lack { /* bits of keeper_status.lacks: what this machine cannot give */
                   KEEPER_LACKS_DISK_LIMIT = 1 << 0,   /* no btrfs: plain directories */
                   KEEPER_LACKS_MEMORY_LIMIT = 1 << 1, /* no memory controller */
                   KEEPER_LACKS_CPU_LIMIT = 1 << 2,
                   KEEPER_LACKS_PIDS_LIMIT = 1 << 3,
};

struct keeper_status {
    uint32_t lacks;
    uint32_t jails;            /* running now; HELLO alone */
    uint64_t pool_used_bytes;  /* of the file system that layers and disks are on */
    uint64_t pool_total_bytes; /* 0: it cannot be told */
};

struct keeper_usage {
    uint64_t memory_bytes;       /* all that is charged */
    uint64_t memory_cache_bytes; /* of that, page cache the kernel can drop */
    uint64_t cpu_usec;
    uint64_t disk_bytes;
    uint32_t oom_kills;
    uint32_t pids;
    uint32_t known; /* USAGE_MANY: 0 when there is no such jail, and all else is 0 too */
    uint32_t reserved;
};

struct keeper_answer {
    uint32_t version;
    uint32_t op;
    uint32_t seq;
    int32_t status;           /* 0 or -errno */
    char id[KEEPER_ID_BYTES]; /* LIST */
    struct keeper_jail jail;  /* CREATE */
    uint32_t channel;         /* CREATE, ATTACH, RESTORE: the version that the jail's agent speaks
                                 (wire/channel.h) */
    uint32_t reserved;
    struct keeper_status state;
    union {
        struct keeper_usage usage;                    /* USAGE */
        struct keeper_usage usages[KEEPER_BATCH_MAX]; /* USAGE_MANY, in the order asked */
        struct keeper_saved saved;                    /* SAVE, LIST_SAVED */
    };
    struct err err; /* the sentence, when status is negative */
};

/* Descriptors of an answer. CREATE, ATTACH and RESTORE bring the first four, and the others unless
 * the jail has loopback alone. All but the first two are sockets in the jail's network namespace,
 * opened anew each time. SOCKETS brings nothing else. */
enum {
    KEEPER_FD_PIDFD,
    KEEPER_FD_CHANNEL,
    KEEPER_FD_SOCKET, /* as those of SOCKETS, for the first connection to the agent */
    KEEPER_FD_SOCKET_2,
    KEEPER_FD_GATE, /* listens: every TCP connection out arrives here (SO_ORIGINAL_DST) */
    KEEPER_FD_DNS_UDP,
    KEEPER_FDS_JAIL, /* how many those are */
    KEEPER_FDS_MAX = KEEPER_SOCKETS_MAX,
    KEEPER_FDS_HELD = 3, /* that the server has of an idle jail: its channel, gate and resolver */
    KEEPER_JAIL_SOCKETS = KEEPER_FD_GATE - KEEPER_FD_SOCKET,
};
#define KEEPER_FDS_NONE                                                                            \
    {                                                                                              \
        -1, -1, -1, -1, -1, -1, -1, -1                                                             \
    }

/* 0, or -EINVAL with a sentence that names the field. Pure: also what the fuzzer drives. */
must_check int keeper_request_check(const struct keeper_request *req, struct err *err);

/* `atoll keeper`: serves until SIGTERM. Returns the exit code. In keeper/main.c. */
struct keeper_options {
    const char *socket_path; /* made anew; 0660, owner root, group of `gid` */
    const char *pool_path;   /* holds layers/ and sandboxes/ */
    const char *agent_path;  /* the static agent, mounted read-only into every jail */
    uint32_t client_uid;     /* the one uid besides root that may connect */
    uint32_t client_gid;
    const char *instance; /* [a-z0-9-]: names the cgroups of this data directory */
    bool merge_pages;     /* jails hold equal pages once, where the kernel can (merge.h) */
    bool bpf_figures;     /* system calls tell jails their own size, likewise (told.h) */
    enum log_level log_level;
    int lock_fd;         /* held for as long as it runs */
    int work_timeout_ms; /* of one save or restore; 0: HANDLE_WORK_TIMEOUT_MS. For tests */
};
int keeper_main(const struct keeper_options *options);

/* Becomes atoll-keeper, which reads them and calls keeper_main(). Returns on failure only. */
must_check int keeper_options_exec(const char *program, const struct keeper_options *options,
                                   struct err *err);
/* They point into `words`. */
must_check int keeper_options_read(int words_n, char **words, struct keeper_options *out,
                                   struct err *err);

#endif
