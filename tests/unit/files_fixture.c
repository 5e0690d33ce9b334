#include "files_fixture.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"

/* ---- the server ---- */

struct agent files_agent;
static uv_async_t stop_async;
static uv_sem_t ready;
static uv_thread_t thread;
static int port;
atomic_int files_requests;

static void on_request(void *ctx, struct http_exchange *ex)
{
    atomic_fetch_add(&files_requests, 1);
    if (!files_handle(ctx, ex) && !filesystem_handle(ctx, ex)) {
        http_answer(ex, 404, NULL, NULL, 0);
    }
}

static void on_stopped(void *ctx)
{
    http_server_free(ctx);
}

static void on_stop(uv_async_t *async)
{
    http_server_stop(async->data, 1000, on_stopped, async->data);
    uv_close((uv_handle_t *)async, NULL);
}

static void serve(void *ctx)
{
    uv_loop_t loop;
    struct http_server_options options = {
        .loop = &loop, .on_request = on_request, .ctx = &files_agent};
    struct http_server *server;
    struct err err;

    (void)ctx;
    if (uv_loop_init(&loop) < 0 || http_server_new(&options, &server, &err) < 0 ||
        http_server_listen(server, "127.0.0.1:0", NULL, &err) < 0 ||
        uv_async_init(&loop, &stop_async, on_stop) < 0) {
        abort();
    }
    files_agent.loop = &loop;
    stop_async.data = server;
    port = http_server_port(server);
    uv_sem_post(&ready);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0) {
        abort(); /* something was left open */
    }
}

void server_start(void)
{
    static char user[] = "root";

    files_agent = (struct agent){.default_user = user};
    if (uv_sem_init(&ready, 0) < 0 || uv_thread_create(&thread, serve, NULL) < 0) {
        abort();
    }
    uv_sem_wait(&ready);
}

void server_stop(void)
{
    (void)uv_async_send(&stop_async);
    (void)uv_thread_join(&thread);
    uv_sem_destroy(&ready);
}

/* ---- the client ---- */

void reply_fini(struct reply *reply)
{
    buf_fini(&reply->body);
}

int client_connect(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        abort();
    }
    return fd;
}

bool send_all(int fd, const void *data, size_t len)
{
    for (const char *at = data; len > 0;) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

void receive_all(int fd, struct buf *in)
{
    char *at;
    ssize_t n;

    do {
        if (buf_reserve(in, 65536, &at) < 0) {
            abort();
        }
        n = recv(fd, at, 65536, 0);
        buf_commit(in, n > 0 ? (size_t)n : 0);
    } while (n > 0);
}

static void dechunk(struct buf *in, struct buf *out)
{
    while (buf_len(in) > 0) {
        char *end;
        size_t size = strtoul(buf_at(in), &end, 16);
        buf_consume(in, (size_t)(end + 2 - buf_at(in)));
        if (size == 0 || size > buf_len(in)) {
            return;
        }
        if (buf_append(out, buf_at(in), size) < 0) {
            abort();
        }
        buf_consume(in, size + 2);
    }
}

void reply_parse(struct buf *in, struct reply *out)
{
    char *end = buf_len(in) ? memmem(buf_at(in), buf_len(in), "\r\n\r\n", 4) : NULL;

    *out = (struct reply){0};
    buf_init(&out->body, BODY_MAX);
    if (!end) {
        return; /* status 0: there was no answer */
    }
    size_t head = (size_t)(end - buf_at(in)) + 2;
    if (!str_copy(out->head, sizeof(out->head), (struct str){buf_at(in), head})) {
        abort();
    }
    out->status = atoi(out->head + 9);
    buf_consume(in, head + 2);
    if (strcasestr(out->head, "transfer-encoding: chunked")) {
        dechunk(in, &out->body);
    } else if (buf_append(&out->body, buf_at(in), buf_len(in)) < 0) {
        abort();
    }
}

void ask(struct reply *out, const char *method, const char *head, const void *body, size_t len)
{
    scoped_fd fd = client_connect();
    scoped_buf(text, 65536);
    scoped_buf(in, BODY_MAX);

    if (buf_printf(&text, "%s %sHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                   method, head, len) < 0) {
        abort();
    }
    (void)(send_all(fd, buf_at(&text), buf_len(&text)) && send_all(fd, body, len));
    receive_all(fd, &in);
    reply_parse(&in, out);
}

const char *body_of(const struct reply *reply)
{
    static char text[8192];

    (void)snprintf(text, sizeof(text), "%.*s", (int)buf_len(&reply->body),
                   buf_len(&reply->body) ? buf_at(&reply->body) : "");
    return text;
}

const char *at(const struct tmpdir *dir, const char *name, const char *more)
{
    static char head[4096];

    (void)snprintf(head, sizeof(head), "/files?path=%s/%s HTTP/1.1\r\n%s", dir->path, name, more);
    return head;
}

bool file_is(const struct tmpdir *dir, const char *name, const void *data, size_t len)
{
    scoped_fd fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC);
    struct stat st;
    bool same = false;

    if (fd >= 0 && fstat(fd, &st) == 0 && (size_t)st.st_size == len) {
        char *got = xcalloc(1, len + 1);
        same = read(fd, got, len) == (ssize_t)len && memcmp(got, data, len) == 0;
        free(got);
    }
    return same;
}

void put(const struct tmpdir *dir, const char *name, const char *text, mode_t mode)
{
    scoped_fd fd = openat(dir->fd, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fchmod(fd, mode) < 0) {
        abort();
    }
}

int names_count(const struct tmpdir *dir)
{
    int n = 0;
    FILE *ls;
    char command[128], line[512];

    (void)snprintf(command, sizeof(command), "ls -A %s", dir->path);
    ls = popen(command, "r");
    while (ls && fgets(line, sizeof(line), ls)) {
        n++;
    }
    return ls && pclose(ls) == 0 ? n : -1;
}

char *noise(size_t len)
{
    char *data = xcalloc(1, len);
    uint32_t x = 2463534242U;

    for (size_t i = 0; i < len; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        data[i] = (char)x;
    }
    return data;
}
