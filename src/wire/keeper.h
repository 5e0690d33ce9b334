/* keeper.h - the requests of the daemon to the privileged process `atoll keeper`, and its answers.
 *
 * The connection is a SOCK_SEQPACKET socket. A request is one message; an answer is one message
 * with up to KEEPER_FDS_MAX descriptors. Requests carry `seq`; answers come in any order. All
 * structures have a fixed size and hold no pointers. The keeper checks every field again
 * (keeper_request_check), because the daemon parses hostile bytes and may have been taken over: a
 * request can name only things below the pool, and limits within the bounds here. It can never name
 * a path, a program or a uid of the host.
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
    KEEPER_SAVED_BYTES = 56, /* the name of a save and NUL: [a-z0-9-] */
    KEEPER_VOLUMES_MAX = 16, /* of one jail */
    KEEPER_VOLUME_BYTES = 40,
    KEEPER_VOLUME_PATH_BYTES = 256,
    KEEPER_BATCH_MAX = 32,  /* jails of one USAGE_MANY: the keeper serves no one else meanwhile */
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
        4, /* jail: kills it, removes cgroups, mounts and upper; 0 if it is gone already */
    KEEPER_LIST =
        5, /* id: the next jail after it that has groups or a disk; "": the first. ENOENT: no more.
              A jail that exists all the time is listed, whatever comes and goes meanwhile */
    KEEPER_USAGE = 6,      /* jail: memory, cpu, disk, out-of-memory kills */
    KEEPER_USAGE_MANY = 7, /* batch: cpu, memory and disk of each, and keeper_status */
    KEEPER_SAVE = 8,    /* save: saves a jail's disk, and its processes if wanted, under a name */
    KEEPER_RESTORE = 9, /* plan, with `from`: restores a jail from a save; answers as CREATE does */
    KEEPER_FORGET = 10, /* save.name: removes the save; 0 if it is gone already */
    KEEPER_LIST_SAVED = 11,    /* save.name: the next save, in `saved`; as LIST */
    KEEPER_VOLUME_MAKE = 12,   /* volume: makes an empty one; -EEXIST when that name is taken */
    KEEPER_VOLUME_REMOVE = 13, /* volume: 0 if it is gone; -EBUSY while a jail has it mounted. Its
                                  removal is on the disk when the answer is sent */
    KEEPER_VOLUME_USAGE = 14,  /* volume: its bytes, in usage.disk_bytes */
    KEEPER_PACK = 15, /* save.name: compresses the memory of the save, which takes long; 0 when it
                         is done. -EBUSY while another packing runs */
    KEEPER_SOCKETS = 16, /* jail, sockets_n: answers with that many TCP sockets in its network. They
                            are not connected, and no process inside has a copy */
};

/* A layer with this prefix is the disk of the save with that name. */
#define KEEPER_SAVED_PREFIX "saved-"
/* Saves with this prefix belong to template builds, and only builds remove them. */
#define KEEPER_SAVED_BUILT KEEPER_SAVED_PREFIX "build-"
/* A layer that every pool has, and that is empty: for a disk that needs no other layer. */
#define KEEPER_LAYER_EMPTY "empty"

/* A volume that is mounted read-write into a jail. The path is absolute and holds no "." or "..";
 * missing directories are made on the jail's own disk, owned by root. */
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
    uint32_t network;  /* CREATE: 1: fail without a way out; 0: loopback is enough */
    uint32_t layers_n; /* 0: the root begins empty */
    char layers[KEEPER_LAYERS_MAX][KEEPER_LAYER_BYTES];
    char hostname[KEEPER_HOSTNAME_BYTES];
    /* CREATE: the save whose disk is copied; "": an empty disk. RESTORE: the save to restore, never
     * "". */
    char from[KEEPER_SAVED_BYTES];
    uint32_t keeps_disk; /* the jail's own disk exists and is used as it is: a paused sandbox. With
                            it, RESTORE takes only the memory from `from`. */
    uint32_t
        channel_min; /* RESTORE: -ENOTSUP when the agent in the images speaks an older version */
    uint32_t volumes_n;
    struct keeper_mount volumes[KEEPER_VOLUMES_MAX];
};

enum keeper_save_flag {
    KEEPER_SAVE_MEMORY = 1 << 0, /* processes too; else only the disk, as after a crash */
    KEEPER_SAVE_STOP = 1 << 1, /* the jail ends when all is saved and synced; its own disk stays for
                                  keeps_disk. Without: the jail continues */
    KEEPER_SAVE_SYNC = 1 << 2, /* the answer comes when the save is durable */
    KEEPER_SAVE_LOOK = 1 << 3, /* a dry run, which saves and stops nothing: 0 when no process was
                                  found to hold something that cannot be saved */
    KEEPER_SAVE_ALONE = 1 << 4, /* with no other flag: a jail in which the agent is the only
                                   process, without the memory. -EBUSY: it has more than a new jail
                                   on its disk would have. The answer brings KEEPER_FD_FILES, unless
                                   the jail's memory holds no file but those that each jail has. If
                                   its disk has only a few small files, it brings both that and
                                   KEEPER_FD_DISK, and nothing is saved under the name */
};

struct keeper_save {
    char name[KEEPER_SAVED_BYTES]; /* begins with KEEPER_SAVED_PREFIX; -EEXIST when it is taken */
    uint32_t flags;
};

struct keeper_volume {
    char name[KEEPER_VOLUME_BYTES];
    uint32_t size_mb; /* MAKE */
};

/* The result of a SAVE. */
struct keeper_saved {
    char name[KEEPER_SAVED_BYTES]; /* LIST_SAVED */
    uint64_t memory_bytes;         /* of the images on disk */
    uint64_t disk_bytes;           /* of its disk, including shared data; 0: unknown */
    uint64_t plain_bytes;          /* PACK: size of the images before */
    uint64_t frozen_usec;          /* how long the jail was frozen; 0 when it was stopped */
};

/* The first process of a jail. Pids are reused; together with the start time they are unique. */
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

enum keeper_lack { /* bits of keeper_status.lacks: functions that this machine does not have */
                   KEEPER_LACKS_DISK_LIMIT = 1 << 0,   /* no btrfs: plain directories */
                   KEEPER_LACKS_MEMORY_LIMIT = 1 << 1, /* no memory controller */
                   KEEPER_LACKS_CPU_LIMIT = 1 << 2,
                   KEEPER_LACKS_PIDS_LIMIT = 1 << 3,
};

struct keeper_status {
    uint32_t lacks;
    uint32_t jails;            /* running now; only in the answer to HELLO */
    uint64_t pool_used_bytes;  /* of the file system that layers and disks are on */
    uint64_t pool_total_bytes; /* 0: unknown */
};

struct keeper_usage {
    uint64_t memory_bytes;       /* all that is charged to the jail */
    uint64_t memory_cache_bytes; /* of that, page cache the kernel can drop */
    uint64_t cpu_usec;
    uint64_t disk_bytes;
    uint32_t oom_kills;
    uint32_t pids;
    uint32_t known; /* USAGE_MANY: 0 when there is no such jail; all other fields are 0 then */
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

/* Descriptors of an answer. CREATE, ATTACH and RESTORE return the first four, and the others unless
 * the jail has only loopback. All but the first two are sockets in the jail's network namespace,
 * newly opened. SOCKETS returns only sockets. */
enum {
    KEEPER_FD_PIDFD,
    KEEPER_FD_CHANNEL,
    KEEPER_FD_SOCKET, /* like those of SOCKETS, for the first connection to the agent */
    KEEPER_FD_SOCKET_2,
    KEEPER_FD_GATE, /* listens: every TCP connection out arrives here (SO_ORIGINAL_DST) */
    KEEPER_FD_DNS_UDP,
    KEEPER_FDS_JAIL, /* number of those */
    KEEPER_FDS_MAX = KEEPER_SOCKETS_MAX,
    KEEPER_FDS_HELD = 3, /* held by the server for an idle jail: its channel, gate and resolver */
    KEEPER_JAIL_SOCKETS = KEEPER_FD_GATE - KEEPER_FD_SOCKET,
    KEEPER_FD_FILES = 0, /* SAVE with ALONE: what inside/stow wrote of /run and /dev/shm; sealed */
    KEEPER_FD_DISK = 1,  /* likewise: of the disk, without the layers below it */
};
#define KEEPER_FDS_NONE                                                                            \
    {                                                                                              \
        -1, -1, -1, -1, -1, -1, -1, -1                                                             \
    }

/* 0, or -EINVAL with a sentence that names the field. Pure: the fuzzer calls it too. */
must_check int keeper_request_check(const struct keeper_request *req, struct err *err);

/* `atoll keeper`: serves until SIGTERM. Returns the exit code. In keeper/main.c. */
struct keeper_options {
    const char *socket_path; /* made anew; 0660, owner root, group of `gid` */
    const char *pool_path;   /* holds layers/ and sandboxes/ */
    const char *agent_path;  /* the static agent, mounted read-only into every jail */
    uint32_t client_uid;     /* the one uid besides root that may connect */
    uint32_t client_gid;
    const char *instance; /* [a-z0-9-]: names the cgroups of this data directory */
    bool merge_pages;     /* equal pages of jails are merged, where the kernel can (merge.h) */
    bool bpf_figures;     /* system calls return a jail's own size, likewise (size_bpf.h) */
    uint32_t lazy_mb; /* a restore of more memory does not wait for it (fill.h); 0: each waits */
    uint32_t workers; /* processes that start and end jails; 0: by the number of processors */
    enum log_level log_level;
    int lock_fd;         /* held while the keeper runs */
    int task_timeout_ms; /* of one save or restore; 0: HANDLE_TASK_TIMEOUT_MS. For tests */
};
int keeper_main(const struct keeper_options *options);

/* Executes atoll-keeper, which reads the options and calls keeper_main(). Returns only on
 * failure. */
must_check int keeper_options_exec(const char *program, const struct keeper_options *options,
                                   struct err *err);
/* The texts point into `words`. */
must_check int keeper_options_read(int words_n, char **words, struct keeper_options *out,
                                   struct err *err);

#endif
