/* copy_volume.c - a volume's end of a copy, over the content API. Trees are read and written entry
 * by entry, because no program runs in a volume. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/call.h"
#include "cli/copy.h"
#include "cli/extract.h"
#include "cli/terminal_text.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/web/multi.h"

enum {
    ANSWER_BYTES_MAX = 16 * 1024 * 1024,
    DEPTH_MAX = 128,
    ROUTE_BYTES = 128,
    READ_BLOCK_BYTES = 64 * 1024,
};

/* ---- requests ---- */

struct volume_request {
    CURL *easy;
    struct curl_slist *headers;
    struct buf answer;
    struct archive *archive; /* whose data is read or written; or NULL */
    struct copy *copy;
    int error;
};

static int request_open(struct volume_request *request, const struct place *place,
                        const char *method, const char *what, const char *path, const char *more,
                        struct err *err)
{
    char route[ROUTE_BYTES], bearer[LINK_TOKEN_BYTES + 16], full[LINK_PATH_BYTES];

    *request = (struct volume_request){.easy = web_handle_new()};
    buf_init(&request->answer, ANSWER_BYTES_MAX);
    (void)snprintf(route, sizeof(route), "/volumecontent/%s/%s", place->volume_id, what);
    (void)snprintf(bearer, sizeof(bearer), "Bearer %s", place->volume_token);
    request->headers = header_add(NULL, "authorization", str_of(bearer));
    request->headers = header_add(request->headers, "expect", STR(""));
    request->headers = header_add(request->headers, "content-type",
                                  strcmp(method, "PUT") == 0 ? STR("application/octet-stream")
                                                             : STR("application/json"));
    (void)curl_easy_setopt(request->easy, CURLOPT_HTTPHEADER, request->headers);
    int r = transfer_path(full, sizeof(full), route, path, more, err);
    return r < 0 ? r : endpoint_prepare(request->easy, &place->link.endpoint, method, full, err);
}

static void request_close(struct volume_request *request)
{
    curl_easy_cleanup(request->easy);
    curl_slist_free_all(request->headers);
    buf_fini(&request->answer);
}

static size_t on_answer(char *data, size_t size, size_t n, void *ctx)
{
    struct volume_request *request = ctx;
    long status = 0;

    (void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    if (request->archive && request->copy && status == 200) {
        atomic_fetch_add(&request->copy->moved, (long long)(size * n));
        return archive_write_data(request->archive, data, size * n) < 0 ||
                       atomic_load(&request->copy->cancelled)
                   ? 0
                   : size * n;
    }
    return buf_append(&request->answer, data, size * n) < 0 ? 0 : size * n;
}

static size_t on_read(char *into, size_t size, size_t n, void *ctx)
{
    struct volume_request *request = ctx;
    la_ssize_t got = archive_read_data(request->archive, into, size * n);

    if (got < 0) {
        request->error = -EIO;
        return CURL_READFUNC_ABORT;
    }
    atomic_fetch_add(&request->copy->moved, (long long)got);
    return (size_t)got;
}

static int request_perform(struct volume_request *request, const struct place *place,
                           struct err *err)
{
    char reason[CURL_ERROR_SIZE] = "";
    long status = 0;

    (void)curl_easy_setopt(request->easy, CURLOPT_ERRORBUFFER, reason);
    (void)curl_easy_setopt(request->easy, CURLOPT_WRITEFUNCTION, on_answer);
    (void)curl_easy_setopt(request->easy, CURLOPT_WRITEDATA, request);
    CURLcode code = curl_easy_perform(request->easy);
    (void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    if (request->error < 0) {
        return err_set(err, -request->error, "the source broke off");
    }
    if (code == CURLE_OK && status >= 300) {
        return link_refusal(buf_str(&request->answer), status, err);
    }
    return code == CURLE_OK
               ? 0
               : endpoint_failure(&place->link.endpoint, request->easy, code, reason, err);
}

static int volume_ask(const struct place *place, const char *method, const char *what,
                      const char *path, const char *more, json_t **answer, struct err *err)
{
    struct volume_request request;
    int r = request_open(&request, place, method, what, path, more, err);

    if (r == 0 && strcmp(method, "POST") == 0) {
        (void)curl_easy_setopt(request.easy, CURLOPT_POSTFIELDS, "");
    }
    r = r < 0 ? r : request_perform(&request, place, err);
    if (r == 0) {
        *answer = json_loadb(buf_at(&request.answer), buf_len(&request.answer), 0, NULL);
    }
    request_close(&request);
    return r;
}

/* ---- what is there ---- */

static int volume_id_find(struct place *place, const char *name, struct err *err)
{
    scoped_json *list = NULL;
    const json_t *volume;
    size_t i;
    int r = endpoint_call(&place->link.endpoint, "GET", "/volumes", NULL, &list, err);

    json_array_foreach (list, i, volume) {
        const char *id = json_text_of(volume, "volumeID");
        if (strcmp(json_text_of(volume, "name"), name) == 0 || strcmp(id, name) == 0) {
            (void)str_copy(place->volume_id, sizeof(place->volume_id), str_of(id));
        }
    }
    return r < 0                 ? r
           : place->volume_id[0] ? 0
                                 : err_set(err, CALL_NOT_FOUND, "there is no volume '%s'", name);
}

int volume_open(struct place *place, const char *name, struct err *err)
{
    char path[ROUTE_BYTES], escaped[LINK_ID_BYTES];
    scoped_json *answer = NULL;
    int r = volume_id_find(place, name, err);

    endpoint_escape(place->volume_id, escaped, sizeof(escaped));
    (void)snprintf(path, sizeof(path), "/volumes/%s", escaped);
    r = r < 0 ? r : endpoint_call_verbatim(&place->link.endpoint, "GET", path, NULL, &answer, err);
    if (r == 0 && !str_copy(place->volume_token, sizeof(place->volume_token),
                            str_of(json_text_of(answer, "token")))) {
        r = err_set(err, EPROTO, "the daemon's answer does not describe a volume");
    }
    return r;
}

int volume_entries(const struct place *place, json_t **list, struct err *err)
{
    int r = volume_ask(place, "GET", "dir", place->path, "&depth=1", list, err);

    (void)terminal_json_clean(r < 0 ? NULL : *list);
    return r;
}

int volume_look(struct place *place, struct err *err)
{
    scoped_json *answer = NULL;
    int r = volume_ask(place, "GET", "path", place->path, "", &answer, err);

    place->type = PLACE_MISSING;
    if (r < 0) {
        return r == -ENOENT ? 0 : r;
    }
    const char *type = json_text_of(answer, "type");
    place->type = strcmp(type, "directory") == 0 ? PLACE_DIRECTORY
                  : strcmp(type, "file") == 0    ? PLACE_FILE
                                                 : PLACE_SPECIAL;
    place->mode = (mode_t)json_integer_value(json_object_get(answer, "mode")) & 0777;
    place->bytes = json_integer_value(json_object_get(answer, "size"));
    return 0;
}

/* ---- from a volume ---- */

struct sending {
    struct copy *copy;
    struct archive *archive;
};

static int tree_write(struct sending *sending, const char *path, const char *below, int depth,
                      struct err *err);

static int content_write(struct sending *sending, const char *path, struct err *err)
{
    const struct place *place = sending->copy->from;
    struct volume_request request;
    int r = request_open(&request, place, "GET", "file", path, "", err);

    request.archive = sending->archive;
    request.copy = sending->copy;
    r = r < 0 ? r : request_perform(&request, place, err);
    request_close(&request);
    return r;
}

static int header_write(struct sending *sending, const json_t *entry, const char *below, int type,
                        struct err *err)
{
    struct archive_entry *header = archive_entry_new();

    archive_entry_set_pathname(header, below);
    archive_entry_set_filetype(header, (unsigned)type);
    archive_entry_set_perm(header,
                           (mode_t)json_integer_value(json_object_get(entry, "mode")) & 0777);
    archive_entry_set_size(
        header, type == AE_IFREG ? json_integer_value(json_object_get(entry, "size")) : 0);
    if (type == AE_IFLNK) {
        archive_entry_set_symlink(header, json_text_of(entry, "target"));
    }
    int r = archive_write_header(sending->archive, header);
    archive_entry_free(header);
    return r < ARCHIVE_WARN ? err_set(err, EPIPE, "pass on the files of the volume") : 0;
}

static int entry_write(struct sending *sending, const json_t *entry, const char *below, int depth,
                       struct err *err)
{
    const char *type = json_text_of(entry, "type"), *path = json_text_of(entry, "path");
    char name[COPY_PATH_BYTES];
    int n = snprintf(name, sizeof(name), "%s/%s", below, json_text_of(entry, "name"));

    if (n >= (int)sizeof(name)) {
        return err_set(err, ENAMETOOLONG, "a path of the volume is too long");
    }
    if (strcmp(type, "directory") == 0) {
        int r = header_write(sending, entry, name, AE_IFDIR, err);
        return r < 0 ? r : tree_write(sending, path, name, depth + 1, err);
    }
    if (strcmp(type, "symlink") == 0) {
        return header_write(sending, entry, name, AE_IFLNK, err);
    }
    if (strcmp(type, "file") != 0) {
        atomic_fetch_add(&sending->copy->entries_skipped, 1);
        return 0;
    }
    int r = header_write(sending, entry, name, AE_IFREG, err);
    return r < 0 ? r : content_write(sending, path, err);
}

static int tree_write(struct sending *sending, const char *path, const char *below, int depth,
                      struct err *err)
{
    scoped_json *list = NULL;
    const json_t *entry;
    size_t i;
    int r = depth > DEPTH_MAX
                ? err_set(err, ELOOP, "the directories of the volume are too deep")
                : volume_ask(sending->copy->from, "GET", "dir", path, "&depth=1", &list, err);

    json_array_foreach (list, i, entry) {
        if (r == 0 && atomic_load(&sending->copy->cancelled)) {
            r = err_set(err, EINTR, "interrupted");
        }
        r = r < 0 ? r : entry_write(sending, entry, below, depth, err);
    }
    return r;
}

int volume_send(struct copy *copy, int out, struct err *err)
{
    struct volume_request request;

    if (!copy->tree) {
        int r = request_open(&request, copy->from, "GET", "file", copy->from->path, "", err);
        r = r < 0 ? r : transfer_get(copy, request.easy, out, err);
        request_close(&request);
        return r;
    }
    struct sending sending = {.copy = copy, .archive = archive_write_new()};
    (void)archive_write_set_format_gnutar(sending.archive);
    (void)archive_write_open_fd(sending.archive, out);
    int r = tree_write(&sending, copy->from->path, ".", 0, err);
    if (r == 0 && archive_write_close(sending.archive) < ARCHIVE_WARN) {
        r = err_set(err, EPIPE, "pass on the files of the volume");
    }
    (void)archive_write_free(sending.archive);
    return r;
}

/* ---- to a volume ---- */

static int directory_put(const struct place *place, const char *path, mode_t mode, struct err *err)
{
    scoped_json *answer = NULL;
    char more[64];

    (void)snprintf(more, sizeof(more), "&force=true&mode=%u", (unsigned)mode & 0777);
    return volume_ask(place, "POST", "dir", path, more, &answer, err);
}

static int file_put(struct copy *copy, const char *path, mode_t mode, struct archive *archive,
                    int in, struct err *err)
{
    struct volume_request request;
    char more[64];

    (void)snprintf(more, sizeof(more), "&force=true&mode=%u", (unsigned)mode & 0777);
    int r = request_open(&request, copy->to, "PUT", "file", path, more, err);
    request.archive = archive;
    request.copy = copy;
    if (r == 0 && archive) {
        (void)curl_easy_setopt(request.easy, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(request.easy, CURLOPT_READFUNCTION, on_read);
        (void)curl_easy_setopt(request.easy, CURLOPT_READDATA, &request);
        r = request_perform(&request, copy->to, err);
    } else if (r == 0) {
        r = transfer_put(copy, request.easy, in, err);
    }
    request_close(&request);
    return r;
}

static int entry_put(struct copy *copy, struct archive *archive, struct archive_entry *entry,
                     struct err *err)
{
    const char *given = archive_entry_pathname(entry);
    char name[COPY_PATH_BYTES / 2], path[2 * COPY_PATH_BYTES];
    int r = extract_name(given ? given : "", name, sizeof(name), err);

    if (r < 0) {
        return r;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", copy->to->path, name);
    if (archive_entry_filetype(entry) == AE_IFDIR) {
        return name[0] ? directory_put(copy->to, path, archive_entry_perm(entry), err) : 0;
    }
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry)) {
        atomic_fetch_add(&copy->entries_skipped, 1);
        return 0;
    }
    return file_put(copy, path, archive_entry_perm(entry), archive, -1, err);
}

static int tree_read(struct copy *copy, struct archive *archive, struct err *err)
{
    struct archive_entry *entry;
    int r = 0, got;

    while (r == 0 && ((got = archive_read_next_header(archive, &entry)) == ARCHIVE_OK ||
                      got == ARCHIVE_WARN)) {
        r = atomic_load(&copy->cancelled) ? err_set(err, EINTR, "interrupted")
                                          : entry_put(copy, archive, entry, err);
    }
    if (r == 0 && (got != ARCHIVE_EOF || atomic_load(&copy->spoilt))) {
        r = err_set(err, EIO, "the source broke off");
    }
    return r;
}

int volume_receive(struct copy *copy, int in, struct err *err)
{
    if (!copy->tree) {
        mode_t mode = copy->mode ? copy->mode : 0666;
        return file_put(copy, copy->to->path, mode, NULL, in, err);
    }
    int r =
        copy->to->type == PLACE_DIRECTORY ? 0 : directory_put(copy->to, copy->to->path, 0777, err);
    struct archive *archive = archive_read_new();
    (void)archive_read_support_format_tar(archive);
    if (r == 0 && archive_read_open_fd(archive, in, READ_BLOCK_BYTES) != ARCHIVE_OK) {
        r = err_set(err, EIO, "the source broke off");
    }
    r = r < 0 ? r : tree_read(copy, archive, err);
    r = r < 0 ? r : copy_drain(copy, in, err);
    (void)archive_read_free(archive);
    return r;
}
