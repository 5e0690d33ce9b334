/* text.h - texts that objects own, compared and replaced as a whole.
 *
 * Not inline: gcc's analyzer cannot follow texts into an object that others hold, and would report
 * them as leaked (see table.h).
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>

/* Copies; NULL is none. `text` may be part of what is replaced. */
void text_set(char **at, const char *text);

/* NULL is like NULL alone. */
bool text_same(const char *a, const char *b);

#endif
