#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/id.h"
#include "lib/base/log.h"
#include "probe.h"

enum {
    CONNECT_TRIES = 1000, /* of 10 ms: the first start makes a filesystem */
    ANSWER_TIMEOUT_MS = 60 * 1000,
};

#define MUST(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "rig: %s:%d: %s: %s\n", __FILE__, __LINE__, #cond, strerror(errno));   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static const char *const hierarchies[] = {
    "/sys/fs/cgroup",        "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu",
    "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids",
};

/* ---- the keeper ---- */

static int keeper_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    for (int i = 0; i < CONNECT_TRIES; i++) {
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
            return fd;
        }
        (void)poll(NULL, 0, 10);
    }
    (void)close(fd);
    return -1;
}

void rig_keeper_start(struct rig *rig)
{
    (void)fflush(stdout);
    rig->keeper = fork();
    MUST(rig->keeper >= 0);
    if (rig->keeper == 0) {
        const struct keeper_options options = {
            .lock_fd = -1,
            .task_timeout_ms = rig->task_timeout_ms,
            .socket_path = rig->socket,
            .pool_path = rig->pool,
            .agent_path = rig->agent,
            .instance = rig->instance,
            .bpf_figures = true,
            .workers = rig->workers ? rig->workers : RIG_WORKERS,
            .share_memory = true,
            .share_memory_idle_s = 600,
        };
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* a test that aborts leaves no keeper */
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
        (void)close_range(STDERR_FILENO + 1, ~0U, 0); /* a program started afresh has none either */
        log_init("keeper", LOG_INFO);
        _exit(keeper_main(&options));
    }
    rig->fd = keeper_connect(rig->socket);
    MUST(rig->fd >= 0);
}

static void keeper_stop(struct rig *rig, int sig)
{
    int status;

    (void)kill(rig->keeper, sig);
    MUST(waitpid(rig->keeper, &status, 0) == rig->keeper);
    (void)close(rig->fd);
}

void rig_keeper_kill(struct rig *rig)
{
    keeper_stop(rig, SIGKILL);
    (void)unlink(rig->socket);
}

/* ---- the rig ---- */

void rig_open(struct rig *rig, const char *agent)
{
    *rig = (struct rig){.dir = "/tmp/atoll-rig.XXXXXX", .agent = agent};
    MUST(mkdtemp(rig->dir));
    (void)snprintf(rig->pool, sizeof(rig->pool), "%s/pool", rig->dir);
    (void)snprintf(rig->socket, sizeof(rig->socket), "%s/keeper.sock", rig->dir);
    (void)snprintf(rig->instance, sizeof(rig->instance), "%s", "test-");
    id_alnum(rig->instance + 5, 8);
    rig_keeper_start(rig);
}

static void all_destroy(struct rig *rig)
{
    struct keeper_request list = {.op = KEEPER_LIST};

    for (int i = 0; i < 1000; i++) {
        struct keeper_answer answer = rig_ask(rig, &list, NULL);
        if (answer.status < 0) {
            return;
        }
        (void)rig_destroy(rig, answer.id);
    }
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void rig_close(struct rig *rig)
{
    all_destroy(rig);
    keeper_stop(rig, SIGTERM);
    (void)umount2(rig->pool, MNT_DETACH);
    (void)nftw(rig->dir, entry_remove, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void file_make(const struct rig *rig, const char *layer, const char *name, const char *text)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/layers/%s/etc/%s", rig->pool, layer, name);
    FILE *file = fopen(path, "we");
    MUST(file);
    fputs(text, file);
    fclose(file);
}

void rig_layer(struct rig *rig, const char *name)
{
    static const char *const dirs[] = {"",     "/dev", "/proc", "/sys", "/run",
                                       "/etc", "/tmp", "/root", "/opt", "/opt/old"};
    char path[160];

    for (size_t i = 0; i < countof(dirs); i++) {
        (void)snprintf(path, sizeof(path), "%s/layers/%s%s", rig->pool, name, dirs[i]);
        MUST(mkdir(path, 0755) == 0);
    }
    file_make(rig, name, "hosts", "127.0.0.1 localhost\n");
    file_make(rig, name, "hostname", "a-name-that-is-longer-than-that-of-a-jail\n");
}

/* ---- asking ---- */

struct keeper_request rig_create_request(const char *id, uint32_t slot, const char *layer)
{
    struct keeper_request req = {
        .op = KEEPER_CREATE,
        .plan = {.uid_slot = slot,
                 .cpu_millis = 1000,
                 .memory_mb = 128,
                 .disk_mb = 64,
                 .pids = 64,
                 .layers_n = 1,
                 .hostname = "jail.test"},
    };

    (void)snprintf(req.id, sizeof(req.id), "%s", id);
    (void)snprintf(req.plan.layers[0], sizeof(req.plan.layers[0]), "%s", layer);
    return req;
}

struct rig rig_beside(const struct rig *rig)
{
    struct rig beside = *rig;

    beside.fd = keeper_connect(rig->socket);
    MUST(beside.fd >= 0);
    return beside;
}

void rig_send(struct rig *rig, struct keeper_request *req)
{
    req->version = KEEPER_VERSION;
    req->seq = ++rig->seq;
    MUST(send(rig->fd, req, sizeof(*req), MSG_NOSIGNAL) == (ssize_t)sizeof(*req));
}

struct keeper_answer rig_receive(struct rig *rig, int fds[KEEPER_FDS_MAX])
{
    struct keeper_answer answer;
    struct iovec iov = {&answer, sizeof(answer)};
    struct pollfd ready = {.fd = rig->fd, .events = POLLIN};
    int got[KEEPER_FDS_MAX];

    MUST(poll(&ready, 1, ANSWER_TIMEOUT_MS) == 1);
    MUST(fdpass_receive(rig->fd, &iov, 1, got, KEEPER_FDS_MAX, 0) == (ssize_t)sizeof(answer));
    MUST(answer.seq == rig->seq);
    if (fds) {
        memcpy(fds, got, sizeof(got));
    } else {
        fdpass_close(got, KEEPER_FDS_MAX);
    }
    return answer;
}

struct keeper_answer rig_ask(struct rig *rig, struct keeper_request *req, int fds[KEEPER_FDS_MAX])
{
    rig_send(rig, req);
    return rig_receive(rig, fds);
}

struct keeper_answer rig_create(struct rig *rig, struct keeper_request *req, struct rig_jail *out)
{
    int fds[KEEPER_FDS_MAX];
    struct keeper_answer answer = rig_ask(rig, req, fds);

    if (answer.status < 0) {
        printf("# create: %s\n", answer.err.msg);
    } else {
        (void)snprintf(out->id, sizeof(out->id), "%s", req->id);
        out->name = answer.jail;
        out->pidfd = fds[KEEPER_FD_PIDFD];
        out->channel = fds[KEEPER_FD_CHANNEL];
        fdpass_close(fds + KEEPER_FD_SOCKET, KEEPER_FDS_MAX - KEEPER_FD_SOCKET);
        (void)fcntl(out->channel, F_SETFL, 0); /* blocking: tests have one thing to do */
    }
    return answer;
}

struct keeper_answer rig_destroy(struct rig *rig, const char *id)
{
    struct keeper_request req = {.op = KEEPER_DESTROY};

    (void)snprintf(req.id, sizeof(req.id), "%s", id);
    return rig_ask(rig, &req, NULL);
}

void rig_jail_close(struct rig_jail *jail)
{
    (void)close(jail->pidfd);
    (void)close(jail->channel);
}

void rig_end(struct rig *rig, struct rig_jail *jail)
{
    CHECK_INT(rig_destroy(rig, jail->id).status, 0);
    rig_jail_close(jail);
}

const char *rig_probe(const struct rig_jail *jail, const char *command)
{
    static char text[PROBE_BYTES];
    struct pollfd ready = {.fd = jail->channel, .events = POLLIN};

    if (send(jail->channel, command, strlen(command), MSG_NOSIGNAL) < 0 ||
        poll(&ready, 1, ANSWER_TIMEOUT_MS) != 1) {
        return "no answer";
    }
    ssize_t n = recv(jail->channel, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? text : "no answer";
}

bool rig_says(const struct rig_jail *jail, const char *command, const char *part)
{
    const char *text = rig_probe(jail, command);
    bool found = strstr(text, part) != NULL;

    if (!found) {
        printf("# '%s' says '%.400s', want '%s'\n", command, text, part);
    }
    return found;
}

/* ---- from outside ---- */

const char *rig_host_read(const char *path)
{
    static char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    (void)close(fd);
    return text;
}

const char *rig_host_read_proc(int pid, const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    return rig_host_read(path);
}

void rig_layer_path(const struct rig *rig, const char *layer, const char *path, char out[128])
{
    (void)snprintf(out, 128, "%s/layers/%s/%s", rig->pool, layer, path);
}

bool rig_trace_left(const struct rig *rig, const char *id)
{
    char path[256];
    bool left = false;

    for (size_t i = 0; i < countof(hierarchies); i++) {
        (void)snprintf(path, sizeof(path), "%s/atoll-%s/%s", hierarchies[i], rig->instance, id);
        left = left || access(path, F_OK) == 0;
    }
    (void)snprintf(path, sizeof(path), "%s/sandboxes/%s", rig->pool, id);
    return left || access(path, F_OK) == 0;
}

struct keeper_answer rig_save(struct rig *rig, const char *id, const char *name, uint32_t flags)
{
    struct keeper_request req = {.op = KEEPER_SAVE, .save = {.flags = flags}};

    (void)snprintf(req.id, sizeof(req.id), "%s", id);
    (void)snprintf(req.save.name, sizeof(req.save.name), "%s", name);
    struct keeper_answer answer = rig_ask(rig, &req, NULL);
    if (answer.status < 0) {
        printf("# save: %s\n", answer.err.msg);
    }
    return answer;
}

struct keeper_answer rig_forget(struct rig *rig, const char *name)
{
    struct keeper_request req = {.op = KEEPER_FORGET};

    (void)snprintf(req.save.name, sizeof(req.save.name), "%s", name);
    return rig_ask(rig, &req, NULL);
}

void rig_hang_up(struct rig_jail *jail)
{
    char byte;

    (void)shutdown(jail->channel, SHUT_WR);
    (void)!recv(jail->channel, &byte, 1, 0);
    (void)close(jail->channel);
    jail->channel = -1;
}

/* ---- a program of tests ---- */

int rig_main(struct rig *rig, int argc, char **argv, bool (*begin)(void),
             const struct check_test *tests, size_t n)
{
    if (argc < 2 || geteuid() != 0) {
        printf("1..0 # SKIP needs root, and the probe's path as its argument\n");
        return 0;
    }
    rig_open(rig, argv[1]);
    rig_layer(rig, "base");
    int code = !begin || begin() ? check_run(tests, n) : 1;
    rig_close(rig);
    return code;
}
