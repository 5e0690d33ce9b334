#include "keeper/checkpoint/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keeper/checkpoint/fill_map.h"
#include "keeper/checkpoint/lazyfill_wire.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"

enum {
    PAGE = 4096,
    PIECE_BYTES = 2 * 1024 * 1024,
    FAULT_BYTES = 64 * 1024, /* around a page that somebody waits for */
    SPACES_MAX = 4096,       /* address spaces of one jail */
    EVENTS_AT_ONCE = 64,     /* of one address space, before the next one's turn */
    FULL_POLL_MS = 2,
    FULL_PATIENCE_MS = 30 * 1000, /* for a jail at its memory limit */
    PATH_BYTES = 64,
};

enum got {
    GOT_ALL,
    GOT_AGAIN, /* an event must be read first */
    GOT_END,   /* the process is gone */
    GOT_FAILURE,
};

/* One address space. */
struct space {
    int uffd; /* -1: free */
    int pages_fd;
    struct fill_map map;
    uint64_t wake_from, wake_to; /* threads wait here for a page that could not be copied yet */
};

struct pager {
    const struct pager_use *use;
    int socket; /* -1: all tasks run */
    bool done;
    size_t tasks_n;
    struct space *spaces;
    size_t spaces_n;
    struct pollfd *polled;
    int64_t full_since_ms;
    uint8_t *piece;
    struct err *err;
};

static void space_close(struct space *space)
{
    fd_closep(&space->uffd);
    fd_closep(&space->pages_fd);
    fill_map_fini(&space->map);
}

static struct space *space_add(struct pager *pager, struct err *err)
{
    size_t ranges_n = 0;

    for (size_t i = 0; i < pager->spaces_n; i++) {
        ranges_n += fill_map_n(&pager->spaces[i].map);
    }
    if (pager->spaces_n == SPACES_MAX || ranges_n > FILL_RANGES_MAX) {
        (void)err_set(err, E2BIG, "it has too many processes");
        return NULL;
    }
    struct space *space = &pager->spaces[pager->spaces_n++];
    *space = (struct space){.uffd = -1, .pages_fd = -1};
    return space;
}

static void wake(const struct space *space, uint64_t from, uint64_t to)
{
    struct uffdio_range range = {from, to - from};

    (void)ioctl(space->uffd, UFFDIO_WAKE, &range);
}

static void wake_later(struct space *space, uint64_t address)
{
    if (!space->wake_to || address < space->wake_from) {
        space->wake_from = address;
    }
    if (address + PAGE > space->wake_to) {
        space->wake_to = address + PAGE;
    }
}

static void wake_now(struct space *space)
{
    if (space->wake_to) {
        wake(space, space->wake_from, space->wake_to);
        space->wake_from = space->wake_to = 0;
    }
}

/* ---- copying ---- */

/* The jail is at its limit: the kernel ends one of its processes, or the jail frees some. */
static bool full_wait(struct pager *pager)
{
    if (!pager->full_since_ms) {
        pager->full_since_ms = clock_mono_ms();
    }
    (void)poll(NULL, 0, FULL_POLL_MS);
    return clock_mono_ms() - pager->full_since_ms < FULL_PATIENCE_MS;
}

/* Copies what is at `bytes`. An area that the program has cut in two takes no copy over the cut, so
 * the length is halved then. */
static enum got copy(struct pager *pager, struct space *space, uint64_t start, uint64_t end,
                     const uint8_t *bytes)
{
    uint64_t most = end - start;

    while (start < end) {
        struct uffdio_copy req = {
            .dst = start, .src = (uintptr_t)bytes, .len = end - start < most ? end - start : most};
        uint64_t done = 0;
        if (ioctl(space->uffd, UFFDIO_COPY, &req) == 0) {
            done = req.len;
        } else if (req.copy > 0) {
            done = (uint64_t)req.copy;
        } else if (errno == EAGAIN) {
            return GOT_AGAIN;
        } else if (errno == ESRCH || errno == ENOSPC) {
            return GOT_END;
        } else if (errno == ENOENT && req.len > PAGE) {
            most = req.len / 2 / PAGE * PAGE;
            continue;
        } else if (errno == EEXIST || errno == ENOENT) { /* there already, or not wanted any more */
            done = PAGE;
            wake(space, start, start + PAGE);
        } else if (errno != ENOMEM || !full_wait(pager)) {
            (void)err_sys(pager->err, "fill a page");
            return GOT_FAILURE;
        }
        if (done && fill_map_cut(&space->map, start, start + done) < 0) {
            (void)err_set(pager->err, ENOMEM, "its memory is in too many pieces");
            return GOT_FAILURE;
        }
        pager->full_since_ms = done ? 0 : pager->full_since_ms;
        start += done;
        bytes += done;
    }
    return GOT_ALL;
}

static enum got fill(struct pager *pager, struct space *space, const struct fill_range *range,
                     uint64_t from, uint64_t to)
{
    const uint64_t start = from > range->start ? from : range->start;
    const uint64_t end = to < range->end ? to : range->end;
    const uint64_t offset = range->offset + (start - range->start);

    for (uint64_t n = 0; n < end - start;) {
        ssize_t got =
            pread(space->pages_fd, pager->piece + n, end - start - n, (off_t)(offset + n));
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            (void)err_set(pager->err, EIO, "its saved memory cannot be read: %s",
                          got < 0 ? strerrordesc_np(errno) : "it ends early");
            return GOT_FAILURE;
        }
        n += got > 0 ? (uint64_t)got : 0;
    }
    return copy(pager, space, start, end, pager->piece);
}

/* ---- events ---- */

static enum got zero(struct pager *pager, struct space *space, uint64_t address)
{
    struct uffdio_zeropage req = {.range = {address, PAGE}};

    while (ioctl(space->uffd, UFFDIO_ZEROPAGE, &req) < 0) {
        if (errno == EAGAIN) {
            return GOT_AGAIN;
        }
        if (errno == ESRCH || errno == ENOSPC) {
            return GOT_END;
        }
        if (errno == EEXIST || errno == ENOENT) {
            wake(space, address, address + PAGE);
            break;
        }
        if (errno != ENOMEM || !full_wait(pager)) {
            (void)err_sys(pager->err, "give an empty page");
            return GOT_FAILURE;
        }
    }
    return GOT_ALL;
}

static enum got on_fault(struct pager *pager, struct space *space, uint64_t address)
{
    const uint64_t page = address & ~(uint64_t)(PAGE - 1);
    const uint64_t from = page & ~(uint64_t)(FAULT_BYTES - 1);
    const struct fill_range *range = fill_map_find(&space->map, page);
    enum got got =
        range ? fill(pager, space, range, from, from + FAULT_BYTES) : zero(pager, space, page);

    if (got == GOT_AGAIN) {
        wake_later(space, page);
        return GOT_ALL;
    }
    return got;
}

/* ---- forks ---- */

/* The kernel reports the faults of a child in memory that a fork wipes as it does others. */
static int wiped_cut(struct fill_map *map, FILE *smaps)
{
    uint64_t start = 0, end = 0;
    char line[1024];
    int r = 0;

    while (r == 0 && fgets(line, sizeof(line), smaps)) {
        char *dash = NULL, *space = NULL;
        uint64_t from = strtoull(line, &dash, 16);
        uint64_t to = *dash == '-' ? strtoull(dash + 1, &space, 16) : 0;
        if (to && space && *space == ' ') {
            start = from, end = to;
        } else if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " wf")) {
            r = fill_map_cut(map, start, end);
        }
    }
    return r;
}

static void file_closep(FILE **file)
{
    if (*file) {
        (void)fclose(*file);
    }
}

/* Which process has forked is not known, so areas that any process of the jail wants wiped are. */
static int wiped_find(const struct pager *pager, struct fill_map *map)
{
    int fd = openat(pager->use->group_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    scoped(file_closep) FILE *procs = fd < 0 ? NULL : fdopen(fd, "r");
    char line[PATH_BYTES / 2], path[PATH_BYTES];
    int r = 0;

    while (r == 0 && procs && fgets(line, sizeof(line), procs)) {
        (void)snprintf(path, sizeof(path), "/proc/%ld/smaps", strtol(line, NULL, 10));
        scoped(file_closep) FILE *smaps = fopen(path, "re");
        r = smaps ? wiped_cut(map, smaps) : 0;
    }
    return procs ? r : -ENOENT;
}

static enum got on_fork(struct pager *pager, const struct space *parent, int uffd)
{
    const int pages_fd = parent->pages_fd;
    const struct fill_map *map = &parent->map;
    struct space *space = space_add(pager, pager->err);

    if (!space) {
        return GOT_FAILURE; /* the descriptor must not close before the jail has ended */
    }
    space->uffd = uffd;
    space->pages_fd = fcntl(pages_fd, F_DUPFD_CLOEXEC, 0);
    if (space->pages_fd < 0 || fill_map_copy(map, &space->map) < 0 ||
        wiped_find(pager, &space->map) < 0) {
        (void)err_set(pager->err, ENOMEM, "follow a fork");
        return GOT_FAILURE;
    }
    return GOT_ALL;
}

static enum got on_event(struct pager *pager, struct space *space, const struct uffd_msg *msg)
{
    int r = 0;

    switch (msg->event) {
    case UFFD_EVENT_PAGEFAULT:
        return on_fault(pager, space, msg->arg.pagefault.address);
    case UFFD_EVENT_FORK:
        wake_now(space);
        return on_fork(pager, space, (int)msg->arg.fork.ufd);
    case UFFD_EVENT_REMAP:
        r = fill_map_move(&space->map, msg->arg.remap.from, msg->arg.remap.to, msg->arg.remap.len);
        wake(space, msg->arg.remap.from, msg->arg.remap.from + msg->arg.remap.len);
        break;
    case UFFD_EVENT_REMOVE:
    case UFFD_EVENT_UNMAP:
        r = fill_map_cut(&space->map, msg->arg.remove.start, msg->arg.remove.end);
        wake(space, msg->arg.remove.start, msg->arg.remove.end);
        break;
    default:
        r = -EPROTO;
    }
    wake_now(space);
    if (r < 0) {
        (void)err_set(pager->err, -r, "follow a change of its memory");
        return GOT_FAILURE;
    }
    return GOT_ALL;
}

/* The kernel gives out faults before events, and no page can be copied while an event is unread:
 * those who wait for such a page are woken, and ask again, only when nothing is left to read. */
static enum got events_read(struct pager *pager, struct space *space)
{
    struct uffd_msg msg;
    enum got got = GOT_ALL;

    for (int i = 0; i < EVENTS_AT_ONCE && got == GOT_ALL; i++) {
        ssize_t n = read(space->uffd, &msg, sizeof(msg));
        if (n < 0 && errno == EAGAIN) {
            wake_now(space);
            return GOT_ALL;
        }
        if (n != (ssize_t)sizeof(msg)) {
            (void)err_sys(pager->err, "read what its memory needs");
            return GOT_FAILURE;
        }
        got = on_event(pager, space, &msg);
    }
    return got;
}

/* ---- CRIU ---- */

static int ranges_read(int fd, uint64_t n, struct fill_map *out)
{
    const size_t bytes = (size_t)n * sizeof(*out->at);

    if (n == 0 || n > FILL_RANGES_MAX) {
        return -EPROTO;
    }
    struct fill_map map = {.at = calloc(n, sizeof(*out->at)), .end = n, .cap = n};
    if (!map.at || pread(fd, map.at, bytes, 0) != (ssize_t)bytes || !fill_map_check(&map)) {
        fill_map_fini(&map);
        return -EPROTO;
    }
    *out = map;
    return 0;
}

static int task_add(struct pager *pager, const struct lazyfill_msg *msg, int fds[LAZYFILL_FDS])
{
    struct space *space = space_add(pager, pager->err);

    if (!space) {
        return -E2BIG;
    }
    space->uffd = move_fd(&fds[0]);
    space->pages_fd = move_fd(&fds[1]);
    pager->tasks_n++;
    return space->uffd < 0 || space->pages_fd < 0 ? -EPROTO
                                                  : ranges_read(fds[2], msg->count, &space->map);
}

/* Returns -ECANCELED when the restore has failed; its tasks have not run. */
static int criu_heed(struct pager *pager)
{
    struct lazyfill_msg msg;
    struct iovec iov = {&msg, sizeof(msg)};
    int fds[LAZYFILL_FDS] = {-1, -1, -1};
    ssize_t n = fdpass_receive(pager->socket, &iov, 1, fds, LAZYFILL_FDS, MSG_DONTWAIT);
    int r = 0;

    if (n == -EAGAIN) {
        return 0;
    }
    if (n != (ssize_t)sizeof(msg) || msg.version != LAZYFILL_VERSION) {
        r = -ECANCELED;
    } else if (msg.type == LAZYFILL_TASK) {
        r = task_add(pager, &msg, fds) < 0 ? -ECANCELED : 0;
    } else if (msg.count != pager->tasks_n ||
               send(pager->socket, &msg, sizeof(msg), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        r = -ECANCELED;
    } else {
        pager->done = true;
        fd_closep(&pager->socket);
    }
    fdpass_close(fds, LAZYFILL_FDS);
    return r;
}

/* ---- the loop ---- */

static void spaces_tidy(struct pager *pager)
{
    for (size_t i = pager->spaces_n; pager->done && i-- > 0;) {
        if (pager->spaces[i].uffd < 0 || fill_map_n(&pager->spaces[i].map) == 0) {
            space_close(&pager->spaces[i]);
            pager->spaces[i] = pager->spaces[--pager->spaces_n];
        }
    }
}

static int ready_wait(struct pager *pager)
{
    const bool busy = pager->done && pager->spaces_n;

    pager->polled[0] = (struct pollfd){.fd = pager->socket, .events = POLLIN};
    pager->polled[1] = (struct pollfd){.fd = pager->use->watch_fd, .events = POLLIN};
    for (size_t i = 0; i < pager->spaces_n; i++) {
        pager->polled[2 + i] = (struct pollfd){.fd = pager->spaces[i].uffd, .events = POLLIN};
    }
    if (poll(pager->polled, 2 + pager->spaces_n, busy ? 0 : -1) < 0 && errno != EINTR) {
        return err_sys(pager->err, "wait for what its memory needs");
    }
    return pager->polled[1].revents ? err_set(pager->err, ECHILD, "its pager is not watched") : 0;
}

static int spaces_serve(struct pager *pager)
{
    const size_t n = pager->spaces_n; /* a fork adds to them */

    for (size_t i = 0; i < n; i++) {
        struct space *space = &pager->spaces[i];
        enum got got = GOT_ALL;
        if (pager->polled[2 + i].revents || space->wake_to) {
            got = events_read(pager, space);
        }
        if (got == GOT_END) {
            space_close(space);
        } else if (got == GOT_FAILURE) {
            return -EIO;
        }
    }
    return 0;
}

static int piece_fill(struct pager *pager)
{
    struct space *space = pager->spaces_n && pager->done ? &pager->spaces[0] : NULL;

    if (!space) {
        return 0;
    }
    const struct fill_range *range = &space->map.at[space->map.first];
    const uint64_t to = (range->start + PIECE_BYTES) & ~(uint64_t)(PIECE_BYTES - 1);
    enum got got = fill(pager, space, range, range->start, to);
    if (got == GOT_END) {
        space_close(space);
    }
    return got == GOT_FAILURE ? -EIO : 0;
}

static int steps(struct pager *pager)
{
    int r = ready_wait(pager);

    if (r == 0 && pager->polled[0].revents) {
        r = criu_heed(pager);
        return r; /* the list of descriptors has changed */
    }
    if (r == 0) {
        r = spaces_serve(pager);
    }
    spaces_tidy(pager);
    if (r == 0) {
        r = piece_fill(pager);
    }
    spaces_tidy(pager);
    return r;
}

int pager_run(const struct pager_use *use, struct err *err)
{
    struct pager pager = {
        .use = use,
        .socket = use->socket,
        .spaces = xcalloc(SPACES_MAX, sizeof(struct space)),
        .polled = xcalloc(SPACES_MAX + 2, sizeof(struct pollfd)),
        .piece = aligned_alloc(PIECE_BYTES, PIECE_BYTES),
        .err = err,
    };
    int r = pager.piece ? 0 : err_set(err, ENOMEM, "get memory for copies");

    while (r == 0 && !(pager.done && pager.spaces_n == 0)) {
        r = steps(&pager);
    }
    /* The descriptors close with the process. */
    return r == -ECANCELED ? 0 : r < 0 && !err->code ? -EIO : r;
}
