/* ansi.h - what a terminal was sent, as a person would read it.
 *
 * Pure.
 */
#ifndef TOOLS_ANSI_H
#define TOOLS_ANSI_H

#include "base/buf.h"
#include "base/compiler.h"

/* Appends the text without escape sequences and control characters. A line that was written over
 * (carriage return, backspace) is there as it was left. A sequence without its end is left out. */
must_check int ansi_strip(struct str text, struct buf *out);

#endif
