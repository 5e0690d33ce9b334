/* rig.h - a keeper of its own on a pool of its own, for tests; everything goes with rig_close().
 *
 * Owns:    a directory in /tmp, a btrfs pool in it, a keeper process, its control groups.
 * Needs:   root. Aborts where the rig itself cannot work: no test can say anything without it.
 */
#ifndef TESTS_SYSTEM_RIG_H
#define TESTS_SYSTEM_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "check.h"
#include "wire/keeper.h"

enum { RIG_WORKERS = 3 }; /* also on a machine with one processor */

struct rig {
    char dir[32];
    char pool[48];
    char socket[64];
    char instance[16];
    const char *agent;
    pid_t keeper;
    int fd;
    uint32_t seq;
    int task_timeout_ms; /* of the next keeper that is started; 0: as everywhere */
    uint32_t workers;    /* of the next keeper; 0: RIG_WORKERS, 1: none beside it */
};

struct rig_jail {
    char id[KEEPER_ID_BYTES];
    struct keeper_jail name;
    int pidfd;
    int channel;
};

/* main() of a program of tests: opens the rig with a template named base, calls `begin`, which may
 * be NULL and returns whether the tests can run, runs them, and closes the rig. Without root, or
 * the probe's path as the first argument, there are no tests to run, and it says so. */
int rig_main(struct rig *rig, int argc, char **argv, bool (*begin)(void),
             const struct check_test *tests, size_t n);

/* `agent` is what becomes pid 1 of jails. */
void rig_open(struct rig *rig, const char *agent);
void rig_close(struct rig *rig);

/* kill -9, and a new one. */
void rig_keeper_kill(struct rig *rig);
void rig_keeper_start(struct rig *rig);

/* A template: <pool>/layers/<name>, with the directories a root filesystem has. */
void rig_layer(struct rig *rig, const char *name);

/* A plan that a request may carry as it is: one layer, modest limits. */
struct keeper_request rig_create_request(const char *id, uint32_t slot, const char *layer);

/* Sends, and waits for the answer. Closes descriptors when fds is NULL. */
struct keeper_answer rig_ask(struct rig *rig, struct keeper_request *req, int fds[KEEPER_FDS_MAX]);

/* Another connection to the same keeper. */
struct rig rig_beside(const struct rig *rig);

/* The same in two steps. */
void rig_send(struct rig *rig, struct keeper_request *req);
struct keeper_answer rig_receive(struct rig *rig, int fds[KEEPER_FDS_MAX]);

struct keeper_answer rig_create(struct rig *rig, struct keeper_request *req, struct rig_jail *out);
struct keeper_answer rig_destroy(struct rig *rig, const char *id);

/* Destroys a jail at the end of a test, and fails the test when that fails. */
void rig_end(struct rig *rig, struct rig_jail *jail);
void rig_jail_close(struct rig_jail *jail); /* closes our descriptors; the jail runs on */

/* Prints why, when the save fails. */
struct keeper_answer rig_save(struct rig *rig, const char *id, const char *name, uint32_t flags);
struct keeper_answer rig_forget(struct rig *rig, const char *name);

/* Waits until the other side has hung up too: a jail with a connection to outside cannot be saved.
 */
void rig_hang_up(struct rig_jail *jail);

/* The probe's answer to a command. Static storage, until the next call. */
const char *rig_probe(const struct rig_jail *jail, const char *command);

/* Whether `part` is in the probe's answer; prints the answer when it is not. */
bool rig_says(const struct rig_jail *jail, const char *command, const char *part);

/* A file as the host sees it, and one of a process in /proc. Static storage, until the next call.
 */
const char *rig_host_read(const char *path);
const char *rig_host_read_proc(int pid, const char *name);

/* The host's name of a file in a layer. */
void rig_layer_path(const struct rig *rig, const char *layer, const char *path, char out[128]);

/* Whether anything of a jail is left: group, disk, mount. */
bool rig_trace_left(const struct rig *rig, const char *id);

#endif
