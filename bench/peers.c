#include "peers.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, NAME_BYTES = 64, HELD_MAX = 10 * 1000 };

#define ALL_NAMESPACES                                                                             \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |     \
     CLONE_NEWCGROUP)

/* ---- processes ---- */

/* In the new process. root NULL: the host's. */
static void become(const char *root, const char *const argv[])
{
    union { /* execvp() takes what it never changes without const */
        const char *const *in;
        char *const *out;
    } args = {argv};
    /* Not /dev/null: crun gives its container's root whatever it finds at 0, 1 and 2. */
    int sink = memfd_create("sink", 0);

    (void)dup2(sink, 0);
    (void)dup2(sink, 1);
    (void)dup2(sink, 2);
    if (!root || (chroot(root) == 0 && chdir("/") == 0)) {
        execvp(argv[0], args.out);
    }
    _exit(127);
}

static int await(pid_t pid, const char *what)
{
    int status = -1;

    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0) {
        fprintf(stderr, "bench: %s failed with status %#x\n", what, (unsigned)status);
        return -1;
    }
    return 0;
}

static int run(const char *root, const char *const argv[])
{
    pid_t pid = fork();

    if (pid == 0) {
        become(root, argv);
    }
    return await(pid, argv[0]);
}

static int run_cloned(const char *root, const char *const argv[])
{
    struct clone_args args = {.flags = ALL_NAMESPACES, .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

    if (pid == 0) {
        become(root, argv);
    }
    return await(pid, "clone3");
}

/* ---- each of them ---- */

static int bare(const struct peers *peers)
{
    return run(peers->rootfs, (const char *const[]){"/bin/true", NULL});
}

static int bash(const struct peers *peers)
{
    return run(peers->rootfs, (const char *const[]){"/bin/bash", "-l", "-c", "echo hello", NULL});
}

static int node(const struct peers *peers)
{
    return run(peers->rootfs, (const char *const[]){"/bin/bash", "-l", "-c", "node -v", NULL});
}

static int cloned(const struct peers *peers)
{
    return run_cloned(peers->rootfs, (const char *const[]){"/bin/true", NULL});
}

static int bwrap(const struct peers *peers)
{
    return run(NULL, (const char *const[]){"bwrap", "--unshare-all", "--ro-bind", peers->rootfs,
                                           "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs",
                                           "/tmp", "--tmpfs", "/run", "--", "/bin/true", NULL});
}

/* crun and runc: state of their own, and no cgroups, which this is not about. */
static int oci(const struct peers *peers, const char *program, const char *option)
{
    static unsigned count;
    char name[NAME_BYTES], state[PATH_BYTES];

    (void)snprintf(name, sizeof(name), "atoll-bench-%d-%u", (int)getpid(), count++);
    (void)snprintf(state, sizeof(state), "%s/%s", peers->scratch, program);
    return run(NULL, (const char *const[]){program, "--root", state, option, "run", "--bundle",
                                           peers->scratch, name, NULL});
}

static int crun(const struct peers *peers)
{
    return oci(peers, "crun", "--cgroup-manager=disabled");
}

static int runc(const struct peers *peers)
{
    return oci(peers, "runc", "--rootless=true");
}

static int podman(const struct peers *peers)
{
    char root[PATH_BYTES], runroot[PATH_BYTES];

    (void)snprintf(root, sizeof(root), "%s/podman", peers->scratch);
    (void)snprintf(runroot, sizeof(runroot), "%s/podman-run", peers->scratch);
    return run(NULL, (const char *const[]){"podman", "--root", root, "--runroot", runroot,
                                           "--cgroup-manager=cgroupfs", "--runtime=crun", "run",
                                           "--rm", "--network=none", "--cgroups=disabled",
                                           "--read-only", "--log-driver=none",
                                           "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
                                           "--rootfs", peers->rootfs, "/bin/true", NULL});
}

static const struct {
    const char *name;
    int (*run)(const struct peers *peers);
} all[] = {
    {"bare", bare},   {"bash", bash}, {"node", node}, {"clone", cloned},
    {"bwrap", bwrap}, {"crun", crun}, {"runc", runc}, {"podman", podman},
};

int peer_run(const struct peers *peers, const char *name)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i].name, name) == 0) {
            return all[i].run(peers);
        }
    }
    fprintf(stderr, "bench: there is no peer '%s'\n", name);
    return -1;
}

/* ---- processes that sleep ---- */

static pid_t held[HELD_MAX];
static int held_n;

static uint64_t flags_of(const char *kind)
{
    return strcmp(kind, "net") == 0 ? CLONE_NEWNET : strcmp(kind, "all") == 0 ? ALL_NAMESPACES : 0;
}

int peers_hold(const char *kind, int n)
{
    struct clone_args args = {.flags = flags_of(kind), .exit_signal = SIGCHLD};

    while (n-- > 0 && held_n < HELD_MAX) {
        pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
        if (pid < 0) {
            fprintf(stderr, "bench: clone3: %s\n", strerror(errno));
            return -1;
        }
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) {
                (void)pause();
            }
        }
        held[held_n++] = pid;
    }
    return 0;
}

void peers_release(void)
{
    for (int i = 0; i < held_n; i++) {
        (void)kill(held[i], SIGKILL);
    }
    while (held_n > 0) {
        (void)waitpid(held[--held_n], NULL, 0);
    }
}

int peer_read(const char *command, size_t bytes)
{
    static char piece[256 * 1024];
    size_t sum = 0;
    FILE *f = popen(command, "re");

    if (!f) {
        return -1;
    }
    for (size_t n; (n = fread(piece, 1, sizeof(piece), f)) > 0;) {
        sum += n;
    }
    return pclose(f) == 0 && sum == bytes ? 0 : -1;
}

int peers_prepare(const struct peers *peers)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s/config.json", peers->scratch);
    FILE *f = fopen(path, "we");
    if (!f) {
        return -1;
    }
    int n = fprintf(
        f,
        "{\"ociVersion\":\"1.0.2\",\"process\":{\"terminal\":false,\"user\":{\"uid\":0,\"gid\":0},"
        "\"args\":[\"/bin/true\"],\"env\":[\"PATH=/usr/bin:/bin\"],\"cwd\":\"/\"},"
        "\"root\":{\"path\":\"%s\",\"readonly\":true},\"hostname\":\"bench\",\"mounts\":["
        "{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
        "{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\",\"options\":[\"nosuid\","
        "\"mode=755\"]},{\"destination\":\"/tmp\",\"type\":\"tmpfs\",\"source\":\"tmpfs\"}],"
        "\"linux\":{\"uidMappings\":[{\"containerID\":0,\"hostID\":1000000,\"size\":65536}],"
        "\"gidMappings\":[{\"containerID\":0,\"hostID\":1000000,\"size\":65536}],"
        "\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"mount\"},{\"type\":\"ipc\"},{\"type\":"
        "\"uts\"},{\"type\":\"network\"},{\"type\":\"user\"}]}}\n",
        peers->rootfs);
    return fclose(f) == 0 && n > 0 ? 0 : -1;
}
