/* Descriptors beside the bytes of a message: all that is expected arrives, nothing else stays. */
#include "lib/base/fdpass.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"
#include "lib/base/fd.h"

struct ends {
    int here, there;
};

static struct ends ends_open(void)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
        perror("socketpair");
        abort();
    }
    return (struct ends){fds[0], fds[1]};
}

static void ends_close(struct ends *ends)
{
    fd_closep(&ends->here);
    fd_closep(&ends->there);
}
#define scoped_ends scoped(ends_close) struct ends

static int open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    if (!dir) {
        abort();
    }
    while (readdir(dir)) {
        n++;
    }
    (void)closedir(dir);
    return n;
}

static bool is_same_file(int a, int b)
{
    struct stat first, second;

    return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static ssize_t receive(const struct ends *ends, char *text, size_t len, int *fds, size_t max)
{
    struct iovec iov = {text, len};

    return fdpass_receive(ends->there, &iov, 1, fds, max, MSG_DONTWAIT);
}

static void bytes_and_descriptors_arrive_in_order(void)
{
    scoped_ends ends = ends_open();
    scoped_fd null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    scoped_fd zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    const int sent[] = {null, zero};
    char text[8];
    int got[3] = {7, 7, 7};

    CHECK_INT(fdpass_send(ends.here, "hello", 5, sent, 2, 0), 5);
    CHECK_INT(receive(&ends, text, sizeof(text), got, countof(got)), 5);
    CHECK(memcmp(text, "hello", 5) == 0);
    CHECK(is_same_file(got[0], null) && is_same_file(got[1], zero));
    CHECK(fcntl(got[0], F_GETFD) & FD_CLOEXEC && fcntl(got[1], F_GETFD) & FD_CLOEXEC);
    CHECK_INT(got[2], -1);
    fdpass_close(got, countof(got));
    CHECK_INT(got[0], -1);
}

static void a_message_without_descriptors_is_plain(void)
{
    scoped_ends ends = ends_open();
    char text[8];
    int got = 7;

    CHECK_INT(fdpass_send(ends.here, "hello", 5, NULL, 0, 0), 5);
    CHECK_INT(receive(&ends, text, sizeof(text), &got, 1), 5);
    CHECK_INT(got, -1);
    CHECK_INT(receive(&ends, text, sizeof(text), &got, 1), -EAGAIN);
}

/* Every number up to the most, with room for one less: odd and even ones differ in their padding.
 */
static void more_than_expected_are_all_closed(void)
{
    scoped_ends ends = ends_open();
    int sent[FDPASS_MAX], got[FDPASS_MAX];
    char text[8];

    for (size_t i = 0; i < FDPASS_MAX; i++) {
        sent[i] = ends.here;
    }
    const int before = open_fds();
    for (size_t n = 1; n <= FDPASS_MAX; n++) {
        CHECK_INT(fdpass_send(ends.here, "hello", 5, sent, n, 0), 5);
        CHECK_INT(receive(&ends, text, sizeof(text), got, n - 1), -ETOOMANYREFS);
        CHECK(memcmp(text, "hello", 5) == 0);
        CHECK_INT(open_fds(), before);
        CHECK_INT(fdpass_send(ends.here, "hello", 5, sent, n, 0), 5);
        CHECK_INT(receive(&ends, text, sizeof(text), got, n), 5);
        CHECK_INT(open_fds(), before + (int)n);
        fdpass_close(got, n);
    }
}

static void a_message_that_is_too_long_leaves_nothing(void)
{
    scoped_ends ends = ends_open();
    const int before = open_fds();
    char text[4];
    int got;

    CHECK_INT(fdpass_send(ends.here, "hello", 5, &ends.here, 1, 0), 5);
    CHECK_INT(receive(&ends, text, sizeof(text), &got, 1), -EMSGSIZE);
    CHECK_INT(got, -1);
    CHECK_INT(open_fds(), before);
}

/* In a process of its own, which the limit ends with. */
static int receive_at_the_limit(const struct ends *ends)
{
    struct rlimit limit = {(rlim_t)ends->there + 2, (rlim_t)ends->there + 2};
    char text[8];
    int got[2];

    if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return 1;
    }
    return receive(ends, text, sizeof(text), got, 2) == -ETOOMANYREFS && got[0] == -1 &&
                   memcmp(text, "hello", 5) == 0 && fcntl(ends->there + 1, F_GETFD) < 0
               ? 0
               : 2;
}

static void a_process_at_its_limit_gets_none_rather_than_some(void)
{
    scoped_ends ends = ends_open();
    int status = -1;

    CHECK_INT(fdpass_send(ends.here, "hello", 5, (int[]){ends.here, ends.there}, 2, 0), 5);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(receive_at_the_limit(&ends));
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
}

static void the_other_end_is_gone(void)
{
    scoped_ends ends = ends_open();
    char text[8];
    int got;

    fd_closep(&ends.here);
    CHECK_INT(receive(&ends, text, sizeof(text), &got, 1), 0);
    CHECK_INT(fdpass_send(ends.there, "hello", 5, &ends.there, 1, 0), -EPIPE);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"bytes and descriptors arrive, in order", bytes_and_descriptors_arrive_in_order},
        {"a message without descriptors is plain", a_message_without_descriptors_is_plain},
        {"more than expected are all closed", more_than_expected_are_all_closed},
        {"a message that is too long leaves nothing", a_message_that_is_too_long_leaves_nothing},
        {"a process at its limit gets none rather than some",
         a_process_at_its_limit_gets_none_rather_than_some},
        {"the other end's going is told both ways", the_other_end_is_gone},
    };

    return check_run(tests, countof(tests));
}
