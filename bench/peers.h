/* peers.h - the same work done by others: the bare kernel, bubblewrap, crun, runc, podman. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include <stddef.h>

struct peers {
    const char *rootfs;  /* what all of them run in */
    const char *scratch; /* a directory for bundles and for what they keep */
};

/* Runs once, from start to end, and returns 0 when the program inside ended with 0; -1 after a
 * sentence on stderr.
 *
 *   bare      fork, exec and wait of /bin/true
 *   bash      the same of a login shell that echoes, as SDKs have it run
 *   clone     clone3 into new namespaces of every kind, exec and wait of /bin/true
 *   bwrap, crun, runc, podman
 *             create, /bin/true, destroy */
int peer_run(const struct peers *peers, const char *name);

/* Starts n processes that sleep, in namespaces of their own: "none", "net" or "all"; and ends those
 * that were started so. 0, or -1 after a sentence on stderr. */
int peers_hold(const char *kind, int n);
void peers_release(void);

/* Reads what a shell command prints over a pipe; 0 when it is that many bytes. */
int peer_read(const char *command, size_t bytes);

/* Writes the bundles. 0 or -1. */
int peers_prepare(const struct peers *peers);

#endif
