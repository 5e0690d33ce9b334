/* hidden_value.h - a value that must not show in the list of processes, in the history of a shell
 * or on the screen.
 *
 * Blocks:   until it is typed, or stdin ends.
 */
#ifndef CLI_HIDDEN_VALUE_H
#define CLI_HIDDEN_VALUE_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum { HIDDEN_VALUE_BYTES = 64 * 1024 };

/* From a terminal: asks, without an echo. Else: all of stdin, without the last line's end. */
must_check int hidden_value_read(const char *question, char out[HIDDEN_VALUE_BYTES],
                                 struct err *err);

#endif
