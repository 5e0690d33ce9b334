/* peers.h - the same work done by others: a bare fork and exec, bubblewrap, crun. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include <stddef.h>

/* Each runs once, start to end, and returns 0 when the program inside ended with 0. */
int peer_fork_exec(const char *program);
int peer_bwrap(const char *rootfs);
int peer_crun(const char *bundle);

/* Reads what a shell command prints over a pipe; 0 when it is that many bytes. */
int peer_read(const char *command, size_t bytes);

/* Writes a bundle's config.json for /bin/true on that root filesystem. 0 or -1. */
int peer_crun_bundle(const char *bundle, const char *rootfs);

#endif
