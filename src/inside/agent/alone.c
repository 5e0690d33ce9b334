#include "inside/agent/alone.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "inside/agent/process.h"
#include "inside/agent/watchers.h"
#include "inside/stow/stow.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"
#include "lib/base/text.h"
#include "wire/channel.h"

enum { HOSTS_BYTES = 4096 }; /* searched part of /etc/hosts */

/* ---- what processes inherit ---- */

static void inherited_read(struct agent_inherited *out)
{
    memset(out, 0, sizeof(*out)); /* compared as bytes */
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        (void)getrlimit((__rlimit_resource_t)i, &out->limits[i]);
    }
    out->nice = getpriority(PRIO_PROCESS, 0);
    out->policy = sched_getscheduler(0);
}

void alone_begin(struct agent *agent)
{
    inherited_read(&agent->inherited);
}

/* Root of the jail may lower the limits of any process, the agent's too. */
static bool is_as_begun(const struct agent *agent)
{
    struct agent_inherited now;

    inherited_read(&now);
    return memcmp(&now, &agent->inherited, sizeof(now)) == 0;
}

/* ---- what the agent holds ---- */

static bool processes_are_over(const struct processes *table)
{
    const struct process *p;

    DL_FOREACH (table->past, p) {
        if (p->state != PROCESS_ENDED || !p->told || p->readers) {
            return false;
        }
    }
    return !table->running && table->lingering == 0;
}

bool alone_is(const struct agent *agent)
{
    return processes_are_over(agent->processes) && (!agent->watchers || agent->watchers->n == 0) &&
           agent->tunnels_n == 0 && agent->looks == 0 &&
           http_server_figures(agent->server).exchanges == 0 && is_as_begun(agent);
}

uint32_t alone_requests(const struct agent *agent)
{
    return (uint32_t)http_server_figures(agent->server).requests;
}

/* ---- in the copy ---- */

/* A plain file; a link in its place is left alone. */
static int plain_open(const char *path, int flags)
{
    struct stat st;
    scoped_fd fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? move_fd(&fd) : -1;
}

static void hosts_write(const char *name)
{
    char text[HOSTS_BYTES];
    scoped_fd fd = plain_open("/etc/hosts", O_RDWR | O_APPEND);

    if (fd < 0 || small_file_read_fd(fd, text, sizeof(text)) < 0 || strstr(text, name)) {
        return;
    }
    const bool open_line = text[0] && text[strlen(text) - 1] != '\n';
    (void)dprintf(fd, "%s127.0.1.1\t%s\n", open_line ? "\n" : "", name);
}

/* The name that the jail's first process wrote into /etc/hosts and /etc/hostname
 * (keeper/jail/jail_inside.c) is not in the files of the source. */
static void host_name(void)
{
    char name[HOST_NAME_MAX + 1] = "";

    if (gethostname(name, sizeof(name) - 1) < 0 || !name[0]) {
        return;
    }
    hosts_write(name);
    scoped_fd fd = plain_open("/etc/hostname", O_WRONLY);
    if (fd >= 0 && ftruncate(fd, 0) == 0) {
        (void)dprintf(fd, "%s\n", name);
    }
}

/* Its authorities may be others than those that this agent was told to trust before. */
static int disk_take(struct agent *agent, int fd, int root, struct err *err)
{
    int r = stow_read_over(fd, root, err);

    text_set(&agent->ca_bundle, NULL);
    host_name();
    return r;
}

int alone_files_take(struct agent *agent, uint32_t place, int fd, struct err *err)
{
    const char *path = place == CHANNEL_PLACE_RUN ? "/run" : "/";
    scoped_fd dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (dir < 0) {
        return err_sys(err, "open %s", path);
    }
    const mode_t mask = umask(0);
    int r = place == CHANNEL_PLACE_RUN ? stow_read(fd, dir, err) : disk_take(agent, fd, dir, err);
    (void)umask(mask);
    return r;
}
