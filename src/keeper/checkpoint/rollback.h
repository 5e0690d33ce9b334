/* rollback.h - notes what CRIU changes in a process that it dumps, and puts it back.
 *
 * CRIU overwrites some instructions, sets registers and the signal mask, maps its own code, and
 * runs it in the process: this opens a socket, and makes unreadable memory readable. A process that
 * is left in this state dies at the first trap. Notes taken before each change are enough to put
 * everything back, because the process runs no code of its own in between.
 *
 * Owns:    the memory of a note.
 * Needs:   root; the caller traces the thread, which is stopped.
 * Blocks:  rollback_process() until the process has made the system calls.
 * Threads: one, the tracer.
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

/* The notes of one thread. The second half is for the thread through which CRIU enters its
 * process. */
struct rollback {
    bool noted;
    struct user_regs_struct regs;
    uint64_t mask;
    void *extended; /* floating point and vector registers */
    size_t extended_n;

    bool entered;
    struct rollback_word *words;
    size_t words_n;
    struct rollback_range *ranges; /* the mappings, in the order of addresses */
    size_t ranges_n;
    bool *fds; /* whether each descriptor was open */
    size_t fds_n;
};

void rollback_free(struct rollback *rollback);

/* Called before a change in the thread. Only the first call has an effect. */
void rollback_note(struct rollback *rollback, pid_t tid);
/* Called before the word at an address is overwritten. */
void rollback_note_word(struct rollback *rollback, pid_t tid, unsigned long at);

/* Reverts mappings, descriptors and words that were changed in its process. Does nothing when none
 * were. */
void rollback_process(const struct rollback *rollback, pid_t tid);
/* Releases the TCP connections of the process that CRIU has frozen. */
void rollback_sockets(pid_t tid);
/* Restores registers and the signal mask. */
void rollback_thread(const struct rollback *rollback, pid_t tid);

/* ---- parts that need no process, for tests ---- */

/* Parses the text of /proc/<pid>/maps; the caller frees the array. */
size_t rollback_ranges_read(const char *maps, struct rollback_range **out);

/* Finds the next piece of `now`, from *at on, that differs from before. Returns true with the piece
 * in *out; its prot is the earlier one, or -1 when it was not mapped. *at is advanced. */
bool rollback_ranges_differ(const struct rollback_range *was, size_t was_n,
                            const struct rollback_range *now, unsigned long *at,
                            struct rollback_range *out);

#endif
