#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/call.h"
#include "cli/cli.h"
#include "cli/tame.h"

enum { HEAD_BYTES = 4096, ANSWER_BYTES = 4096 };

void endpoint_escape(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 4 < size; text++) {
        if (isalnum((unsigned char)*text) || strchr("-_.~", *text)) {
            out[n++] = *text;
        } else {
            n += (size_t)snprintf(out + n, size - n, "%%%02X", (unsigned char)*text);
        }
    }
    out[n] = '\0';
}

static int head_send(int fd, const char *url, int64_t bytes, struct err *err)
{
    char head[HEAD_BYTES];
    const char *authority = url + strlen("http://"), *path = strchr(authority, '/');
    int n = snprintf(head, sizeof(head),
                     "PUT %s HTTP/1.1\r\nhost: %.*s\r\ncontent-type: application/octet-stream\r\n"
                     "content-length: %lld\r\nconnection: close\r\n\r\n",
                     path ? path : "/", (int)strcspn(authority, "/"), authority, (long long)bytes);

    if (n >= (int)sizeof(head)) {
        return err_set(err, EINVAL, "the daemon named an address that is too long");
    }
    return send(fd, head, (size_t)n, MSG_NOSIGNAL) == n ? 0 : err_sys(err, "ask for an upload");
}

/* A refusal may come before all was sent: then sending fails, and the answer says why. */
static int answer_read(int fd, struct err *err)
{
    char text[ANSWER_BYTES];
    size_t len = 0;
    ssize_t n;
    long status = 0;

    while (len < sizeof(text) - 1 && (n = recv(fd, text + len, sizeof(text) - 1 - len, 0)) > 0) {
        len += (size_t)n;
    }
    text[len] = '\0';
    if (str_starts(str_of(text), STR("HTTP/1.1 "))) {
        status = strtol(text + strlen("HTTP/1.1 "), NULL, 10);
    }
    if (status == 0) {
        return err_set(err, EIO, "the daemon broke off the upload");
    }
    if (status / 100 == 2) {
        return 0;
    }
    const char *body = strstr(text, "\r\n\r\n");
    json_t *json = body ? tame_json(json_loads(body + 4, 0, NULL)) : NULL;
    const char *message = json_string_of(json, "message");
    (void)err_set(err, EPROTO, "%s (status %ld)", message ? message : "the upload was refused",
                  status);
    json_decref(json);
    return -EPROTO;
}

int endpoint_upload(const struct endpoint *endpoint, const char *url, int fd, int64_t bytes,
                    struct err *err)
{
    if (!str_starts(str_of(url), STR("http://"))) {
        return err_set(err, EINVAL, "the daemon named an address that is not http://");
    }
    scoped_fd out = endpoint_dial(endpoint, err);
    if (out < 0) {
        return out;
    }
    int r = head_send(out, url, bytes, err);
    while (r == 0 && bytes > 0) {
        ssize_t n = sendfile(out, fd, NULL, (size_t)bytes);
        if (n <= 0) {
            break;
        }
        bytes -= n;
    }
    return r < 0 ? r : answer_read(out, err);
}
