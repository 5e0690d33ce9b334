/* busy.h - names what the loop's thread is doing, so that the watchdog can log it.
 *
 *     busy("a message of an agent");    names the rest of the block, and what it calls
 *     busy_detail(method, path);        says more about it, until the block ends
 *
 * Owns:     one name for the process. Names are literals; a detail is copied, and cut to fit.
 * Blocks:   never; a name costs two stores, a detail a copy of BUSY_DETAIL_BYTES.
 * Threads:  the loop's names; any thread may read. A block that names itself must not be left by a
 *           fiber's wait.
 */
#ifndef BASE_BUSY_H
#define BASE_BUSY_H

#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum {
    BUSY_DETAIL_BYTES = 96,
    BUSY_TEXT_BYTES = BUSY_DETAIL_BYTES + 64,
};

const char *busy_enter(const char *what); /* gives the name that was there before */
void busy_leave(const char *const *before);
void busy_detail(struct str first, struct str second);

/* clang does not count the cleanup as a use. */
#define busy(what)                                                                                 \
    scoped(busy_leave) __attribute__((unused)) const char *const busy_before_ = busy_enter(what)

/* The work that is running, as a clause. A name that changes meanwhile may come out mixed. */
void busy_show(char out[BUSY_TEXT_BYTES]);

#endif
