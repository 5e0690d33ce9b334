/* rollback.h - what CRIU does to a process that it looks into, noted so that it can be undone.
 *
 * CRIU overwrites some instructions, sets registers and the mask of signals, maps its own code, and
 * lets the process run that: it opens a socket, and makes readable what is not. A process that is
 * left so dies of the first trap. A note taken before each of these is enough to put it all back,
 * since the process runs nothing of its own in between.
 *
 * Owns:    the memory of a note.
 * Needs:   root; the caller traces the thread, and it stands still.
 * Blocks:  rollback_process() until the process has made the system calls that it is made to.
 */
#ifndef CHECKPOINT_ROLLBACK_H
#define CHECKPOINT_ROLLBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct rollback_range {
    unsigned long start, end;
    int prot; /* PROT_* */
};

struct rollback_word {
    unsigned long at, was;
};

/* Of one thread; the second half for one that CRIU enters its process by. */
struct rollback {
    bool noted;
    struct user_regs_struct regs;
    uint64_t mask;
    void *extended; /* floating point and vector registers */
    size_t extended_n;

    bool entered;
    struct rollback_word *words;
    size_t words_n;
    struct rollback_range *ranges; /* what was mapped, in the order of addresses */
    size_t ranges_n;
    bool *fds; /* which were open */
    size_t fds_n;
};

void rollback_free(struct rollback *rollback);

/* Before anything is changed in the thread. Once is enough: later calls do nothing. */
void rollback_note(struct rollback *rollback, pid_t tid);
/* Before the word at an address is overwritten. */
void rollback_note_word(struct rollback *rollback, pid_t tid, unsigned long at);

/* What is mapped, open or overwritten in its process that was not. Fine when nothing is. */
void rollback_process(const struct rollback *rollback, pid_t tid);
/* TCP connections of the process that CRIU holds still. */
void rollback_sockets(pid_t tid);
/* Registers and mask. */
void rollback_thread(const struct rollback *rollback, pid_t tid);

/* ---- parts that need no process, for tests ---- */

/* Reads the text of /proc/<pid>/maps; the caller frees the array. */
size_t rollback_ranges_read(const char *maps, struct rollback_range **out);

/* The next piece of `now`, from *at on, that is not as it was: true with the piece in *out, whose
 * prot is what it was, or -1 when it was not there. *at moves on. */
bool rollback_ranges_differ(const struct rollback_range *was, size_t was_n,
                            const struct rollback_range *now, unsigned long *at,
                            struct rollback_range *out);

#endif
