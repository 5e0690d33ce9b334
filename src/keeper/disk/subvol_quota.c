#include <endian.h>
#include <errno.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "keeper/disk/subvol.h"
#include "lib/base/alloc.h"

enum {
    STATUS_SIMPLE = 1 << 3, /* BTRFS_QGROUP_STATUS_FLAG_SIMPLE_MODE, in newer headers */
    LEVEL_OF_GROUPS = 1,
    SEARCH_BYTES = 256 * 1024,
    ITEM_BYTES = 25, /* size of the header that btrfs keeps for each item */
    NOTED_MIN = 4096,
};

/* ---- trees ---- */

/* Called for each item in the order of keys. A result other than 0 ends the search, and is
 * returned. */
typedef int item_seen(void *ctx, const struct btrfs_ioctl_search_header *header, const void *item);

struct search {
    struct btrfs_ioctl_search_key key;
    uint64_t buf_size;
    uint8_t buf[SEARCH_BYTES];
};

static void searchp(struct search **search)
{
    free(*search);
}

/* Continues after the last item found; false after the last possible key. */
static bool key_advance(struct btrfs_ioctl_search_key *key,
                        const struct btrfs_ioctl_search_header *last)
{
    key->min_objectid = last->objectid;
    key->min_type = last->type;
    key->min_offset = last->offset + 1;
    if (key->min_offset == 0 && ++key->min_type > UINT8_MAX) {
        key->min_type = 0;
        return ++key->min_objectid != 0;
    }
    return true;
}

static int found_each(const struct search *search, struct btrfs_ioctl_search_header *last,
                      item_seen *seen, void *ctx)
{
    size_t at = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < search->key.nr_items; i++) {
        memcpy(last, search->buf + at, sizeof(*last));
        r = seen(ctx, last, search->buf + at + sizeof(*last));
        at += sizeof(*last) + last->len;
    }
    return r;
}

/* Visits the items of a tree from the key `from` up to max_objectid. */
static int tree_each(int fd, const struct btrfs_ioctl_search_key *from, item_seen *seen, void *ctx)
{
    scoped(searchp) struct search *search = xnew(struct search);
    struct btrfs_ioctl_search_header last;
    int r = 0;

    search->key = *from;
    do {
        search->key.nr_items = UINT32_MAX;
        search->buf_size = SEARCH_BYTES;
        if (ioctl(fd, BTRFS_IOC_TREE_SEARCH_V2, search) < 0) {
            return -errno;
        }
        r = found_each(search, &last, seen, ctx);
    } while (r == 0 && search->key.nr_items > 0 && key_advance(&search->key, &last));
    return r;
}

static struct btrfs_ioctl_search_key tree_all(uint64_t tree_id)
{
    return (struct btrfs_ioctl_search_key){
        .tree_id = tree_id,
        .max_objectid = UINT64_MAX,
        .max_type = UINT32_MAX,
        .max_offset = UINT64_MAX,
        .max_transid = UINT64_MAX,
    };
}

/* ---- one item ---- */

static bool quota_item(int fd, uint32_t type, uint64_t offset, void *item, size_t size)
{
    struct btrfs_ioctl_search_args args = {.key = {.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
                                                   .min_type = type,
                                                   .max_type = type,
                                                   .min_offset = offset,
                                                   .max_offset = offset,
                                                   .max_transid = UINT64_MAX,
                                                   .nr_items = 1}};
    struct btrfs_ioctl_search_header header;

    if (ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0 || args.key.nr_items != 1) {
        return false;
    }
    memcpy(&header, args.buf, sizeof(header));
    if (header.len < size) {
        return false;
    }
    memcpy(item, args.buf + sizeof(header), size);
    return true;
}

/* Finds the item of that type for the group in the quota tree. */
static bool quota_read(int fd, uint64_t group, uint32_t type, void *item, size_t size)
{
    const uint64_t id = group ? group : subvol_id(fd);

    return id && quota_item(fd, type, id, item, size);
}

bool subvol_quotas_are_simple(int fd)
{
    struct btrfs_qgroup_status_item item;

    return quota_item(fd, BTRFS_QGROUP_STATUS_KEY, 0, &item, sizeof(item)) &&
           le64toh(item.flags) & STATUS_SIMPLE;
}

int subvol_limit(int fd, uint64_t group, uint64_t bytes)
{
    struct btrfs_ioctl_qgroup_limit_args args = {
        .qgroupid = group,
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes},
    };

    return ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? -errno : 0;
}

uint64_t subvol_limit_bytes(int fd, uint64_t group)
{
    struct btrfs_qgroup_limit_item item;

    return quota_read(fd, group, BTRFS_QGROUP_LIMIT_KEY, &item, sizeof(item)) &&
                   le64toh(item.flags) & BTRFS_QGROUP_LIMIT_MAX_RFER
               ? le64toh(item.max_rfer)
               : 0;
}

uint64_t subvol_bytes(int fd, uint64_t group)
{
    struct btrfs_qgroup_info_item item;

    return quota_read(fd, group, BTRFS_QGROUP_INFO_KEY, &item, sizeof(item)) ? le64toh(item.rfer)
                                                                             : 0;
}

int subvol_commit(int fd)
{
    uint64_t transaction = 0;

    return ioctl(fd, BTRFS_IOC_START_SYNC, &transaction) < 0 ||
                   ioctl(fd, BTRFS_IOC_WAIT_SYNC, &transaction) < 0
               ? -errno
               : 0;
}

/* ---- groups ---- */

int subvol_group_make(int fd, uint64_t id, uint64_t *out)
{
    const uint64_t group = (uint64_t)LEVEL_OF_GROUPS << SUBVOL_LEVEL_SHIFT | id;
    struct btrfs_ioctl_qgroup_create_args create = {.create = 1, .qgroupid = group};
    struct btrfs_ioctl_qgroup_assign_args assign = {.assign = 1, .src = id, .dst = group};

    if ((ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &create) < 0 && errno != EEXIST) ||
        (ioctl(fd, BTRFS_IOC_QGROUP_ASSIGN, &assign) < 0 && errno != EEXIST)) {
        return -errno;
    }
    *out = group;
    return 0;
}

/* True also for a subvolume that is being removed. */
static bool is_there(int fd, uint64_t id)
{
    struct btrfs_ioctl_search_args args = {.key = {.tree_id = BTRFS_ROOT_TREE_OBJECTID,
                                                   .min_objectid = id,
                                                   .max_objectid = id,
                                                   .min_type = BTRFS_ROOT_ITEM_KEY,
                                                   .max_type = BTRFS_ROOT_ITEM_KEY,
                                                   .max_offset = UINT64_MAX,
                                                   .max_transid = UINT64_MAX,
                                                   .nr_items = 1}};

    return ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0 || args.key.nr_items > 0;
}

struct vacant {
    int fd;
    uint64_t *groups;
    size_t n, room;
};

/* A group of the level above has the id of its first member, which exists while the group is
 * made. */
static int vacant_note(void *ctx, const struct btrfs_ioctl_search_header *header, const void *item)
{
    struct vacant *vacant = ctx;
    const uint64_t id = header->offset & (((uint64_t)1 << SUBVOL_LEVEL_SHIFT) - 1);
    struct btrfs_qgroup_info_item info;

    if (header->type != BTRFS_QGROUP_INFO_KEY || header->len < sizeof(info)) {
        return 0;
    }
    memcpy(&info, item, sizeof(info));
    if (info.rfer || info.excl || id < BTRFS_FIRST_FREE_OBJECTID || is_there(vacant->fd, id)) {
        return 0;
    }
    if (vacant->n == vacant->room) {
        vacant->room = vacant->room ? vacant->room * 2 : NOTED_MIN;
        vacant->groups = xrealloc(vacant->groups, vacant->room * sizeof(*vacant->groups));
    }
    vacant->groups[vacant->n++] = header->offset;
    return 0;
}

/* Members have lower numbers than their groups, so they come first. The kernel refuses to remove a
 * group that has members, or was used meanwhile; that is right. */
int subvol_groups_sweep(int fd)
{
    struct vacant vacant = {.fd = fd};
    struct btrfs_ioctl_search_key key = tree_all(BTRFS_QUOTA_TREE_OBJECTID);

    key.max_objectid = 0;
    key.min_type = key.max_type = BTRFS_QGROUP_INFO_KEY;
    int r = tree_each(fd, &key, vacant_note, &vacant);
    for (size_t i = 0; i < vacant.n; i++) {
        struct btrfs_ioctl_qgroup_create_args remove = {.qgroupid = vacant.groups[i]};
        (void)!ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &remove);
    }
    free(vacant.groups);
    return r;
}

/* ---- measuring ---- */

struct extent {
    uint64_t at, bytes;
};

struct measured {
    struct extent *extents;
    size_t n, room;
    uint64_t item_bytes;
};

static int extent_compare(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* Counts each extent once: a tenant can have one extent in very many places. */
static void extents_merge(struct measured *measured)
{
    size_t n = 0;

    if (measured->n > 0) {
        qsort(measured->extents, measured->n, sizeof(*measured->extents), extent_compare);
    }
    for (size_t i = 0; i < measured->n; i++) {
        if (n == 0 || measured->extents[n - 1].at != measured->extents[i].at) {
            measured->extents[n++] = measured->extents[i];
        }
    }
    measured->n = n;
}

static void extents_room(struct measured *measured)
{
    extents_merge(measured);
    if (measured->n * 2 >= measured->room) {
        measured->room = measured->room ? measured->room * 2 : NOTED_MIN;
        measured->extents =
            xrealloc(measured->extents, measured->room * sizeof(*measured->extents));
    }
}

static void extent_add(struct measured *measured, struct extent extent)
{
    if (measured->n == measured->room) {
        extents_room(measured);
    }
    measured->extents[measured->n++] = extent;
}

/* A file that uses a part of an extent keeps all of it allocated. */
static int item_measure(void *ctx, const struct btrfs_ioctl_search_header *header, const void *item)
{
    struct measured *measured = ctx;
    struct btrfs_file_extent_item extent;

    measured->item_bytes += ITEM_BYTES + header->len;
    if (header->type != BTRFS_EXTENT_DATA_KEY || header->len < sizeof(extent)) {
        return 0; /* a short file has its data inline */
    }
    memcpy(&extent, item, sizeof(extent));
    if (extent.type != BTRFS_FILE_EXTENT_INLINE && extent.disk_bytenr) {
        extent_add(measured,
                   (struct extent){le64toh(extent.disk_bytenr), le64toh(extent.disk_num_bytes)});
    }
    return 0;
}

int subvol_measure(int fd, uint64_t *bytes)
{
    struct measured measured = {0};
    struct btrfs_ioctl_search_key key = tree_all(0); /* the subvolume of fd */
    int r = tree_each(fd, &key, item_measure, &measured);

    extents_merge(&measured);
    uint64_t sum = measured.item_bytes +
                   measured.item_bytes / 2; /* metadata blocks are about two thirds full */
    for (size_t i = 0; i < measured.n; i++) {
        sum += measured.extents[i].bytes;
    }
    free(measured.extents);
    if (r == 0) {
        *bytes = sum;
    }
    return r;
}
