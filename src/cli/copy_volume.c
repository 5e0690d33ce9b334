/* copy_volume.c - a volume's end of a copy, over the content API. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/call.h"
#include "cli/copy.h"
#include "cli/copy_tree.h"
#include "cli/terminal_text.h"
#include "lib/base/buf.h"
#include "lib/web/multi.h"

enum {
    ROUTE_BYTES = 128,
    MORE_BYTES = 64,
    FILE_MODE_DEFAULT = 0666, /* a volume is shared: by default a file is open to everybody */
    DIR_MODE_DEFAULT = 0777,
};

/* ---- requests ---- */

static int volume_prepare(const struct place *place, CURL *easy, const char *method,
                          const char *what, const char *path, const char *more,
                          struct curl_slist **headers, struct err *err)
{
    char route[ROUTE_BYTES], bearer[LINK_TOKEN_BYTES + 16], full[LINK_PATH_BYTES];
    bool sends = strcmp(method, "PUT") == 0;

    (void)snprintf(route, sizeof(route), "/volumecontent/%s/%s", place->volume_id, what);
    (void)snprintf(bearer, sizeof(bearer), "Bearer %s", place->volume_token);
    *headers = header_add(NULL, "authorization", str_of(bearer));
    *headers = header_add(*headers, "expect", STR(""));
    *headers = header_add(*headers, "content-type",
                          sends ? STR("application/octet-stream") : STR("application/json"));
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *headers);
    int r = transfer_path(full, sizeof(full), route, path, more, err);
    return r < 0 ? r : endpoint_prepare(easy, &place->link.endpoint, method, full, err);
}

static int volume_ask(const struct place *place, const char *method, const char *what,
                      const char *path, const char *more, json_t **answer, struct err *err)
{
    CURL *easy = web_handle_new();
    struct curl_slist *headers = NULL;
    int r = volume_prepare(place, easy, method, what, path, more, &headers, err);

    if (r == 0 && strcmp(method, "POST") == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
    }
    r = r < 0 ? r : link_perform(&place->link, easy, answer, err);
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
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
    if (r == 0 && !place->volume_id[0]) {
        r = err_set(err, CALL_NOT_FOUND, "there is no volume '%s'", name);
    }
    return r;
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

static struct tree_entry entry_of(const json_t *row)
{
    const char *type = json_text_of(row, "type");

    return (struct tree_entry){
        .name = json_text_of(row, "name"),
        .path = json_text_of(row, "path"),
        .target = json_text_of(row, "target"),
        .type = strcmp(type, "directory") == 0 ? PLACE_DIRECTORY
                : strcmp(type, "file") == 0    ? PLACE_FILE
                : strcmp(type, "symlink") == 0 ? PLACE_MISSING
                                               : PLACE_SPECIAL,
        .mode = (mode_t)json_integer_value(json_object_get(row, "mode")) & 0777,
        .bytes = json_integer_value(json_object_get(row, "size")),
    };
}

int volume_look(struct place *place, struct err *err)
{
    scoped_json *answer = NULL;
    int r = volume_ask(place, "GET", "path", place->path, "", &answer, err);

    place->type = PLACE_MISSING;
    if (r < 0) {
        return r == -ENOENT ? 0 : r;
    }
    struct tree_entry entry = entry_of(answer);
    place->type = entry.type == PLACE_MISSING ? PLACE_SPECIAL : entry.type;
    place->mode = entry.mode;
    place->bytes = entry.bytes;
    return 0;
}

static int directory_list(const struct place *place, const char *path, json_t **out,
                          struct err *err)
{
    return volume_ask(place, "GET", "dir", path, "&depth=1", out, err);
}

int volume_entries(const struct place *place, json_t **list, struct err *err)
{
    int r = directory_list(place, place->path, list, err);

    (void)terminal_json_clean(r < 0 ? NULL : *list);
    return r;
}

/* ---- files ---- */

static int directory_make(const struct place *place, const char *path, mode_t mode, struct err *err)
{
    scoped_json *answer = NULL;
    char more[MORE_BYTES];

    (void)snprintf(more, sizeof(more), "&force=true&mode=%u", (unsigned)mode & 0777);
    return volume_ask(place, "POST", "dir", path, more, &answer, err);
}

static int file_prepare(const struct place *place, bool sends, const char *path, mode_t mode,
                        CURL *easy, struct curl_slist **headers, struct err *err)
{
    char more[MORE_BYTES] = "";

    if (sends) {
        (void)snprintf(more, sizeof(more), "&force=true&mode=%u", (unsigned)mode & 0777);
    }
    return volume_prepare(place, easy, sends ? "PUT" : "GET", "file", path, more, headers, err);
}

static const struct tree_ops volume_ops = {
    .list = directory_list, .entry = entry_of, .make_dir = directory_make, .file = file_prepare};

static int file_transfer(struct copy *copy, const struct place *place, bool sends, int fd,
                         struct err *err)
{
    CURL *easy = web_handle_new();
    struct curl_slist *headers = NULL;
    mode_t mode = copy->mode ? copy->mode : FILE_MODE_DEFAULT;
    int r = file_prepare(place, sends, place->path, mode, easy, &headers, err);

    if (r == 0) {
        r = sends ? transfer_put(copy, easy, fd, err) : transfer_get(copy, easy, fd, err);
    }
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    return r;
}

int volume_send(struct copy *copy, int out, struct err *err)
{
    return copy->tree ? tree_send(copy, &volume_ops, out, err)
                      : file_transfer(copy, copy->from, false, out, err);
}

int volume_receive(struct copy *copy, int in, struct err *err)
{
    int r = 0;

    if (!copy->tree) {
        return file_transfer(copy, copy->to, true, in, err);
    }
    if (copy->to->type != PLACE_DIRECTORY) {
        r = directory_make(copy->to, copy->to->path, DIR_MODE_DEFAULT, err);
    }
    return r < 0 ? r : tree_receive(copy, &volume_ops, in, err);
}
