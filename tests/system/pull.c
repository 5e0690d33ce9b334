/* pull.c - resolves one image as the daemon does, with directories in place of jails.
 *
 *   pull AGENT STATE SAVED IMAGE [KEY=VALUE ...]
 *
 * AGENT is the program that unpacks, STATE where blobs go, SAVED a directory that stands for the
 * keeper's saved disks. Keys: user, password, mirror, local (a directory), plain (1), cancel (after
 * so many milliseconds). Prints every line of progress, and at the end one JSON object. Root. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inside/unpack/unpack.h"
#include "lib/base/alloc.h"
#include "lib/base/compiler.h"
#include "serve/template/image/image.h"

enum { PATH_BYTES = 1024 };

struct image_jail {
    char path[PATH_BYTES];
};

static const char *agent, *saved_dir;
static struct image_store *store;
static int exit_code = 1;

static int command(const char *program, const char *a, const char *b, const char *c)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        (void)execlp(program, program, a, b, c, (char *)NULL);
        _exit(127);
    }
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -EIO;
}

static bool jail_has(void *ctx, const char *saved)
{
    char path[PATH_BYTES];

    (void)ctx;
    (void)snprintf(path, sizeof(path), "%s/%s", saved_dir, saved);
    return access(path, F_OK) == 0;
}

static void jail_open(void *ctx, const char *from,
                      void (*done)(void *arg, struct image_jail *jail, const struct err *err),
                      void *arg)
{
    struct image_jail *jail = xnew(struct image_jail);
    char source[PATH_BYTES];
    struct err err;

    (void)ctx;
    (void)snprintf(jail->path, sizeof(jail->path), "%s/.jail-%d", saved_dir, getpid());
    (void)snprintf(source, sizeof(source), "%s/%s", saved_dir, from ? from : "");
    int r = from ? command("cp", "-aT", source, jail->path)
                 : command("mkdir", "-p", "-m755", jail->path);
    if (r < 0) {
        (void)err_set(&err, EIO, "make a directory to unpack in");
        free(jail);
        jail = NULL;
    }
    done(arg, jail, &err);
}

static void jail_dial(struct image_jail *jail, void (*done)(void *arg, int fd_or_error), void *arg)
{
    int fds[2], program = open(agent, O_RDONLY | O_CLOEXEC);
    char name[] = UNPACK_PROGRAM;
    char *argv[] = {name, NULL}, *envp[] = {NULL};

    if (program < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        done(arg, -errno);
        return;
    }
    if (fork() == 0) {
        if (dup2(fds[1], STDIN_FILENO) == 0 && chroot(jail->path) == 0 && chdir("/") == 0) {
            (void)fexecve(program, argv, envp);
        }
        _exit(127);
    }
    (void)close(program);
    (void)close(fds[1]);
    done(arg, fds[0]);
}

static void jail_save(struct image_jail *jail, const char *name,
                      void (*done)(void *arg, int error, const struct err *err), void *arg)
{
    char path[PATH_BYTES];
    struct err err = {0};

    (void)snprintf(path, sizeof(path), "%s/%s", saved_dir, name);
    done(arg, command("cp", "-aT", jail->path, path), &err);
}

static void jail_close(struct image_jail *jail)
{
    (void)command("rm", "-rf", "--", jail->path);
    free(jail);
}

static void on_line(void *ctx, const char *text)
{
    (void)ctx;
    (void)printf("%s\n", text);
    (void)fflush(stdout);
}

static void print_json(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);

    (void)printf("%s\n", text);
    free(text);
    json_decref(json);
}

static void on_done(void *ctx, const struct image_result *result, const struct err *err)
{
    struct image_resolve **resolve = ctx;

    *resolve = NULL;
    if (!result) {
        print_json(json_pack("{ss}", "error", err->msg));
    } else {
        const struct image_config *c = &result->config;
        exit_code = 0;
        print_json(json_pack("{ss ss sO ss ss sO sO}", "saved", result->saved, "digest",
                             result->digest, "env", c->env, "user", c->user, "workdir", c->workdir,
                             "entrypoint", c->entrypoint, "cmd", c->cmd));
    }
    image_store_free(move_ptr(&store));
}

static void on_cancel(uv_timer_t *timer)
{
    struct image_resolve **resolve = timer->data;

    if (*resolve) {
        image_cancel(move_ptr(resolve));
        print_json(json_pack("{ss}", "error", "cancelled"));
        image_store_free(move_ptr(&store));
    }
    uv_close((uv_handle_t *)timer, NULL);
}

static const char *value_of(int argc, char **argv, const char *key)
{
    size_t n = strlen(key);

    for (int i = 5; i < argc; i++) {
        if (strncmp(argv[i], key, n) == 0 && argv[i][n] == '=') {
            return argv[i] + n + 1;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct image_handler handler = {.line = on_line, .done = on_done};
    const struct image_jails jails = {.has = jail_has,
                                      .open = jail_open,
                                      .dial = jail_dial,
                                      .save = jail_save,
                                      .close = jail_close};
    struct image_resolve *resolve = NULL;
    uv_timer_t timer;
    struct err err;

    if (argc < 5) {
        (void)fprintf(stderr, "usage: pull AGENT STATE SAVED IMAGE [KEY=VALUE ...]\n");
        return 2;
    }
    agent = argv[1];
    saved_dir = argv[3];
    const struct image_options options = {.loop = uv_default_loop(),
                                          .state = argv[2],
                                          .mirror = value_of(argc, argv, "mirror"),
                                          .local = value_of(argc, argv, "local"),
                                          .plain_http = value_of(argc, argv, "plain") != NULL};
    const struct image_credentials credentials = {.username = value_of(argc, argv, "user"),
                                                  .password = value_of(argc, argv, "password")};
    if (image_store_new(&options, &jails, &store, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return 2;
    }
    resolve = image_resolve(store, argv[4], &credentials, &handler, &resolve);
    const char *cancel_ms = value_of(argc, argv, "cancel");
    if (cancel_ms) {
        (void)uv_timer_init(options.loop, &timer);
        timer.data = &resolve;
        (void)uv_timer_start(&timer, on_cancel, strtoull(cancel_ms, NULL, 10), 0);
    }
    (void)uv_run(options.loop, UV_RUN_DEFAULT);
    return exit_code;
}
