/* program.c - atoll-keeper: the keeper as a program of its own.
 *
 * `atoll keeper` executes it when all options are known. The process that runs as root so has few
 * libraries, and little to copy when it forks: a jail's first process is a fork of it.
 */
#include <fcntl.h>
#include <stdio.h>

#include "lib/base/log.h"
#include "wire/keeper.h"

int main(int argc, char **argv)
{
    struct keeper_options options = {0};
    struct err err;

    if (keeper_options_read(argc, argv, &options, &err) < 0) {
        (void)fprintf(stderr, "atoll-keeper: %s\n", err.msg);
        return 2;
    }
    log_init("keeper", options.log_level);
    if (fcntl(options.lock_fd, F_SETFD, FD_CLOEXEC) < 0) {
        log_error("the lock of the data directory was not handed over");
        return 1;
    }
    return keeper_main(&options);
}
