#include "peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(const char *const argv[])
{
    int status = -1;
    pid_t pid = fork();

    if (pid < 0) {
        return -1;
    }
    if (pid == 0) {
        union { /* execvp() takes what it never changes without const */
            const char *const *in;
            char *const *out;
        } args = {argv};
        /* Not /dev/null: crun gives its container's root whatever it finds at 0, 1 and 2. */
        int sink = memfd_create("sink", 0);
        (void)dup2(sink, 0);
        (void)dup2(sink, 1);
        (void)dup2(sink, 2);
        execvp(argv[0], args.out);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "bench: %s failed with status %#x\n", argv[0], (unsigned)status);
        return -1;
    }
    return 0;
}

int peer_fork_exec(const char *program)
{
    return run((const char *const[]){program, NULL});
}

int peer_bwrap(const char *rootfs)
{
    return run((const char *const[]){"bwrap", "--unshare-all", "--ro-bind", rootfs, "/", "--proc",
                                     "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run",
                                     "--", "/bin/true", NULL});
}

int peer_crun(const char *bundle)
{
    static unsigned count;
    char name[64];

    (void)snprintf(name, sizeof(name), "atoll-bench-%d-%u", (int)getpid(), count++);
    return run((const char *const[]){"crun", "--cgroup-manager=disabled", "run", "--bundle", bundle,
                                     name, NULL});
}

int peer_read(const char *command, size_t bytes)
{
    static char piece[256 * 1024];
    size_t all = 0;
    FILE *f = popen(command, "re");

    if (!f) {
        return -1;
    }
    for (size_t n; (n = fread(piece, 1, sizeof(piece), f)) > 0;) {
        all += n;
    }
    return pclose(f) == 0 && all == bytes ? 0 : -1;
}

int peer_crun_bundle(const char *bundle, const char *rootfs)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/config.json", bundle);
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
        rootfs);
    return fclose(f) == 0 && n > 0 ? 0 : -1;
}
