/* internal.h - shared by the files of volume/. */
#ifndef VOLUME_INTERNAL_H
#define VOLUME_INTERNAL_H

#include <assert.h>

#include "serve/store/mirror.h"
#include "serve/volume/volume.h"

struct content_jail; /* content.c: the service jail of one volume and who waits for it */

struct entry {
    struct volume volume;
    struct mirrored as; /* removed: not there yet, or not any more */
    struct volumes *all;
    struct content_jail *jail; /* NULL: nobody asks for its content */
    bool asked;                /* the keeper has been asked to remove it */
};

struct volumes {
    struct volumes_options use;
    struct mirror mirror;
    uv_timer_t reaper;
    uint32_t content_jails_n;
    uint32_t refs; /* questions under way, and the owner */
    bool closed;
};

void volumes_release(struct volumes *volumes);

static inline struct entry *entry_in(struct mirrored *one)
{
    return one ? container_of(one, struct entry, as) : NULL;
}

static inline struct entry *entry_of(const struct volumes *volumes, const char *id)
{
    return entry_in(mirror_find(&volumes->mirror, id));
}

/* The entry of a volume that must exist: the caller has found it, or it is being made or
 * removed. */
static inline struct entry *entry_known(const struct volumes *volumes, const char *id)
{
    struct entry *entry = entry_of(volumes, id);

    assert(entry);
    return entry;
}

/* Closes the jail of the volume, and answers the requests that wait for it. */
void content_jail_close(struct entry *entry);

#endif
