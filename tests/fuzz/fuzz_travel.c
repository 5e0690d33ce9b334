/* The records of an exported save from any bytes, as they lie behind the seal. What passes both
 * checks can be made into files as it is: no path leads out, no attribute names another file. */
#include <assert.h>
#include <string.h>
#include <sys/stat.h>

#include "keeper/travel/lower_links.h"
#include "keeper/travel/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void path_assert(struct str path)
{
    struct str rest = path, part;

    assert(path.len > 0 && path.len <= RECORD_PATH_BYTES_MAX);
    assert(path.at[0] != '/' && !memchr(path.at, '\0', path.len));
    while (!str_eq(path, STR(".")) && str_split(&rest, '/', &part)) {
        assert(part.len > 0 && part.len <= RECORD_NAME_BYTES_MAX);
        assert(!str_eq(part, STR(".")) && !str_eq(part, STR("..")));
    }
}

static void entry_assert(const struct record *entry, const struct records *records)
{
    struct str rest = entry->attributes;
    struct record_attribute one;
    uint32_t n = 0;

    path_assert(entry->path);
    assert(entry->uid < KEEPER_UID_RANGE && entry->gid < KEEPER_UID_RANGE);
    assert(!S_ISBLK(entry->mode) && entry->mtime_ns < 1000000000);
    assert(S_ISLNK(entry->mode) == (entry->target.len > 0));
    assert(entry->target.len <= RECORD_PATH_BYTES_MAX);
    while (record_attribute(&rest, &one)) {
        assert(record_attribute_travels(one.name));
        assert(!strstr(one.name, "origin") || strncmp(one.name, "user.", 5) == 0);
        n++;
    }
    assert(n == entry->attributes_n && rest.len == 0);
    if (records->part == RECORD_PART_MEMORY) {
        assert(S_ISREG(entry->mode) && !memchr(entry->path.at, '/', entry->path.len));
    }
}

static void record_assert(const struct record *record, const struct records *records)
{
    switch ((int)record->kind) {
    case RECORD_ENTRY:
        entry_assert(record, records);
        break;
    case RECORD_LINK:
        path_assert(record->path);
        path_assert(record->target);
        assert(records->part == RECORD_PART_DISK);
        break;
    case RECORD_STAMP:
        path_assert(record->path);
        break;
    case RECORD_DATA:
        assert(record->bytes.len > 0 && records->bytes <= records->bytes_max);
        assert(record->offset + record->bytes.len <= records->file_size);
        break;
    case RECORD_LAYER:
        assert(record->layer.name.len < KEEPER_LAYER_BYTES);
        assert(!memchr(record->layer.name.at, '/', record->layer.name.len));
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct records records = {.bytes_max = 1 << 20};
    struct str rest = {(const char *)data, size};
    char name[512];
    struct lower_handle handle;
    struct record record;
    struct err err;
    ssize_t n;

    while ((n = record_read(rest, &record, &err)) > 0) {
        assert((size_t)n <= rest.len);
        if (records_follow(&records, &record, &err) < 0) {
            break;
        }
        record_assert(&record, &records);
        rest = str_skip(rest, (size_t)n);
    }
    if (str_copy(name, sizeof(name), (struct str){(const char *)data, size}) &&
        lower_handle_of(name, &handle)) {
        assert(handle.bytes > 0 && handle.bytes <= LOWER_HANDLE_BYTES_MAX);
    }
    return 0;
}
