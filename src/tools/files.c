/* files.c - read_sandbox_file and write_sandbox_file. A folder is read in files_tree.c. */
#include "tools/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/encode.h"
#include "lib/base/utf8.h"
#include "tools/catalogue/handlers.h"
#include "tools/internal.h"
#include "tools/reply.h"

enum {
    MODE_DIGITS_MAX = 4,
    MODE_BYTES = 12,
    CHMOD_LIMIT_MS = 10 * 1000,
};

static int64_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* Protobuf's JSON writes 64-bit numbers as texts. */
int64_t entry_size(const json_t *entry)
{
    const json_t *size = json_object_get(entry, "size");

    return json_is_string(size) ? strtoll(json_string_value(size), NULL, 10)
                                : json_integer_value(size);
}

bool entry_is_directory(const json_t *entry)
{
    const char *type = json_string_of(entry, "type");

    return type && strcmp(type, "FILE_TYPE_DIRECTORY") == 0;
}

static int stat_path(struct tool_call *call, const struct remote_sandbox *sandbox, const char *path,
                     json_t **out, struct err *err)
{
    scoped_json *request = json_pack("{ss}", "path", path);
    scoped_json *answer = NULL;

    int r = remote_rpc(call, sandbox, "/filesystem.Filesystem/Stat", request, &answer, err);
    json_t *entry = json_object_get(answer, "entry");
    if (r == -ENOENT) {
        return err_set(err, ENOENT, "path: \"%.256s\" does not exist", path);
    }
    if (r == 0 && !json_string_of(entry, "path")) {
        r = err_set(err, EIO, "the sandbox's agent named no path");
    }
    if (r == 0) {
        *out = json_incref(entry);
    }
    return r;
}

/* ---- read_sandbox_file ---- */

static bool is_text(struct str data)
{
    return utf8_valid(data) && str_find(data, '\0') == data.len;
}

/* Text as it is, anything else as base64. A text that was cut ends with a whole character. */
void content_put(json_t *out, struct str data, bool cut)
{
    struct str text = data;
    scoped_buf(encoded, 2 * data.len + 8);

    text.len -= cut ? utf8_unfinished(text) : 0;
    if (is_text(text)) {
        (void)json_object_set_new(out, "content", json_stringn(text.at ? text.at : "", text.len));
        (void)json_object_set_new(out, "encoding", json_string("utf-8"));
    } else {
        (void)!base64_encode(&encoded, data.at, data.len, BASE64_STD);
        (void)json_object_set_new(out, "content",
                                  json_stringn(buf_at(&encoded), buf_len(&encoded)));
        (void)json_object_set_new(out, "encoding", json_string("base64"));
    }
    (void)json_object_set_new(out, "truncated", json_boolean(cut));
}

static int read_file(struct tool_call *call, const struct remote_sandbox *sandbox,
                     const json_t *entry, size_t max, json_t *reply, struct err *err)
{
    scoped_buf(data, max);
    bool cut = false;

    int r = remote_read(call, sandbox, json_string_of(entry, "path"), max, &data, &cut, err);
    if (r == 0) {
        (void)json_object_set_new(reply, "type", json_string("file"));
        (void)json_object_set_new(reply, "size", json_integer(entry_size(entry)));
        content_put(reply, buf_str(&data), cut);
    }
    return r;
}

int tool_read_sandbox_file(struct tool_call *call, const json_t *input, json_t **out,
                           struct err *err)
{
    const struct tree_plan plan = {
        .files_max = number_of(input, "max_files"),
        .bytes_max = (size_t)number_of(input, "max_bytes"),
        .hidden = json_is_true(json_object_get(input, "include_hidden")),
    };
    scoped_json *entry = NULL;
    struct remote_sandbox sandbox;

    int r = remote_connect_input(call, input, &sandbox, err);
    r = r == 0 ? stat_path(call, &sandbox, json_string_of(input, "path"), &entry, err) : r;
    if (r < 0) {
        return r;
    }
    scoped_json *reply = reply_new(&sandbox);
    (void)json_object_set(reply, "path", json_object_get(entry, "path"));
    r = entry_is_directory(entry)
            ? tree_read(call, &sandbox, json_string_of(entry, "path"), &plan, reply, err)
            : read_file(call, &sandbox, entry, plan.bytes_max, reply, err);
    if (r == 0) {
        *out = move_ptr(&reply);
    }
    return r;
}

/* ---- write_sandbox_file ---- */

/* "755", "0755" or 755: the digits are what counts. */
static int mode_parse(const json_t *mode, char out[MODE_BYTES], struct err *err)
{
    if (json_is_integer(mode)) {
        (void)snprintf(out, MODE_BYTES, "%03lld", (long long)json_integer_value(mode));
    } else {
        (void)snprintf(out, MODE_BYTES, "%s", mode ? json_string_value(mode) : "");
    }
    if (strspn(out, "01234567") != strlen(out) || strlen(out) > MODE_DIGITS_MAX) {
        return err_set(err, EINVAL, "mode: must be octal digits, for example \"755\"");
    }
    return 0;
}

static int set_mode(struct tool_call *call, const struct remote_sandbox *sandbox, const char *path,
                    const char *mode, struct err *err)
{
    scoped_json *env = json_pack("{ss ss}", "FILE", path, "MODE", mode);
    const struct remote_command command = {
        .script = "cd && chmod -- \"$MODE\" \"$FILE\"", .env = env, .timeout_ms = CHMOD_LIMIT_MS};
    scoped_remote_result result = {0};

    int r = remote_run(call, sandbox, &command, &result, err);
    if (r == 0 && result.exit_code != 0) {
        r = err_set(err, EPERM, "the file was written, but its mode was not set: %.*s",
                    (int)buf_len(&result.err), buf_at(&result.err));
    }
    return r;
}

/* The bytes to write: *data, which lies in the input or in `decoded`. */
static int content_take(const json_t *input, struct buf *decoded, struct str *data, struct err *err)
{
    const json_t *content = json_object_get(input, "content");
    struct str text = {json_string_value(content), json_string_length(content)};

    *data = text;
    if (strcmp(json_string_of(input, "encoding"), "base64") == 0) {
        if (base64_decode(decoded, text) < 0) {
            return err_set(err, EINVAL, "content: is not base64");
        }
        *data = buf_str(decoded);
    }
    if (data->len > REMOTE_FILE_BYTES_MAX) {
        return err_set(err, EMSGSIZE, "content: is larger than %d bytes", REMOTE_FILE_BYTES_MAX);
    }
    return 0;
}

static int write_whole(struct tool_call *call, const struct remote_sandbox *sandbox,
                       const json_t *input, struct str data, const char *mode, struct err *err)
{
    const char *path = json_string_of(input, "path");
    int r = remote_write(call, sandbox, path, data, err);

    return r == 0 && mode[0] ? set_mode(call, sandbox, path, mode, err) : r;
}

int tool_write_sandbox_file(struct tool_call *call, const json_t *input, json_t **out,
                            struct err *err)
{
    scoped_json *entry = NULL;
    char mode[MODE_BYTES];
    scoped_buf(decoded, TOOLS_BODY_BYTES_MAX);
    struct str data;
    struct remote_sandbox sandbox;

    int r = mode_parse(json_object_get(input, "mode"), mode, err);
    r = r == 0 ? content_take(input, &decoded, &data, err) : r;
    r = r == 0 ? remote_connect_input(call, input, &sandbox, err) : r;
    r = r == 0 ? write_whole(call, &sandbox, input, data, mode, err) : r;
    r = r == 0 ? stat_path(call, &sandbox, json_string_of(input, "path"), &entry, err) : r;
    if (r < 0) {
        return r;
    }
    (void)snprintf(mode, sizeof(mode), "%03llo", (unsigned long long)number_of(entry, "mode"));
    *out = reply_new(&sandbox);
    (void)json_object_set(*out, "path", json_object_get(entry, "path"));
    (void)json_object_set_new(*out, "bytes", json_integer((json_int_t)data.len));
    (void)json_object_set_new(*out, "mode", json_string(mode));
    return 0;
}
