/* lazyfill_wire.h - the messages of `criu swrk` with a pager. criu/lazyfill.patch has the other
 * side. The ranges are struct fill_range. */
#ifndef CHECKPOINT_LAZYFILL_WIRE_H
#define CHECKPOINT_LAZYFILL_WIRE_H

#include <stdint.h>

enum {
    LAZYFILL_VERSION = 1,
    LAZYFILL_TASK = 1, /* with descriptors: a userfaultfd, the file of pages, a file of ranges */
    LAZYFILL_DONE = 2, /* and the same in answer */
    LAZYFILL_FDS = 3,
};

struct lazyfill_msg {
    uint32_t version;
    uint32_t type;
    uint64_t count; /* ranges, or tasks */
};

#endif
