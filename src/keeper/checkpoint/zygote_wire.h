/* zygote_wire.h - the messages of `criu zygote`. criu/zygote.patch has the other side. */
#ifndef CHECKPOINT_ZYGOTE_WIRE_H
#define CHECKPOINT_ZYGOTE_WIRE_H

#include <stdint.h>

enum {
    ZYGOTE_VERSION = 1,
    ZYGOTE_REQ_CGROUP = 1 << 0,
    ZYGOTE_REQ_CGROUPNS = 1 << 1,
};

/* With descriptors: the socket of the restore, its mount namespace, its v2 group, files of v1
 * groups. */
struct zygote_req {
    uint32_t version;
    uint32_t flags;
};

/* From the zygote when it is filled; from a restore, with its pidfd, when it waits for its job. */
struct zygote_hello {
    uint32_t version;
    int32_t status; /* 0 or -errno */
    int32_t pid;
    uint32_t tasks;
    uint64_t bytes;
    uint32_t huge_tried;
    uint32_t huge_made;
};

#endif
