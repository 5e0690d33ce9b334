#include "tools/confine.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/fd.h"

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

/* linux/landlock.h of Debian 12 knows only the first versions: these are the kernel's numbers. */
enum {
    SOCKET_TYPE_MASK = 0xf,     /* the rest are flags */
    CREATE_RULESET_VERSION = 1, /* the flag that asks for the version */
    FILES_1 = (1 << 13) - 1,    /* execute ... make_sym */
    FILES_2 = 1 << 13,          /* refer */
    FILES_3 = 1 << 14,          /* truncate */
    FILES_5 = 1 << 15,          /* ioctl_dev */
    TCP_4 = 3,                  /* bind, connect */
    SCOPE_6 = 3,                /* abstract unix sockets, signals */
};

struct ruleset {
    uint64_t files, network, scope;
};

int confine_to_parent(pid_t parent, struct err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
        return err_sys(err, "ask to end with the daemon");
    }
    return getppid() == parent ? 0 : err_set(err, ESRCH, "the daemon has ended");
}

/* Each version of Landlock has more that can be forbidden. Returns the size of what it reads. */
static size_t ruleset_fill(struct ruleset *out, long version)
{
    *out = (struct ruleset){
        .files = (uint64_t)FILES_1 | (version >= 2 ? FILES_2 : 0) | (version >= 3 ? FILES_3 : 0) |
                 (version >= 5 ? FILES_5 : 0),
        .network = version >= 4 ? TCP_4 : 0,
        .scope = version >= 6 ? SCOPE_6 : 0,
    };
    return version >= 6   ? sizeof(*out)
           : version >= 4 ? offsetof(struct ruleset, scope)
                          : offsetof(struct ruleset, network);
}

/* Everything that can be forbidden is, and no rule allows anything. */
static int landlock(struct err *err)
{
    struct ruleset rules;
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);

    if (version < 1) {
        return err_set(err, EOPNOTSUPP, "this kernel has no Landlock");
    }
    size_t size = ruleset_fill(&rules, version);
    scoped_fd fd = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
    if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0) < 0) {
        return err_sys(err, "give up the file system");
    }
    return 0;
}

/* Stream sockets of the unix kind alone. The keeper's is of another type: it takes connections of
 * our user, which is the server's. */
static int sockets_limit(struct err *err)
{
    static const unsigned others[] = {SOCK_DGRAM,     SOCK_RAW,  SOCK_RDM,
                                      SOCK_SEQPACKET, SOCK_DCCP, SOCK_PACKET};
    const uint32_t refuse = SCMP_ACT_ERRNO(EACCES);
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int r = filter ? seccomp_rule_add(filter, refuse, SCMP_SYS(socket), 1,
                                      SCMP_A0(SCMP_CMP_NE, AF_UNIX, 0))
                   : -ENOMEM;

    for (size_t i = 0; r == 0 && i < countof(others); i++) {
        r = seccomp_rule_add(filter, refuse, SCMP_SYS(socket), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, SOCKET_TYPE_MASK, others[i]));
    }
    r = r < 0 ? r : seccomp_load(filter);
    seccomp_release(filter);
    return r < 0 ? err_set(err, -r, "limit the kinds of sockets: %s", strerror(-r)) : 0;
}

int confine(struct err *err)
{
    if (SANITIZED) {
        return err_set(err, EOPNOTSUPP, "a sanitizer reads /proc");
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        return err_sys(err, "give up privileges");
    }
    int r = sockets_limit(err);
    return r < 0 ? r : landlock(err);
}
