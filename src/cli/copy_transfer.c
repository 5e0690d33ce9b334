/* copy_transfer.c - the bytes of one file over HTTP, in either direction. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/call.h"
#include "cli/copy.h"
#include "cli/remote.h"
#include "lib/base/buf.h"
#include "lib/base/encode.h"

enum {
    REFUSAL_BYTES_MAX = 64 * 1024,
    DRAIN_BYTES_MAX = 4 * 1024 * 1024, /* tar fills its last block with zeros */
};

struct transferring {
    struct copy *copy;
    CURL *easy;
    int fd;
    int error; /* of fd; 0: none */
    struct buf refusal;
};

int copy_drain(const struct copy *copy, int in, struct err *err)
{
    char chunk[16 * 1024];
    ssize_t n;

    for (size_t all = 0; (n = read(in, chunk, sizeof(chunk))) > 0; all += (size_t)n) {
        if (all > DRAIN_BYTES_MAX) {
            return err_set(err, EPROTO, "the stream goes on after its end");
        }
    }
    return n < 0 || atomic_load(&copy->spoilt) ? err_set(err, EIO, "the source broke off") : 0;
}

int transfer_path(char *out, size_t size, const char *route, const char *path, const char *more,
                  struct err *err)
{
    scoped_buf(text, LINK_PATH_BYTES);

    if (buf_printf(&text, "%s?path=", route) < 0 || percent_encode(&text, str_of(path)) < 0 ||
        buf_printf(&text, "%s", more) < 0 || !str_copy(out, size, buf_str(&text))) {
        return err_set(err, ENAMETOOLONG, "the path %.60s... is too long", path);
    }
    return 0;
}

static int on_progress(void *ctx, curl_off_t in_all, curl_off_t in, curl_off_t out_all,
                       curl_off_t out)
{
    const struct transferring *t = ctx;

    (void)in_all, (void)in, (void)out_all, (void)out;
    return atomic_load(&t->copy->cancelled) ? 1 : 0;
}

static size_t on_content(char *data, size_t size, size_t n, void *ctx)
{
    struct transferring *t = ctx;
    long status = 0;
    size_t len = size * n;

    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status / 100 != 2) {
        return buf_append(&t->refusal, data, len) < 0 ? 0 : len;
    }
    t->error = remote_write(t->fd, (struct str){data, len});
    atomic_fetch_add(&t->copy->moved, (long long)len);
    return t->error < 0 ? 0 : len;
}

/* A stream that was cut must not look like a file that has ended: the connection breaks too. */
static size_t on_read(char *into, size_t size, size_t n, void *ctx)
{
    struct transferring *t = ctx;
    ssize_t got = read(t->fd, into, size * n);

    if (got < 0 || (got == 0 && atomic_load(&t->copy->spoilt))) {
        t->error = got < 0 ? -errno : -EIO;
        return CURL_READFUNC_ABORT;
    }
    atomic_fetch_add(&t->copy->moved, (long long)got);
    return (size_t)got;
}

static size_t on_answer(char *data, size_t size, size_t n, void *ctx)
{
    struct transferring *t = ctx;

    return buf_append(&t->refusal, data, size * n) < 0 ? 0 : size * n;
}

/* performed: the result of endpoint_perform(), which has filled *err. */
static int outcome(const struct transferring *t, int performed, long status, struct err *err)
{
    if (atomic_load(&t->copy->cancelled)) {
        return err_set(err, EINTR, "interrupted");
    }
    if (status >= 300) { /* it may come before all was sent */
        return link_refusal(buf_str(&t->refusal), status, err);
    }
    if (t->error < 0) {
        return err_code(err, -t->error, "pass on the bytes of a file");
    }
    return performed;
}

static int perform(struct transferring *t, const struct endpoint *endpoint, struct err *err)
{
    long status = 0;

    buf_init(&t->refusal, REFUSAL_BYTES_MAX);
    (void)curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(t->easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(t->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(t->easy, CURLOPT_XFERINFODATA, t);
    int performed = endpoint_perform(endpoint, t->easy, &status, err);
    int r = outcome(t, performed, status, err);
    buf_fini(&t->refusal);
    return r;
}

int transfer_get(struct copy *copy, CURL *easy, int out, struct err *err)
{
    struct transferring t = {.copy = copy, .easy = easy, .fd = out};

    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_content);
    return perform(&t, &copy->from->link.endpoint, err);
}

int transfer_put(struct copy *copy, CURL *easy, int in, struct err *err)
{
    struct transferring t = {.copy = copy, .easy = easy, .fd = in};

    (void)curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    (void)curl_easy_setopt(easy, CURLOPT_READDATA, &t);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
    return perform(&t, &copy->to->link.endpoint, err);
}
