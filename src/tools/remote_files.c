#include <errno.h>

#include "lib/base/encode.h"
#include "lib/base/fiber.h"
#include "tools/internal.h"
#include "tools/remote_internal.h"

/* "/files?path=..." */
static int files_target(const char *path, struct buf *out, struct err *err)
{
    if (buf_printf(out, "/files?path=") < 0 || percent_encode(out, str_of(path)) < 0 ||
        buf_append(out, "", 1) < 0) {
        return err_set(err, EINVAL, "path: is too long");
    }
    return 0;
}

/* Up to max bytes; 1 when more was there. */
static int read_up_to(struct ask *ask, size_t max, struct buf *out, struct err *err)
{
    struct str piece;
    int r;

    while ((r = ask_read(ask, &piece, err)) > 0) {
        size_t room = max - buf_len(out);
        size_t n = piece.len < room ? piece.len : room;

        if (buf_append(out, piece.at, n) < 0) {
            return err_set(err, EMSGSIZE, "the file is larger than %zu bytes", out->max);
        }
        if (n < piece.len) {
            return 1;
        }
    }
    return r;
}

int remote_read(struct tool_call *call, const struct remote_sandbox *sandbox, const char *path,
                size_t max, struct buf *out, bool *cut, struct err *err)
{
    struct remote_headers headers;
    scoped_buf(target, REMOTE_TARGET_BYTES_MAX);
    scoped_ask *ask = NULL;

    int r = files_target(path, &target, err);
    if (r < 0) {
        return r;
    }
    remote_headers(&headers, sandbox, REMOTE_AGENT_PORT);
    const struct ask_plan plan = {
        .method = "GET", .target = buf_at(&target), .headers = headers.at, .headers_n = headers.n};
    r = ask_open(call->tools, &plan, &ask, err);
    if (r == 0 && ask_status(ask) != 200) {
        return remote_refused(ask, "the file cannot be read", err);
    }
    r = r == 0 ? read_up_to(ask, max, out, err) : r;
    if (r >= 0) {
        *cut = r > 0;
    }
    return r < 0 ? r : 0;
}

int remote_write(struct tool_call *call, const struct remote_sandbox *sandbox, const char *path,
                 struct str data, struct err *err)
{
    struct remote_headers headers;
    scoped_buf(target, REMOTE_TARGET_BYTES_MAX);
    scoped_ask *ask = NULL;

    int r = files_target(path, &target, err);
    if (r < 0) {
        return r;
    }
    remote_headers(&headers, sandbox, REMOTE_AGENT_PORT);
    remote_header(&headers, "content-type", "application/octet-stream");
    const struct ask_plan plan = {.method = "POST",
                                  .target = buf_at(&target),
                                  .headers = headers.at,
                                  .headers_n = headers.n,
                                  .body = data};
    r = ask_open(call->tools, &plan, &ask, err);
    return r == 0 && ask_status(ask) != 200 ? remote_refused(ask, "the file cannot be written", err)
                                            : r;
}
