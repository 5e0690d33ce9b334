#include "keeper/jail/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CAPS_MAX = 64 };

#define CAP_BIT(cap) (UINT64_C(1) << (cap))

/* The capabilities that package managers, sudo and servers need as root, effective only on the
 * jail's own ids. None of them mounts, traces other users, configures networks or loads kernel
 * code. */
static const uint64_t caps_kept = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) |
                                  CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_KILL) |
                                  CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETPCAP) |
                                  CAP_BIT(CAP_NET_BIND_SERVICE) | CAP_BIT(CAP_SYS_CHROOT) |
                                  CAP_BIT(CAP_SETFCAP) | CAP_BIT(CAP_AUDIT_WRITE);

static int caps_get(struct __user_cap_data_struct data[2], struct err *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

    return syscall(SYS_capget, &header, data) < 0 ? err_sys(err, "read capabilities") : 0;
}

static int caps_set(const struct __user_cap_data_struct data[2], struct err *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

    return syscall(SYS_capset, &header, data) < 0 ? err_sys(err, "set capabilities") : 0;
}

int caps_bound(struct err *err)
{
    struct __user_cap_data_struct data[2];
    int r;

    /* Up to the first unknown number: so capabilities of newer kernels are dropped as well. */
    for (int cap = 0; cap < CAPS_MAX; cap++) {
        if (caps_kept & CAP_BIT(cap) || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0) {
            continue;
        }
        if (errno != EINVAL) {
            return err_sys(err, "drop capability %d from the bounding set", cap);
        }
        break;
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) {
        return err_sys(err, "clear the ambient capabilities");
    }
    r = caps_get(data, err);
    if (r < 0) {
        return r;
    }
    data[0].inheritable = data[1].inheritable = 0;
    return caps_set(data, err);
}

bool caps_has(int cap)
{
    struct __user_cap_data_struct data[2];
    struct err ignored;

    return caps_get(data, &ignored) == 0 && data[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap);
}

static int caps_raise(struct err *err)
{
    struct __user_cap_data_struct data[2];
    int r = caps_get(data, err);

    if (r < 0) {
        return r;
    }
    data[0].effective = data[0].permitted;
    data[1].effective = data[1].permitted;
    return caps_set(data, err);
}

/* The signal for the death of the parent. A change of ids makes the kernel forget it. */
struct parent_death {
    int signal_number;
    pid_t parent;
};

static struct parent_death parent_death_get(void)
{
    struct parent_death death = {.parent = getppid()};

    (void)prctl(PR_GET_PDEATHSIG, &death.signal_number, 0, 0, 0);
    return death;
}

static void parent_death_set(const struct parent_death *death)
{
    if (!death->signal_number) {
        return;
    }
    (void)prctl(PR_SET_PDEATHSIG, death->signal_number, 0, 0, 0);
    if (getppid() != death->parent) { /* the parent died in between */
        (void)raise(death->signal_number);
    }
}

int caps_act_as(uid_t uid, gid_t gid, struct err *err)
{
    const struct parent_death death = parent_death_get();

    /* These calls return the previous id, never an error: the second call shows whether the first
     * worked. */
    (void)setfsgid(gid);
    (void)setfsuid(uid);
    if ((uid_t)setfsuid((uid_t)-1) != uid || (gid_t)setfsgid((gid_t)-1) != gid) {
        return err_set(err, EPERM, "act as owner %u: the kernel refused", uid);
    }
    parent_death_set(&death);
    return caps_raise(err);
}

int caps_own_as(uid_t uid, struct err *err)
{
    const struct parent_death death = parent_death_get();

    /* The real and the saved uid stay 0: this keeps the permitted capabilities, and allows the way
     * back. */
    if (syscall(SYS_setresuid, -1, uid, -1) < 0) {
        return err_sys(err, "take the effective uid %u", uid);
    }
    parent_death_set(&death);
    int r = caps_raise(err);
    if (r < 0) {
        (void)syscall(SYS_setresuid, -1, 0, -1);
    }
    return r;
}
