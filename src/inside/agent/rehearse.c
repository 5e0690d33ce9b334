/* rehearse.c - work that the first command of a sandbox would wait for, done while the jail is
 * parked.
 *
 * A shell is started and ends, and the files that a login shell reads are looked up. After that
 * they are in the kernel's caches and charged to the jail. No command of the template is run,
 * nothing is written, and no trace is left.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "inside/agent/internal.h"
#include "inside/agent/spawn.h"
#include "lib/base/fd.h"

static const char *const of_all[] = {"/etc/profile", "/etc/profile.d/.sh"};
static const char *const of_user[] = {".bash_profile", ".bash_login", ".profile",
                                      ".bashrc",       "bin",         ".local/bin"};

static void look_up(const struct user *user)
{
    char path[AGENT_PATH_BYTES];
    struct stat st;

    for (size_t i = 0; i < countof(of_all); i++) {
        (void)stat(of_all[i], &st);
    }
    for (size_t i = 0; i < countof(of_user); i++) {
        if (snprintf(path, sizeof(path), "%s/%s", user->home, of_user[i]) < (int)sizeof(path)) {
            (void)stat(path, &st);
        }
    }
}

void rehearse(const struct agent *agent)
{
    static char shell[] = "/bin/bash", no_profile[] = "--noprofile", no_rc[] = "--norc";
    static char command[] = "-c", nothing[] = ":";
    char *const argv[] = {shell, no_profile, no_rc, command, nothing, NULL};
    char *const envp[] = {NULL};
    struct spawned child;
    struct user user;
    struct err err;

    if (user_find(agent->default_user, &user) < 0) {
        return;
    }
    const struct spawn_plan plan = {
        .user = &user, .cwd = user.home, .argv = argv, .envp = envp, .nofile = agent->nofile};
    look_up(&user);
    if (spawn(&plan, &child, &err) == 0) { /* and reaped, as any child that is in no table */
        fd_closep(&child.out);
        fd_closep(&child.err);
    }
}
