/* Counts of the whole machine, and whose they are when a jail uses them. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "rig.h"

static struct rig rig;
static struct rig_jail one;

/* Lowered first, so that a keeper has something to do; to what any machine can do with. */
static void limits_of_the_whole_host_are_raised(void)
{
    static const char *const knobs[][3] = {
        {"/proc/sys/kernel/pid_max", "65536", "4194304\n"},
        {"/proc/sys/fs/file-max", "1000000", "9223372036854775807\n"},
        {"/proc/sys/net/ipv4/tcp_max_orphans", "65536", "1048576\n"},
        {"/proc/sys/kernel/pty/max", "4096", "65536\n"},
    };

    for (size_t i = 0; i < countof(knobs); i++) {
        int fd = open(knobs[i][0], O_WRONLY | O_CLOEXEC);
        CHECK(fd >= 0 && write(fd, knobs[i][1], strlen(knobs[i][1])) > 0);
        (void)close(fd);
    }
    rig_keeper_kill(&rig);
    rig_keeper_start(&rig);
    for (size_t i = 0; i < countof(knobs); i++) {
        CHECK_STR(rig_host_read(knobs[i][0]), knobs[i][2]);
    }
}

static long long group_number(const char *mount, const char *group, const char *knob)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/atoll-%s/%s%s", mount, rig.instance, group, knob);
    const char *text = rig_host_read(path);
    return text[0] ? strtoll(text, NULL, 10) : -1;
}

static void all_jails_together_leave_processes_to_the_host(void)
{
    const char *mount =
        access("/sys/fs/cgroup/pids", F_OK) == 0 ? "/sys/fs/cgroup/pids" : "/sys/fs/cgroup";
    long long pids = strtoll(rig_host_read("/proc/sys/kernel/pid_max"), NULL, 10);
    long long threads = strtoll(rig_host_read("/proc/sys/kernel/threads-max"), NULL, 10);
    long long most = threads < pids ? threads : pids;

    CHECK_INT(group_number(mount, "", "pids.max"), most - most / 4);
    CHECK(group_number(mount, "one/", "pids.max") > 0);
}

static bool one_create(void)
{
    struct keeper_request req = rig_create_request("one", 0, "base");

    return rig_create(&rig, &req, &one).status == 0;
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"limits of the whole host are raised", limits_of_the_whole_host_are_raised},
        {"all jails together leave processes to the host",
         all_jails_together_leave_processes_to_the_host},
    };

    return rig_main(&rig, argc, argv, one_create, tests, countof(tests));
}
