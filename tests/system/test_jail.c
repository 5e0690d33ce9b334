/* A jail, looked at from inside through the probe and from outside through the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "rig.h"

static struct rig rig;

static void starts_and_ends(void)
{
    struct keeper_request req = rig_create_request("first", 0, "base");
    struct rig_jail jail;

    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    printf("# %s\n", rig_probe(&jail, "read /proc/self/mountinfo"));
    CHECK_INT(rig_destroy(&rig, "first").status, 0);
    CHECK(!rig_trace_left(&rig, "first"));
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a jail starts and ends", starts_and_ends},
    };

    if (argc < 2 || geteuid() != 0) {
        printf("1..0 # SKIP needs root, and the probe's path as its argument\n");
        return 0;
    }
    rig_open(&rig, argv[1]);
    rig_layer(&rig, "base");
    int code = check_run(tests, countof(tests));
    rig_close(&rig);
    return code;
}
