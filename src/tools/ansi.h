/* ansi.h - what a terminal was sent, as a person would read it.
 *
 * Pure.
 */
#ifndef TOOLS_ANSI_H
#define TOOLS_ANSI_H

#include "lib/base/buf.h"
#include "lib/base/compiler.h"

/* Appends the text without escape sequences and control characters. What a line editor does within
 * a line (it returns, steps, erases, inserts, deletes) is applied: the line is there as it was
 * left. What leaves the line is not. A sequence without its end is left out. Linear in the text. */
must_check int ansi_strip(struct str text, struct buf *out);

/* Whether the text has nothing but escape sequences and carriage returns. */
bool ansi_shows_nothing(struct str text);

#endif
