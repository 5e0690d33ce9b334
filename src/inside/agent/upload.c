#include "inside/agent/upload.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "inside/agent/atomic_file.h"
#include "inside/agent/encoding.h"
#include "inside/agent/gzip.h"
#include "inside/agent/multipart.h"
#include "inside/agent/users.h"
#include "inside/agent/volume_ops.h"
#include "lib/base/alloc.h"
#include "lib/base/table.h"

enum {
    REPLY_ARENA_MAX = 64 * 1024,
};

struct target {
    char *path; /* the key; as it is reported */
    struct atomic_file file;
    UT_hash_handle hh; /* keeps the order of the parts */
};

struct upload {
    int64_t written; /* bytes of files */
    struct user user;
    const char *workdir; /* the request's */
    const char *path;    /* the request's; NULL: parts name their own */
    struct metadata metadata;
    const struct volume_terms *terms; /* the request's; NULL: /files */
    bool has_mode;
    mode_t mode;
    int64_t content_length;

    bool gzipped;
    struct gunzip gunzip;
    bool multipart;
    struct multipart parts;

    struct target *targets;
    struct target *current; /* the one being written; NULL: none, data is dropped */
};

static int no_space(const struct upload *up, struct err *err)
{
    if (up->content_length > 0) {
        return err_set(err, ENOSPC,
                       "attempted to write %lld bytes: not enough disk space available",
                       (long long)up->content_length);
    }
    return err_set(err, ENOSPC, "not enough disk space available");
}

static int space_told(const struct upload *up, int r, struct err *err)
{
    return r == -ENOSPC || r == -EDQUOT ? no_space(up, err) : r;
}

static int target_open(struct upload *up, struct str path, struct err *err)
{
    struct fs_owner owner =
        up->terms ? up->terms->owner : (struct fs_owner){up->user.uid, up->user.gid};
    char resolved[AGENT_PATH_BYTES];
    struct target *target;
    int r = path_resolve(up->workdir, &up->user, path, resolved, err);

    if (r < 0) {
        return err_wrap(err, "error resolving path");
    }
    HASH_FIND_STR(up->targets, resolved, target);
    if (target) {
        return err_set(err, EINVAL,
                       "you cannot upload multiple files to the same path '%s' in one upload "
                       "request, none was uploaded",
                       resolved);
    }
    target = xnew(struct target);
    target->path = xcalloc(1, strlen(resolved) + 1); /* at most AGENT_PATH_BYTES */
    memcpy(target->path, resolved, strlen(resolved));
    HASH_ADD_KEYPTR(hh, up->targets, target->path, strlen(target->path), target);
    up->current = target;
    r = up->terms ? volume_prepare(resolved, up->terms, err) : 0;
    if (r == 0) {
        r = atomic_file_open(&target->file, resolved, owner, err);
    }
    if (r == 0 && up->has_mode) {
        target->file.mode = up->mode;
    }
    if (r == 0 && up->terms) {
        target->file.mode = up->terms->mode;
        target->file.fresh = !up->terms->force;
        target->file.durable = true; /* a volume outlives the machine's power */
    }
    return space_told(up, r, err);
}

static int target_close(struct upload *up, struct err *err)
{
    struct target *target = up->current;

    up->current = NULL;
    return space_told(up, atomic_file_close(&target->file, &up->metadata, err), err);
}

static int part_begin(void *ctx, struct str name, struct str filename, struct err *err)
{
    struct upload *up = ctx;

    if (!str_eq(name, STR("file"))) {
        return 0; /* other fields of a form are dropped */
    }
    if (!up->path && !filename.at) {
        return err_set(err, EINVAL, "filename not found in Content-Disposition header");
    }
    return target_open(up, up->path ? str_of(up->path) : filename, err);
}

static int part_data(void *ctx, const void *data, size_t len, struct err *err)
{
    struct upload *up = ctx;

    if (!up->current) {
        return 0;
    }
    up->written += (int64_t)len;
    return space_told(up, atomic_file_write(&up->current->file, data, len, err), err);
}

static int part_end(void *ctx, struct err *err)
{
    struct upload *up = ctx;

    return up->current ? target_close(up, err) : 0;
}

static const struct multipart_handler part_handler = {part_begin, part_data, part_end};

/* Takes the unpacked bytes, or those of the body itself. */
static int plain_feed(void *ctx, const void *data, size_t len, struct err *err)
{
    struct upload *up = ctx;

    if (up->multipart) {
        return multipart_feed(&up->parts, data, len, err);
    }
    if (!up->current) { /* here and not in upload_new(): this is the pool's thread */
        int r = target_open(up, str_of(up->path), err);
        if (r < 0) {
            return r;
        }
    }
    return part_data(up, data, len, err);
}

static int kind_choose(struct upload *up, const struct http_request *http, struct err *err)
{
    struct str type = http_header_get(http, "content-type");
    struct str media = str_trim((struct str){type.at, str_find(type, ';')});

    if (up->terms) {
        return 0; /* whatever it says it is: the body is the file */
    }
    if (str_ieq(media, STR("application/octet-stream"))) {
        if (!up->path) {
            return err_set(err, EINVAL, "path query parameter is required for raw body upload");
        }
        return 0;
    }
    if (media.len < 10 || !str_ieq((struct str){media.at, 10}, STR("multipart/"))) {
        return err_set(err, EINVAL,
                       "unsupported content type: %.*s, expected multipart/form-data or "
                       "application/octet-stream",
                       (int)type.len, type.at ? type.at : "");
    }
    int r = multipart_init(&up->parts, type, &part_handler, up, err);
    up->multipart = r == 0;
    return r;
}

static int decoding_choose(struct upload *up, const struct http_request *http, struct err *err)
{
    struct str coding = http_header_get(http, "content-encoding");
    enum encoding encoding = encoding_of_body(coding);

    if (encoding == ENCODING_NONE) {
        return err_set(err, EINVAL,
                       "error decompressing request body: unsupported Content-Encoding: %.*s, "
                       "supported: [gzip]",
                       (int)coding.len, coding.at);
    }
    up->gzipped = encoding == ENCODING_GZIP;
    return up->gzipped ? gunzip_init(&up->gunzip, err) : 0;
}

struct upload *upload_new(const struct files_request *req, const struct http_request *http,
                          struct err *err)
{
    struct upload *up = xnew(struct upload);

    up->user = req->user;
    up->workdir = req->workdir;
    up->path = req->path;
    up->terms = req->terms;
    up->has_mode = req->has_mode;
    up->mode = req->mode;
    up->content_length = http->content_length;
    if (decoding_choose(up, http, err) < 0 || metadata_of_headers(http, &up->metadata, err) < 0 ||
        kind_choose(up, http, err) < 0) {
        upload_free(up);
        return NULL;
    }
    return up;
}

int upload_feed(struct upload *up, const void *data, size_t len, struct err *err)
{
    return up->gzipped ? gunzip_feed(&up->gunzip, data, len, plain_feed, up, err)
                       : plain_feed(up, data, len, err);
}

/* Metadata as it now is on the disk: a file system without attributes has kept none. */
static json_t *metadata_json(const char *path)
{
    scoped_arena arena = ARENA(REPLY_ARENA_MAX);
    json_t *out = json_object();
    Filesystem__EntryInfo entry;

    filesystem__entry_info__init(&entry);
    if (metadata_read(&arena, path, &entry) == 0) {
        for (size_t i = 0; i < entry.n_metadata; i++) {
            (void)json_object_set_new(out, entry.metadata[i]->key,
                                      json_string(entry.metadata[i]->value));
        }
    }
    return out;
}

static json_t *target_json(const struct target *target)
{
    scoped_arena arena = ARENA(REPLY_ARENA_MAX);
    const char *path = entry_text(&arena, str_of(target->path));
    json_t *entry = path ? json_pack("{s:s, s:s, s:s}", "name", strrchr(path, '/') + 1, "path",
                                     path, "type", "file")
                         : NULL;
    json_t *metadata = metadata_json(target->path);

    if (entry && json_object_size(metadata) > 0) {
        (void)json_object_set(entry, "metadata", metadata);
    }
    json_decref(metadata);
    return entry;
}

static int reply_append(const char *data, size_t len, void *ctx)
{
    return buf_append(ctx, data, len) < 0 ? -1 : 0;
}

static int reply_write(const struct upload *up, struct buf *reply, struct err *err)
{
    json_t *list = json_array();

    for (struct target *t = up->targets; t; t = t->hh.next) {
        (void)json_array_append_new(list, target_json(t));
    }
    int r = json_dump_callback(list, reply_append, reply, JSON_COMPACT);
    json_decref(list);
    return r < 0 ? err_set(err, ENOBUFS, "the files are written, but the answer is too long") : 0;
}

static int volume_reply_write(const struct upload *up, struct buf *reply, struct err *err)
{
    json_t *entry = NULL;
    int r = volume_stat(up->targets->path, &entry, err);

    if (r == 0 && json_dump_callback(entry, reply_append, reply, JSON_COMPACT) < 0) {
        r = err_set(err, ENOBUFS, "the file is written, but the answer is too long");
    }
    json_decref(entry);
    return r;
}

int upload_finish(struct upload *up, struct buf *reply, struct err *err)
{
    int r = up->gzipped ? gunzip_finish(&up->gunzip, err) : 0;

    if (r == 0 && up->multipart) {
        r = multipart_finish(&up->parts, err);
    } else if (r == 0) {
        r = plain_feed(up, NULL, 0, err); /* an empty body makes an empty file */
        if (r == 0) {
            r = target_close(up, err);
        }
    }
    for (struct target *t = up->targets; r == 0 && t; t = t->hh.next) {
        r = space_told(up, atomic_file_commit(&t->file, err), err);
    }
    if (r < 0) {
        return r;
    }
    return up->terms ? volume_reply_write(up, reply, err) : reply_write(up, reply, err);
}

int64_t upload_written(const struct upload *up)
{
    return up->written;
}

void upload_free(struct upload *up)
{
    struct target *target, *next;

    if (!up) {
        return;
    }
    HASH_ITER (hh, up->targets, target, next) {
        HASH_DEL(up->targets, target);
        atomic_file_fini(&target->file);
        free(target->path);
        free(target);
    }
    if (up->multipart) {
        multipart_fini(&up->parts);
    }
    gunzip_fini(&up->gunzip);
    free(up);
}
