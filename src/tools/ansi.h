/* ansi.h - the output of a terminal as readable text.
 *
 * Pure.
 */
#ifndef TOOLS_ANSI_H
#define TOOLS_ANSI_H

#include "lib/base/buf.h"
#include "lib/base/compiler.h"

/* Appends the text without escape sequences and control characters. The steps of a line editor
 * within a line (return, move, erase, insert, delete) are applied: the text has the final line.
 * Moves to other lines are not. A sequence without its end is left out. Linear in the text. */
must_check int ansi_strip(struct str text, struct buf *out);

/* Whether the text has nothing but escape sequences and carriage returns. */
bool ansi_shows_nothing(struct str text);

#endif
