#include "keeper/jail/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "keeper/jail/kernel_setting.h"
#include "lib/base/compiler.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"

enum {
    NUMBER_BYTES = 32,
    PIDS_SHARE = 4, /* jails may use all but 1/4 */
};

/* A jail is charged for the memory of its open files and sockets, so they need no limit of their
 * own. systemd sets the same value for files. */
const struct host_limit host_limits[HOST_LIMITS] = {
    {"kernel.pid_max", "/proc/sys/kernel/pid_max", 4194304, "processes and threads"},
    {"fs.file-max", "/proc/sys/fs/file-max", INT64_MAX, "open files"},
    {"net.ipv4.tcp_max_orphans", "/proc/sys/net/ipv4/tcp_max_orphans", 1048576,
     "connections that nobody holds"},
    {"kernel.pty.max", "/proc/sys/kernel/pty/max", 65536, "terminals"},
};

uint64_t host_limit_read(const struct host_limit *limit)
{
    return small_file_number(AT_FDCWD, limit->path);
}

bool host_limit_is_raisable(const struct host_limit *limit)
{
    if (host_limit_read(limit) >= limit->wanted) {
        return true;
    }
    scoped_fd fd = open(limit->path, O_WRONLY | O_CLOEXEC);
    return fd >= 0;
}

static void limit_raise(const struct host_limit *limit)
{
    const uint64_t now = host_limit_read(limit);
    char text[NUMBER_BYTES];

    if (now == 0 || now >= limit->wanted) {
        return;
    }
    (void)snprintf(text, sizeof(text), "%" PRIu64, limit->wanted);
    scoped_fd fd = open(limit->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) {
        log_warn("all sandboxes and the host share %" PRIu64 " %s: %s cannot be raised: %s", now,
                 limit->what, limit->name, strerrordesc_np(errno));
        return;
    }
    log_info("%s raised from %" PRIu64 " to %" PRIu64 ": sandboxes share it with the host",
             limit->name, now, limit->wanted);
}

void host_limits_raise(void)
{
    for (size_t i = 0; i < HOST_LIMITS; i++) {
        limit_raise(&host_limits[i]);
    }
}

void host_pids_limit(int group_fd)
{
    const uint64_t pids = small_file_number(AT_FDCWD, "/proc/sys/kernel/pid_max");
    const uint64_t threads = small_file_number(AT_FDCWD, "/proc/sys/kernel/threads-max");
    const uint64_t most = threads && threads < pids ? threads : pids;
    char text[NUMBER_BYTES];
    struct err err;

    (void)snprintf(text, sizeof(text), "%" PRIu64, most - most / PIDS_SHARE);
    if (most && kernel_setting_write_if(group_fd, "pids.max", text, &err) < 0) {
        log_warn("the processes of all sandboxes together have no limit: %s",
                 strerrordesc_np(err.code));
    }
}

int host_memory(uint64_t *out, struct err *err)
{
    struct sysinfo info;

    if (sysinfo(&info) < 0) {
        return err_sys(err, "ask for the host's memory");
    }
    *out = (uint64_t)info.totalram * info.mem_unit;
    return 0;
}
