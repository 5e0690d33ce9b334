/* proc_ports.c - the TCP ports that processes of the sandbox listen on. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "inside/agent/proc_list.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"

enum {
    LINE_BYTES = 512,
    LINKS_MAX = 50000, /* descriptors of processes that are looked at */
    STATE_LISTEN = 0x0a,
};

struct port {
    char address[INET6_ADDRSTRLEN];
    unsigned number;
    unsigned long inode;
    pid_t pid; /* 0: not found */
};

struct ports {
    struct port all[PROC_PORTS_MAX];
    size_t n;
    size_t links; /* seen so far */
    bool truncated;
};

/* ---- sockets ---- */

/* The kernel prints the address as 32-bit numbers of this machine's byte order. */
static bool address_read(const char *hex, struct port *out)
{
    unsigned char bytes[16];
    size_t len = strcspn(hex, ":"), words = len / 8;

    if ((len != 8 && len != 32) || hex[len] != ':') {
        return false;
    }
    for (size_t i = 0; i < words; i++) {
        char word[9] = "";
        memcpy(word, hex + i * 8, 8);
        uint32_t value = (uint32_t)strtoul(word, NULL, 16);
        memcpy(bytes + i * 4, &value, 4);
    }
    out->number = (unsigned)strtoul(hex + len + 1, NULL, 16);
    return inet_ntop(words == 1 ? AF_INET : AF_INET6, bytes, out->address, sizeof(out->address));
}

/* "sl local remote state tx:rx tr:when retrnsmt uid timeout inode ..." */
static bool line_read(const char *line, struct port *out, unsigned *state)
{
    char local[64];

    *out = (struct port){0};
    return sscanf(line, " %*[^:]: %63s %*s %x %*s %*s %*s %*s %*s %lu", local, state,
                  &out->inode) == 3 &&
           address_read(local, out);
}

/* The kernel shows the listening sockets first, so the others are never read. */
static void table_read(const char *path, struct ports *ports)
{
    FILE *file = fopen(path, "re");
    char line[LINE_BYTES];
    unsigned state = STATE_LISTEN;

    if (!file || !fgets(line, sizeof(line), file)) { /* its heading */
        state = 0;                                   /* a kernel without that protocol */
    }
    while (file && state == STATE_LISTEN && fgets(line, sizeof(line), file)) {
        struct port port;
        if (!line_read(line, &port, &state) || state != STATE_LISTEN) {
            break;
        }
        if (ports->n == PROC_PORTS_MAX) {
            ports->truncated = true;
            break;
        }
        ports->all[ports->n++] = port;
    }
    if (file) {
        (void)fclose(file);
    }
}

/* ---- their processes ---- */

static void link_note(struct ports *ports, int dir, const char *name, pid_t pid)
{
    char target[64];
    ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
    unsigned long inode = 0;

    target[n > 0 ? n : 0] = '\0';
    if (sscanf(target, "socket:[%lu]", &inode) != 1) {
        return;
    }
    for (size_t i = 0; i < ports->n; i++) {
        if (ports->all[i].inode == inode && ports->all[i].pid == 0) {
            ports->all[i].pid = pid;
        }
    }
}

static void links_read(struct ports *ports, int proc, pid_t pid)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "%d/fd", (int)pid);
    int fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    while (dir && ports->links < LINKS_MAX && (entry = readdir(dir))) {
        ports->links++;
        if (entry->d_name[0] != '.') {
            link_note(ports, dirfd(dir), entry->d_name, pid);
        }
    }
    if (dir) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

/* Root of the jail may not look at the descriptors of other users, so this thread looks as their
 * owner. Its ids for files are its own, and are root's again afterwards. */
static void process_look(struct ports *ports, int proc, pid_t pid)
{
    uid_t uid = 0;
    gid_t gid = 0;

    if (proc_ids_read(proc, pid, &uid, &gid) < 0) {
        return;
    }
    (void)setfsgid(gid);
    (void)setfsuid(uid);
    links_read(ports, proc, pid);
    (void)setfsuid(geteuid());
    (void)setfsgid(getegid());
}

static bool any_unknown(const struct ports *ports)
{
    for (size_t i = 0; i < ports->n; i++) {
        if (ports->all[i].pid == 0) {
            return true;
        }
    }
    return false;
}

static void processes_find(struct ports *ports, int proc, struct proc_walk *walk)
{
    pid_t pid;

    while (any_unknown(ports) && (pid = proc_walk_next(walk)) > 0) {
        if (ports->links >= LINKS_MAX) {
            ports->truncated = true; /* some ports may lack their process */
            return;
        }
        process_look(ports, proc, pid);
    }
}

/* ---- the answer ---- */

static json_t *port_json(int proc, const struct port *port)
{
    json_t *row = json_pack("{sisssb}", "port", (int)port->number, "address", port->address,
                            "internal", port->pid == getpid());
    struct proc_stat stat;

    if (port->pid > 0 && proc >= 0 && proc_stat_read(proc, port->pid, &stat) == 0) {
        (void)json_object_set_new(row, "pid", json_integer(port->pid));
        (void)json_object_set_new(row, "command", proc_command(proc, port->pid, stat.name));
    }
    return row;
}

json_t *proc_ports(void)
{
    struct ports *ports = xnew(struct ports);
    json_t *rows = json_array();
    struct proc_walk walk;
    int proc = proc_walk_open(&walk);

    table_read("/proc/net/tcp", ports);
    table_read("/proc/net/tcp6", ports);
    if (proc >= 0) {
        processes_find(ports, proc, &walk);
    }
    for (size_t i = 0; i < ports->n; i++) {
        (void)json_array_append_new(rows, port_json(proc, &ports->all[i]));
    }
    json_t *answer = json_pack("{sosb}", "ports", rows, "truncated", ports->truncated);
    if (proc >= 0) {
        proc_walk_close(&walk);
    }
    free(ports);
    return answer;
}
