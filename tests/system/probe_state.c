/* What a process can have besides files, held in the probe itself so that a jail can be saved with
 * it. `hold KIND` makes it, `check KIND` says whether it still is what it was. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "lib/base/compiler.h"
#include "probe_state.h"

enum {
    MEMORY_BYTES = 24 << 20,
    MUCH_BYTES = 118 << 20,
    FAMILY = 80, /* children: what all of them see is more than a dump may take */
    WAIT_MS = 5000,
    PORT = 4711,
};

static bool readable(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    return poll(&ready, 1, WAIT_MS) == 1;
}

static bool reads(int fd, const char *want)
{
    char text[64] = "";

    return readable(fd) && read(fd, text, sizeof(text) - 1) == (ssize_t)strlen(want) &&
           strcmp(text, want) == 0;
}

static bool writes(int fd, const char *text)
{
    return write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* ---- memory: every page another value ---- */

static uint64_t *memory;

static bool memory_hold(void)
{
    memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; memory != MAP_FAILED && i < MEMORY_BYTES / sizeof(*memory); i++) {
        memory[i] = i * 0x9e3779b97f4a7c15;
    }
    return memory != MAP_FAILED;
}

static bool memory_check(void)
{
    for (size_t i = 0; i < MEMORY_BYTES / sizeof(*memory); i++) {
        if (memory[i] != i * 0x9e3779b97f4a7c15) {
            return false;
        }
    }
    return true;
}

/* Nearly all that the jail may have, each page another. */

static uint64_t *much;

static bool much_hold(void)
{
    much = mmap(NULL, MUCH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; much != MAP_FAILED && i < MUCH_BYTES / sizeof(*much); i += 64) {
        much[i] = i;
    }
    return much != MAP_FAILED;
}

static bool much_check(void)
{
    for (size_t i = 0; i < MUCH_BYTES / sizeof(*much); i += 64) {
        if (much[i] != i) {
            return false;
        }
    }
    return true;
}

/* ---- children that share all of our memory with us, and change none of it ---- */

static bool family_hold(void)
{
    bool ok = memory_hold();

    for (int i = 0; ok && i < FAMILY; i++) {
        pid_t pid = fork();
        if (pid == 0) { /* the connection is not theirs to hold open */
            (void)close_range(STDERR_FILENO + 1, ~0U, 0);
        }
        while (pid == 0) {
            (void)pause();
        }
        ok = pid > 0;
    }
    return ok;
}

/* ---- a child that counts, in memory it shares with us ---- */

static volatile uint64_t *count;
static pid_t counter;

static bool child_hold(void)
{
    count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    counter = count == MAP_FAILED ? -1 : fork();
    if (counter == 0) {
        (void)close_range(STDERR_FILENO + 1, ~0U, 0); /* the connection we were asked through */
        for (;;) {
            ++*count;
            (void)poll(NULL, 0, 1);
        }
    }
    for (int i = 0; counter > 0 && i < WAIT_MS && *count == 0; i++) {
        (void)poll(NULL, 0, 1); /* by then it has closed what is not its own */
    }
    return counter > 0 && *count > 0;
}

static bool child_check(void)
{
    uint64_t before = *count;

    for (int i = 0; i < WAIT_MS && *count == before; i++) {
        (void)poll(NULL, 0, 1);
    }
    return *count > before && kill(counter, 0) == 0;
}

/* ---- a timer that goes off again and again, seen through epoll ---- */

static int timer = -1, poller = -1;

static bool timer_hold(void)
{
    const struct itimerspec each = {{0, 20 * 1000 * 1000}, {0, 20 * 1000 * 1000}};
    struct epoll_event event = {.events = EPOLLIN};

    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    poller = epoll_create1(EPOLL_CLOEXEC);
    return timerfd_settime(timer, 0, &each, NULL) == 0 &&
           epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event) == 0;
}

static bool timer_check(void)
{
    struct epoll_event event;
    uint64_t ticks;

    for (int i = 0; i < 3; i++) {
        if (epoll_wait(poller, &event, 1, WAIT_MS) != 1 || read(timer, &ticks, sizeof(ticks)) < 0) {
            return false;
        }
    }
    return true;
}

/* ---- watches: on a directory of the template, one of our own, a file, and one in memory ---- */

static int watch = -1;
static const char *const watched[] = {"/etc", "/root/own", "/root/own/file", "/dev/shm"};
static int marks[countof(watched)];

static bool watch_hold(void)
{
    bool good = (watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) >= 0;

    (void)mkdir("/root/own", 0755);
    (void)close(open("/root/own/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    for (size_t i = 0; i < countof(watched); i++) {
        marks[i] = inotify_add_watch(watch, watched[i], IN_ATTRIB);
        good = good && marks[i] >= 0;
    }
    return good;
}

static bool event_of(int mark)
{
    union {
        struct inotify_event event;
        char room[4096];
    } buf;

    while (readable(watch)) {
        ssize_t n = read(watch, &buf, sizeof(buf));
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const void *)(buf.room + at);
            if (event->wd == mark) {
                return true;
            }
            at += (ssize_t)(sizeof(*event) + event->len);
        }
    }
    return false;
}

static bool watch_check(void)
{
    bool good = true;

    for (size_t i = 0; i < countof(watched); i++) {
        mode_t mode = strcmp(watched[i], "/dev/shm") == 0 ? 01777 : 0755;
        good = good && chmod(watched[i], mode) == 0 && event_of(marks[i]);
    }
    return good;
}

/* ---- files without a name, of which one is open twice and one is locked ---- */

static int deleted = -1, locked = -1;

static bool deleted_hold(void)
{
    struct flock lock = {.l_type = F_WRLCK};

    deleted = open("/root/deleted", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    locked = open("/root/locked", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return writes(deleted, "nameless") && unlink("/root/deleted") == 0 &&
           fcntl(locked, F_SETLK, &lock) == 0;
}

static bool deleted_check(void)
{
    struct flock lock = {.l_type = F_WRLCK};
    int status = -1;

    if (lseek(deleted, 0, SEEK_SET) != 0 || !reads(deleted, "nameless") ||
        access("/root/deleted", F_OK) == 0) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        _exit(fcntl(locked, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- sockets and pipes with bytes on the way ---- */

static int unix_pair[2] = {-1, -1}, pipes[2] = {-1, -1}, events = -1;

static bool pipes_hold(void)
{
    events = eventfd(7, EFD_CLOEXEC);
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, unix_pair) == 0 &&
           pipe2(pipes, O_CLOEXEC) == 0 && events >= 0 && writes(unix_pair[0], "to one") &&
           writes(unix_pair[1], "to zero") && writes(pipes[1], "in the pipe");
}

static bool pipes_check(void)
{
    uint64_t value = 0;
    bool good = reads(unix_pair[1], "to one") && reads(unix_pair[0], "to zero") &&
                reads(pipes[0], "in the pipe") && read(events, &value, sizeof(value)) > 0;

    /* For the next one that is saved. */
    value = 7;
    return good && write(events, &value, sizeof(value)) > 0 && writes(unix_pair[0], "to one") &&
           writes(unix_pair[1], "to zero") && writes(pipes[1], "in the pipe");
}

static int listener = -1, client = -1, served = -1;

static struct sockaddr_in address(const char *host, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};

    (void)inet_pton(AF_INET, host, &at.sin_addr);
    return at;
}

static bool tcp_hold(void)
{
    const struct sockaddr_in here = address("127.0.0.1", PORT);

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (const void *)&here, sizeof(here)) < 0 || listen(listener, 8) < 0 ||
        connect(client, (const void *)&here, sizeof(here)) < 0) {
        return false;
    }
    served = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    return served >= 0 && writes(client, "to server") && writes(served, "to client");
}

static bool tcp_check(void)
{
    const struct sockaddr_in here = address("127.0.0.1", PORT);
    int another = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = reads(served, "to server") && reads(client, "to client") &&
                connect(another, (const void *)&here, sizeof(here)) == 0;

    (void)close(another);
    (void)close(accept(listener, NULL, NULL));
    return good && writes(client, "to server") && writes(served, "to client");
}

/* ---- a terminal ---- */

static int master = -1, slave = -1;

static bool terminal_hold(void)
{
    struct termios mode;

    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (grantpt(master) < 0 || unlockpt(master) < 0) {
        return false;
    }
    slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (tcgetattr(slave, &mode) < 0) {
        return false;
    }
    cfmakeraw(&mode);
    return tcsetattr(slave, TCSANOW, &mode) == 0;
}

static bool terminal_check(void)
{
    return writes(slave, "out") && reads(master, "out") && writes(master, "in") &&
           reads(slave, "in");
}

/* ---- what cannot be saved ---- */

static bool traced_hold(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)close_range(STDERR_FILENO + 1, ~0U, 0);
        (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        for (;;) {
            (void)pause();
        }
    }
    return pid > 0 && poll(NULL, 0, 50) == 0;
}

/* ---- a file that is open on a volume ---- */

static int shared = -1;

static bool volume_hold(void)
{
    shared = open("/mnt/shared data/file", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    return writes(shared, "before");
}

static bool volume_check(void)
{
    return lseek(shared, 0, SEEK_SET) == 0 && reads(shared, "before") && writes(shared, " after") &&
           access("/mnt/shared data/outside", F_OK) == 0 &&
           close(open("/mnt/shared data/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) == 0;
}

/* ---- a connection out ---- */

static int outward = -1;

static bool outward_hold(void)
{
    const struct sockaddr_in there = address("192.0.2.7", 80);

    outward = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(outward, (const void *)&there, sizeof(there)) == 0;
}

/* Over, at once, whatever is tried first: a program can connect anew. */
static bool outward_check(void)
{
    char byte;

    if (send(outward, "x", 1, MSG_NOSIGNAL) < 0) {
        return errno == ECONNRESET;
    }
    return readable(outward) && read(outward, &byte, 1) < 0 && errno == ECONNRESET;
}

/* ---- what the kernel says of us and of the child: mappings, descriptors, mask of signals ---- */

enum { OWN_BYTES = 64 * 1024 };

static char own[OWN_BYTES];

static size_t file_add(char *out, size_t n, const char *path, const char *mark, size_t len)
{
    char line[512];
    FILE *file = fopen(path, "re");

    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, mark, strlen(mark)) == 0 && n + len + 2 < OWN_BYTES) {
            n += (size_t)snprintf(out + n, OWN_BYTES - n, "%.*s\n", (int)len, line);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return n;
}

static size_t process_add(char *out, size_t n, pid_t pid)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    n = file_add(out, n, path, "", 30);
    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    n = file_add(out, n, path, "SigBlk:", 30);
    for (int fd = 0; fd < 256; fd++) {
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
        if (access(path, F_OK) == 0 && n + 16 < OWN_BYTES) {
            n += (size_t)snprintf(out + n, OWN_BYTES - n, "fd %d\n", fd);
        }
    }
    return n;
}

static bool own_hold(void)
{
    size_t n = process_add(own, 0, getpid());

    if (n == 0) { /* with the mappings that reading it took */
        return false;
    }
    return process_add(own, process_add(own, 0, getpid()), counter) > n;
}

static bool own_check(void)
{
    static char now[OWN_BYTES];

    return process_add(now, process_add(now, 0, getpid()), counter) > 0 && strcmp(own, now) == 0;
}

static const struct {
    const char *name;
    bool (*hold)(void);
    bool (*check)(void);
} kinds[] = {
    {"memory", memory_hold, memory_check},
    {"child", child_hold, child_check},
    {"timer", timer_hold, timer_check},
    {"watch", watch_hold, watch_check},
    {"deleted", deleted_hold, deleted_check},
    {"pipes", pipes_hold, pipes_check},
    {"tcp", tcp_hold, tcp_check},
    {"terminal", terminal_hold, terminal_check},
    {"outward", outward_hold, outward_check},

    {"own", own_hold, own_check},
    {"traced", traced_hold, NULL},
    {"volume", volume_hold, volume_check},
    {"much", much_hold, much_check},
    {"family", family_hold, memory_check},
};

const char *state_do(const char *verb, const char *name)
{
    const bool hold = strcmp(verb, "hold") == 0;

    for (size_t i = 0; i < countof(kinds); i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            bool (*act)(void) = hold ? kinds[i].hold : kinds[i].check;
            errno = 0;
            return !act ? "unknown" : act() ? "ok" : errno ? strerrorname_np(errno) : "wrong";
        }
    }
    return "unknown";
}
