/* proc_list.h - the processes of the sandbox and the ports that they listen on, as /proc shows
 * them.
 *
 * Names and command lines are whatever a process of the sandbox wrote there: they are cut, repaired
 * to UTF-8 and never trusted. Answers are bounded, and say when they were cut.
 *
 * Owns:     nothing.
 * Blocks:   reads many files of /proc: for the thread pool. A process of the sandbox can make such
 *           a read wait; it harms only its own sandbox.
 * Threads:  any.
 */
#ifndef AGENT_PROC_LIST_H
#define AGENT_PROC_LIST_H

#include <jansson.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    PROC_ROWS_MAX = 2000,   /* processes of one answer */
    PROC_SEEN_MAX = 100000, /* entries of /proc that are looked at */
    PROC_PORTS_MAX = 500,   /* ports of one answer */
    PROC_COMMAND_BYTES = 1024,
    PROC_TAG_BYTES = 256,
};

/* A process that was started by the process service. */
struct proc_tag {
    pid_t pid;
    char tag[PROC_TAG_BYTES]; /* "": it has none */
};

/* {"processes": [...], "total", "truncated"} */
json_t *proc_processes(const struct proc_tag *tags, size_t tags_n);

/* {"ports": [...], "truncated"} */
json_t *proc_ports(void);

/* Sends a signal. -EPERM with the sentence for the agent and its helpers, -ESRCH when there is no
 * such process. */
must_check int proc_signal(pid_t pid, int signal, struct err *err);

/* Shared by both lists. */
struct proc_stat {
    pid_t ppid;
    char state;
    char name[64]; /* as the process calls itself: any bytes */
    unsigned long long cpu_ticks, start_ticks, rss_pages;
};
must_check int proc_stat_read(int proc, pid_t pid, struct proc_stat *out);
json_t *proc_command(int proc, pid_t pid, const char *name);

/* The ids that the process acts as; -errno when it is gone. */
must_check int proc_ids_read(int proc, pid_t pid, uid_t *uid, gid_t *gid);

/* The next process of an open /proc, in the order of pids; 0: there is none. */
struct proc_walk {
    void *dir;
    size_t seen;
};
must_check int proc_walk_open(struct proc_walk *walk); /* the descriptor of /proc, or -errno */
pid_t proc_walk_next(struct proc_walk *walk);
void proc_walk_close(struct proc_walk *walk);

#endif
