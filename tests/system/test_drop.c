/* What is left to a process that has given up root's privileges. */
#include <errno.h>
#include <linux/keyctl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "serve/daemon/drop.h"

enum {
    NOBODY = 65534,
    CANNOT = 77, /* this kernel has no keys */
};

static const char secret[] = "root's own";

static bool reads(long key)
{
    char text[sizeof(secret)] = "";

    return syscall(SYS_keyctl, KEYCTL_READ, key, text, sizeof(text)) > 0 &&
           memcmp(text, secret, sizeof(secret) - 1) == 0;
}

/* In a child, whose session this is. */
static int keys_after(bool drops)
{
    const struct server_user who = {.uid = NOBODY, .gid = NOBODY};
    struct err err;

    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0) {
        return errno == ENOSYS ? CANNOT : 2;
    }
    long key =
        syscall(SYS_add_key, "user", "test", secret, sizeof(secret) - 1, KEY_SPEC_SESSION_KEYRING);
    if (key < 0 || (drops && drop_privileges(&who, &err) < 0)) {
        return 2;
    }
    return reads(key);
}

static int in_child(bool drops)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        _exit(keys_after(drops));
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void keys_of_roots_session_are_roots(void)
{
    const int as_root = in_child(false);

    CHECK_THAT(as_root == 1 || as_root == CANNOT, "root reads its key: %d", as_root);
    CHECK_INT(in_child(true), as_root == CANNOT ? CANNOT : 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"keys of root's session are root's", keys_of_roots_session_are_roots},
    };

    return check_run(tests, countof(tests));
}
