#include "serve/daemon/drop.h"

#include <errno.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CAPABILITY_LAST = 63 }; /* the kernel refuses those it does not know */

static int drop_bounding_set(struct err *err)
{
    for (unsigned long cap = 0; cap <= CAPABILITY_LAST; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL) {
            return err_sys(err, "drop capability %lu from the bounding set", cap);
        }
    }
    return 0;
}

int drop_privileges(const struct server_user *who, struct err *err)
{
    /* 1. While still root: what needs CAP_SETPCAP and CAP_SETGID. */
    int r = drop_bounding_set(err);
    if (r < 0) {
        return r;
    }
    if (setgroups(0, NULL) < 0 || setresgid(who->gid, who->gid, who->gid) < 0) {
        return err_sys(err, "change to group %u", who->gid);
    }
    /* Leaves the keyring of root's session. Some kernels have no keyrings. */
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS) {
        return err_sys(err, "leave root's session keyring");
    }
    /* 2. The last use of privilege: the kernel clears every capability set here. */
    if (setresuid(who->uid, who->uid, who->uid) < 0) {
        return err_sys(err, "change to user %u", who->uid);
    }
    /* 3. No way back. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return err_sys(err, "set no_new_privs");
    }
    if (setuid(0) == 0 || setgid(0) == 0) {
        return err_set(err, EPERM, "root's privileges could not be given up");
    }
    return 0;
}
