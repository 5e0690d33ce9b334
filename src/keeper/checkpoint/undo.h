/* undo.h - what CRIU does to a process that it looks into, noted so that it can be undone.
 *
 * CRIU overwrites some instructions, sets registers and the mask of signals, maps its own code, and
 * lets the process run that: it opens a socket, and makes readable what is not. A process that is
 * left so dies of the first trap. A note taken before each of these is enough to put it all back,
 * since the process runs nothing of its own in between.
 *
 * Owns:    the memory of a note.
 * Needs:   root; the caller traces the thread, and it stands still.
 * Blocks:  undo_process() until the process has made the system calls that it is made to.
 */
#ifndef CHECKPOINT_UNDO_H
#define CHECKPOINT_UNDO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct undo_range {
    unsigned long start, end;
    int prot; /* PROT_* */
};

struct undo_word {
    unsigned long at, was;
};

/* Of one thread; the second half for one that CRIU enters its process by. */
struct undo {
    bool noted;
    struct user_regs_struct regs;
    uint64_t mask;
    void *extended; /* floating point and vector registers */
    size_t extended_n;

    bool entered;
    struct undo_word *words;
    size_t words_n;
    struct undo_range *ranges; /* what was mapped, in the order of addresses */
    size_t ranges_n;
    bool *fds; /* which were open */
    size_t fds_n;
};

void undo_free(struct undo *undo);

/* Before anything is changed in the thread. Once is enough: later calls do nothing. */
void undo_note(struct undo *undo, pid_t tid);
/* Before the word at an address is overwritten. */
void undo_note_word(struct undo *undo, pid_t tid, unsigned long at);

/* What is mapped, open or overwritten in its process that was not. Fine when nothing is. */
void undo_process(const struct undo *undo, pid_t tid);
/* TCP connections of the process that CRIU holds still. */
void undo_sockets(pid_t tid);
/* Registers and mask. */
void undo_thread(const struct undo *undo, pid_t tid);

/* ---- parts that need no process, for tests ---- */

/* Reads the text of /proc/<pid>/maps; the caller frees the array. */
size_t undo_ranges_read(const char *maps, struct undo_range **out);

/* The next piece of `now`, from *at on, that is not as it was: true with the piece in *out, whose
 * prot is what it was, or -1 when it was not there. *at moves on. */
bool undo_ranges_differ(const struct undo_range *was, size_t was_n, const struct undo_range *now,
                        unsigned long *at, struct undo_range *out);

#endif
