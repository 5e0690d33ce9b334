/* progress.h - how far a long transfer is: one line on stderr, if that is a terminal.
 *
 * Owns:     the line while it is shown.
 * Blocks:   on the terminal.
 * Threads:  any, one at a time.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    int64_t begun_ms, told_ms;
    bool wanted, shown;
};

/* Shows nothing during the first second, nor where stderr is no terminal. */
void progress_begin(struct progress *progress, bool wanted);

/* `all` is -1 when it is not known. May be called often. */
void progress_tell(struct progress *progress, int64_t done, int64_t all);

/* Clears the line. */
void progress_end(struct progress *progress);

#endif
