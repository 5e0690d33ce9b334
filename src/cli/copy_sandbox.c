/* copy_sandbox.c - the sandbox's end of a copy: the agent's /files for a file, tar for a tree. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/copy.h"
#include "cli/copy_tree.h"
#include "cli/remote.h"
#include "cli/terminal_text.h"
#include "lib/web/multi.h"

enum { COMPLAINT_BYTES = 160, MORE_BYTES = 400 };

/* Numbers of 64 bits are texts in the JSON of protobuf. */
static int64_t number_of(const json_t *value)
{
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10)
                                 : json_integer_value(value);
}

static enum place_type type_of(const json_t *entry)
{
    const char *type = json_text_of(entry, "type");

    return strcmp(type, "FILE_TYPE_DIRECTORY") == 0 ? PLACE_DIRECTORY
           : strcmp(type, "FILE_TYPE_FILE") == 0    ? PLACE_FILE
                                                    : PLACE_SPECIAL;
}

static int entry_take(struct place *place, const json_t *entry, struct err *err)
{
    place->type = type_of(entry);
    place->mode = (mode_t)json_integer_value(json_object_get(entry, "mode")) & 0777;
    place->bytes = number_of(json_object_get(entry, "size"));
    return str_copy(place->path, sizeof(place->path), str_of(json_text_of(entry, "path")))
               ? 0
               : err_set(err, ENAMETOOLONG, "a path of the sandbox is too long");
}

static int path_call(struct place *place, const char *call, json_t **answer, struct err *err)
{
    scoped_json *body = json_pack("{ss}", "path", place->path);

    if (!body) {
        return err_set(err, EILSEQ, "the path in the sandbox is not UTF-8");
    }
    return link_call(&place->link, call, place->user, body, answer, err);
}

/* The agent completes "~" and relative paths: the place has an absolute one afterwards. */
int sandbox_look(struct place *place, struct err *err)
{
    scoped_json *answer = NULL;
    int r = path_call(place, "/filesystem.Filesystem/Stat", &answer, err);

    place->type = PLACE_MISSING;
    if (r == -ENOENT) {
        return 0;
    }
    return r < 0 ? r : entry_take(place, json_object_get(answer, "entry"), err);
}

static int directory_make(struct place *place, struct err *err)
{
    scoped_json *answer = NULL;
    int r = path_call(place, "/filesystem.Filesystem/MakeDir", &answer, err);

    return r < 0 ? r : entry_take(place, json_object_get(answer, "entry"), err);
}

/* ---- files ---- */

static int file_prepare(const struct place *place, bool sends, const char *file, mode_t mode,
                        CURL *easy, struct curl_slist **headers, struct err *err)
{
    char path[LINK_PATH_BYTES], more[MORE_BYTES] = "", escaped[MORE_BYTES / 2];

    if (place->user) {
        endpoint_escape(place->user, escaped, sizeof(escaped));
        (void)snprintf(more, sizeof(more), "&username=%s", escaped);
    }
    if (sends && mode) {
        size_t n = strlen(more);
        (void)snprintf(more + n, sizeof(more) - n, "&mode=%o", (unsigned)mode & 0777);
    }
    int r = transfer_path(path, sizeof(path), "/files", file, more, err);
    return r < 0 ? r
                 : link_prepare(&place->link, easy, sends ? "POST" : "GET", path,
                                sends ? "application/octet-stream" : NULL, NULL, headers, err);
}

static int file_transfer(struct copy *copy, const struct place *place, bool sends, int fd,
                         struct err *err)
{
    struct curl_slist *headers = NULL;
    CURL *easy = web_handle_new();
    int r = file_prepare(place, sends, place->path, copy->mode, easy, &headers, err);

    if (r == 0) {
        r = sends ? transfer_put(copy, easy, fd, err) : transfer_get(copy, easy, fd, err);
    }
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    return r;
}

/* ---- a tree, without tar ---- */

static int directory_list(const struct place *place, const char *path, json_t **out,
                          struct err *err)
{
    scoped_json *body = json_pack("{sssi}", "path", path, "depth", 1), *answer = NULL;
    int r = body ? link_call(&place->link, "/filesystem.Filesystem/ListDir", place->user, body,
                             &answer, err)
                 : err_set(err, EILSEQ, "a path in the sandbox is not UTF-8");

    *out = r < 0 ? NULL : json_incref(json_object_get(answer, "entries"));
    return r;
}

static struct tree_entry entry_of(const json_t *row)
{
    return (struct tree_entry){
        .name = json_text_of(row, "name"),
        .path = json_text_of(row, "path"),
        .target = json_text_of(row, "symlinkTarget"),
        .type = json_object_get(row, "symlinkTarget") ? PLACE_MISSING : type_of(row),
        .mode = (mode_t)json_integer_value(json_object_get(row, "mode")) & 0777,
        .bytes = number_of(json_object_get(row, "size")),
    };
}

/* The mode is not passed on: the agent has no call for it. */
static int directory_add(const struct place *place, const char *path, mode_t mode, struct err *err)
{
    scoped_json *body = json_pack("{ss}", "path", path), *answer = NULL;
    int r = body ? link_call(&place->link, "/filesystem.Filesystem/MakeDir", place->user, body,
                             &answer, err)
                 : err_set(err, EILSEQ, "a path in the sandbox is not UTF-8");

    (void)mode;
    return r == -EEXIST ? 0 : r;
}

static const struct tree_ops sandbox_ops = {
    .list = directory_list, .entry = entry_of, .make_dir = directory_add, .file = file_prepare};

/* ---- a tree ---- */

struct tarring {
    struct copy *copy;
    int out; /* -1: its output is not wanted */
    char complaint[COMPLAINT_BYTES];
};

static int on_output(void *ctx, bool is_stderr, struct str data)
{
    struct tarring *tarring = ctx;

    if (is_stderr && !tarring->complaint[0]) {
        size_t n = str_find(data, '\n');
        n = n < COMPLAINT_BYTES - 1 ? n : COMPLAINT_BYTES - 1;
        (void)str_copy(tarring->complaint, COMPLAINT_BYTES, (struct str){data.at, n});
        terminal_text_clean(tarring->complaint);
    }
    if (is_stderr || tarring->out < 0) {
        return 0;
    }
    atomic_fetch_add(&tarring->copy->moved, (long long)data.len);
    return remote_write(tarring->out, data);
}

static void on_sent(void *ctx, size_t bytes)
{
    struct tarring *tarring = ctx;

    atomic_fetch_add(&tarring->copy->moved, (long long)bytes);
}

static int tar_run(struct copy *copy, const struct place *place, const char *const *argv, int in,
                   int out, bool *missing, struct err *err)
{
    struct tarring tarring = {.copy = copy, .out = out};
    struct remote_plan plan = {
        .link = &place->link,
        .user = place->user,
        .process = {.argv = argv, .cwd = place->path, .takes_input = in >= 0},
        .input = in,
        .input_spoilt = in >= 0 ? &copy->spoilt : NULL,
        .cancelled = &copy->cancelled,
        .output = on_output,
        .sent = on_sent,
        .ctx = &tarring,
    };
    struct remote_end end;
    int r = remote_run(&plan, &end, err);

    /* A directory that the user may not enter is another reason not to start. */
    *missing = r < 0 && end.unstartable && strstr(err->msg, "'tar': No such file") != NULL;
    if (r == 0 && end.code != 0) {
        return err_set(err, EIO, "tar in sandbox %s failed with code %d: %s", place->link.id,
                       end.code, tarring.complaint);
    }
    return r;
}

int sandbox_send(struct copy *copy, int out, struct err *err)
{
    static const char *const argv[] = {"tar", "-cf", "-", ".", NULL};
    bool missing = false;

    if (!copy->tree) {
        return file_transfer(copy, copy->from, false, out, err);
    }
    int r = tar_run(copy, copy->from, argv, -1, out, &missing, err);
    return missing ? tree_send(copy, &sandbox_ops, out, err) : r;
}

int sandbox_receive(struct copy *copy, int in, struct err *err)
{
    /* The files belong to the user who runs tar, and keep their modes. */
    static const char *const argv[] = {"tar", "-xopf", "-", NULL};
    bool missing = false;
    int r = 0;

    if (!copy->tree) {
        return file_transfer(copy, copy->to, true, in, err);
    }
    if (copy->to->type == PLACE_MISSING) {
        r = directory_make(copy->to, err);
    }
    r = r < 0 ? r : tar_run(copy, copy->to, argv, in, -1, &missing, err);
    if (missing) {
        return tree_receive(copy, &sandbox_ops, in, err);
    }
    return r < 0 ? r : copy_drain(copy, in, err); /* some tars leave before the last block */
}
