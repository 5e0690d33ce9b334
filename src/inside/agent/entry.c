#include "inside/agent/entry.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "inside/agent/metadata.h"
#include "inside/agent/users.h"
#include "lib/base/utf8.h"

void entry_permissions(mode_t mode, char out[ENTRY_PERMISSIONS_BYTES])
{
    static const struct {
        mode_t mask, value;
        char letter;
    } kinds[] = {
        {S_IFMT, S_IFDIR, 'd'},  {S_IFMT, S_IFLNK, 'L'},  {S_IFMT, S_IFBLK, 'D'},
        {S_IFMT, S_IFCHR, 'D'},  {S_IFMT, S_IFIFO, 'p'},  {S_IFMT, S_IFSOCK, 'S'},
        {S_ISUID, S_ISUID, 'u'}, {S_ISGID, S_ISGID, 'g'}, {S_IFMT, S_IFCHR, 'c'},
        {S_ISVTX, S_ISVTX, 't'},
    };
    size_t n = 0;

    for (size_t i = 0; i < countof(kinds); i++) {
        if ((mode & kinds[i].mask) == kinds[i].value) {
            out[n++] = kinds[i].letter;
        }
    }
    if (n == 0) {
        out[n++] = '-';
    }
    for (unsigned bit = 0; bit < 9; bit++) {
        out[n++] = "-rwx"[mode & (0400U >> bit) ? 1 + bit % 3 : 0];
    }
    out[n] = '\0';
}

static Filesystem__FileType type_of(mode_t mode)
{
    return S_ISREG(mode)   ? FILESYSTEM__FILE_TYPE__FILE_TYPE_FILE
           : S_ISDIR(mode) ? FILESYSTEM__FILE_TYPE__FILE_TYPE_DIRECTORY
                           : FILESYSTEM__FILE_TYPE__FILE_TYPE_UNSPECIFIED;
}

char *entry_text(struct arena *arena, struct str text)
{
    if (utf8_valid(text)) {
        return arena_copy(arena, text);
    }
    char *out = arena_alloc(arena, text.len * UTF8_REPLACEMENT_BYTES + 1);
    if (out) {
        (void)utf8_repair(text, out);
    }
    return out;
}

static char *name_cached(struct arena *arena, struct entry_name slots[ENTRY_NAMES_MAX], uint32_t id,
                         void (*lookup)(uint32_t id, char *out, size_t size))
{
    struct entry_name *slot = &slots[0];
    char name[256];

    for (size_t i = 0; i < ENTRY_NAMES_MAX; i++) {
        if (slots[i].name && slots[i].id == id) {
            return slots[i].name;
        }
        if (!slots[i].name) {
            slot = &slots[i]; /* when all are taken, the first gives way */
            break;
        }
    }
    lookup(id, name, sizeof(name));
    *slot = (struct entry_name){id, entry_text(arena, str_of(name))};
    return slot->name;
}

/* A dangling link has no type, and is reported as its own target. */
static int link_fill(struct arena *arena, const char *path, Filesystem__EntryInfo *entry)
{
    char target[PATH_MAX];
    struct stat st;

    if (!realpath(path, target)) {
        entry->symlink_target = entry->path;
    } else {
        entry->symlink_target = entry_text(arena, str_of(target));
        if (stat(target, &st) == 0) {
            entry->type = type_of(st.st_mode);
            entry->mode = st.st_mode & 0777;
        }
    }
    entry->link_case = FILESYSTEM__ENTRY_INFO__LINK_SYMLINK_TARGET;
    entry->is_symlink = true;
    return entry->symlink_target ? 0 : -ENOBUFS;
}

static int time_fill(struct arena *arena, struct timespec at, Filesystem__EntryInfo *entry)
{
    Google__Protobuf__Timestamp *time = arena_new(arena, Google__Protobuf__Timestamp);

    if (!time) {
        return -ENOBUFS;
    }
    google__protobuf__timestamp__init(time);
    time->seconds = at.tv_sec;
    time->nanos = (int32_t)at.tv_nsec;
    entry->modified_time = time;
    return 0;
}

static int texts_fill(struct arena *arena, struct entry_names *names, const struct stat *st,
                      const char *shown, Filesystem__EntryInfo *entry)
{
    char permissions[ENTRY_PERMISSIONS_BYTES];

    entry_permissions(st->st_mode, permissions);
    entry->permissions = arena_copy(arena, str_of(permissions));
    entry->path = entry_text(arena, str_of(shown));
    entry->owner = name_cached(arena, names->users, st->st_uid, user_name_of);
    entry->group = name_cached(arena, names->groups, st->st_gid, group_name_of);
    if (!entry->permissions || !entry->path || !entry->owner || !entry->group) {
        return -ENOBUFS;
    }
    char *slash = strrchr(entry->path, '/');
    entry->name = slash && slash[1] ? slash + 1 : entry->path;
    return 0;
}

/* Some filesystems count a directory in blocks and some in bytes of names, so that an empty one has
 * none. Clients know the former: at least a block. */
static int64_t size_of(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_size < st->st_blksize ? st->st_blksize : st->st_size;
}

int entry_read(struct arena *arena, struct entry_names *names, const char *path, const char *shown,
               Filesystem__EntryInfo **out)
{
    struct stat st;
    int r;

    if (lstat(path, &st) < 0) {
        return -errno;
    }
    Filesystem__EntryInfo *entry = arena_new(arena, Filesystem__EntryInfo);
    if (!entry) {
        return -ENOBUFS;
    }
    filesystem__entry_info__init(entry);
    entry->size = size_of(&st);
    entry->type = type_of(st.st_mode);
    entry->mode = st.st_mode & 0777;
    r = texts_fill(arena, names, &st, shown, entry);
    if (r == 0 && S_ISLNK(st.st_mode)) {
        entry->type = FILESYSTEM__FILE_TYPE__FILE_TYPE_UNSPECIFIED;
        entry->mode = 0;
        r = link_fill(arena, path, entry);
    }
    if (r == 0) {
        r = time_fill(arena, st.st_mtim, entry);
    }
    if (r == 0) {
        r = metadata_read(arena, path, entry);
    }
    if (r == 0) {
        *out = entry;
    }
    return r;
}

void entry_reduce(Filesystem__EntryInfo *entry)
{
    Filesystem__EntryInfo first;

    filesystem__entry_info__init(&first);
    first.name = entry->name;
    first.type = entry->type;
    first.path = entry->path;
    *entry = first;
}
