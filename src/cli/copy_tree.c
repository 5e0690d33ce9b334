#include "cli/copy_tree.h"

#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/call.h"
#include "cli/extract.h"
#include "lib/base/buf.h"
#include "lib/web/multi.h"

enum {
    REFUSAL_BYTES_MAX = 64 * 1024,
    DEPTH_MAX = 128,
    READ_BLOCK_BYTES = 64 * 1024,
};

/* ---- one file ---- */

struct tree_file {
    struct copy *copy;
    struct archive *archive;
    CURL *easy;
    bool sends;
    int error;
    struct buf refusal;
};

static size_t on_content(char *data, size_t size, size_t n, void *ctx)
{
    struct tree_file *file = ctx;
    long status = 0;

    (void)curl_easy_getinfo(file->easy, CURLINFO_RESPONSE_CODE, &status);
    if (file->sends || status != 200) {
        return buf_append(&file->refusal, data, size * n) < 0 ? 0 : size * n;
    }
    atomic_fetch_add(&file->copy->moved, (long long)(size * n));
    if (atomic_load(&file->copy->cancelled) ||
        archive_write_data(file->archive, data, size * n) < 0) {
        file->error = -EPIPE;
        return 0;
    }
    return size * n;
}

static size_t on_read(char *into, size_t size, size_t n, void *ctx)
{
    struct tree_file *file = ctx;
    la_ssize_t got = archive_read_data(file->archive, into, size * n);

    if (got < 0 || atomic_load(&file->copy->cancelled)) {
        file->error = -EIO;
        return CURL_READFUNC_ABORT;
    }
    atomic_fetch_add(&file->copy->moved, (long long)got);
    return (size_t)got;
}

static int file_perform(struct tree_file *file, const struct endpoint *endpoint, struct err *err)
{
    long status = 0;

    (void)curl_easy_setopt(file->easy, CURLOPT_WRITEFUNCTION, on_content);
    (void)curl_easy_setopt(file->easy, CURLOPT_WRITEDATA, file);
    if (file->sends) {
        (void)curl_easy_setopt(file->easy, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(file->easy, CURLOPT_READFUNCTION, on_read);
        (void)curl_easy_setopt(file->easy, CURLOPT_READDATA, file);
    }
    int r = endpoint_perform(endpoint, file->easy, &status, err);
    if (file->error < 0) {
        return err_set(err, -file->error, "the other side broke off");
    }
    if (status >= 300) {
        return link_refusal(buf_str(&file->refusal), status, err);
    }
    return r;
}

static int file_move(struct copy *copy, const struct tree_ops *ops, struct archive *archive,
                     bool sends, const char *path, mode_t mode, struct err *err)
{
    const struct place *place = sends ? copy->to : copy->from;
    struct tree_file file = {.copy = copy, .archive = archive, .sends = sends};
    struct curl_slist *headers = NULL;

    file.easy = web_handle_new();
    buf_init(&file.refusal, REFUSAL_BYTES_MAX);
    int r = ops->file(place, sends, path, mode, file.easy, &headers, err);
    r = r < 0 ? r : file_perform(&file, &place->link.endpoint, err);
    curl_easy_cleanup(file.easy);
    curl_slist_free_all(headers);
    buf_fini(&file.refusal);
    return r;
}

/* ---- from there ---- */

struct sending {
    struct copy *copy;
    const struct tree_ops *ops;
    struct archive *archive;
};

static int directory_write(struct sending *sending, const char *path, const char *below, int depth,
                           struct err *err);

static int header_write(struct sending *sending, const struct tree_entry *entry, const char *below,
                        struct err *err)
{
    struct archive_entry *header = archive_entry_new();
    bool link = entry->type == PLACE_MISSING, dir = entry->type == PLACE_DIRECTORY;

    archive_entry_set_pathname(header, below);
    archive_entry_set_filetype(header, link ? AE_IFLNK : dir ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(header, entry->mode & 0777);
    archive_entry_set_size(header, link || dir ? 0 : entry->bytes);
    if (link) {
        archive_entry_set_symlink(header, entry->target);
    }
    int r = archive_write_header(sending->archive, header);
    archive_entry_free(header);
    return r < ARCHIVE_WARN ? err_set(err, EPIPE, "pass on the files") : 0;
}

static int entry_write(struct sending *sending, const json_t *row, const char *below, int depth,
                       struct err *err)
{
    struct tree_entry entry = sending->ops->entry(row);
    char name[COPY_PATH_BYTES];

    if (entry.type == PLACE_SPECIAL) {
        atomic_fetch_add(&sending->copy->entries_skipped, 1);
        return 0;
    }
    if (snprintf(name, sizeof(name), "%s/%s", below, entry.name) >= (int)sizeof(name)) {
        return err_set(err, ENAMETOOLONG, "a path of the source is too long");
    }
    int r = header_write(sending, &entry, name, err);
    if (r < 0 || entry.type == PLACE_MISSING) {
        return r;
    }
    return entry.type == PLACE_DIRECTORY
               ? directory_write(sending, entry.path, name, depth + 1, err)
               : file_move(sending->copy, sending->ops, sending->archive, false, entry.path, 0,
                           err);
}

static int directory_write(struct sending *sending, const char *path, const char *below, int depth,
                           struct err *err)
{
    scoped_json *list = NULL;
    const json_t *row;
    size_t i;
    int r = depth > DEPTH_MAX ? err_set(err, ELOOP, "the directories of the source are too deep")
                              : sending->ops->list(sending->copy->from, path, &list, err);

    json_array_foreach (list, i, row) {
        if (r == 0 && atomic_load(&sending->copy->cancelled)) {
            r = err_set(err, EINTR, "interrupted");
        }
        r = r < 0 ? r : entry_write(sending, row, below, depth, err);
    }
    return r;
}

int tree_send(struct copy *copy, const struct tree_ops *ops, int out, struct err *err)
{
    struct sending sending = {.copy = copy, .ops = ops, .archive = archive_write_new()};

    (void)archive_write_set_format_gnutar(sending.archive);
    (void)archive_write_open_fd(sending.archive, out);
    int r = directory_write(&sending, copy->from->path, ".", 0, err);
    if (r == 0 && archive_write_close(sending.archive) < ARCHIVE_WARN) {
        r = err_set(err, EPIPE, "pass on the files");
    }
    (void)archive_write_free(sending.archive);
    return r;
}

/* ---- to there ---- */

static int entry_put(struct copy *copy, const struct tree_ops *ops, struct archive *archive,
                     struct archive_entry *entry, struct err *err)
{
    const char *given = archive_entry_pathname(entry);
    char name[COPY_PATH_BYTES / 2], path[2 * COPY_PATH_BYTES];
    int r = extract_name(given ? given : "", name, sizeof(name), err);

    if (r < 0) {
        return r;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", copy->to->path, name);
    if (archive_entry_filetype(entry) == AE_IFDIR) {
        return name[0] ? ops->make_dir(copy->to, path, archive_entry_perm(entry), err) : 0;
    }
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry)) {
        atomic_fetch_add(&copy->entries_skipped, 1);
        return 0;
    }
    return file_move(copy, ops, archive, true, path, archive_entry_perm(entry), err);
}

static int entries_put(struct copy *copy, const struct tree_ops *ops, struct archive *archive,
                       struct err *err)
{
    struct archive_entry *entry;
    int r = 0, got = ARCHIVE_OK;

    while (r == 0 && ((got = archive_read_next_header(archive, &entry)) == ARCHIVE_OK ||
                      got == ARCHIVE_WARN)) {
        r = atomic_load(&copy->cancelled) ? err_set(err, EINTR, "interrupted")
                                          : entry_put(copy, ops, archive, entry, err);
    }
    return r == 0 && got != ARCHIVE_EOF ? err_set(err, EIO, "the source broke off") : r;
}

int tree_receive(struct copy *copy, const struct tree_ops *ops, int in, struct err *err)
{
    struct archive *archive = archive_read_new();
    int r = 0;

    (void)archive_read_support_format_tar(archive);
    if (archive_read_open_fd(archive, in, READ_BLOCK_BYTES) != ARCHIVE_OK) {
        r = err_set(err, EIO, "the source broke off");
    }
    r = r < 0 ? r : entries_put(copy, ops, archive, err);
    (void)archive_read_free(archive);
    return r < 0 ? r : copy_drain(copy, in, err);
}
