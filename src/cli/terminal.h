/* terminal.h - whether output goes to a person, and how it looks there. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

enum { TERMINAL_WIDTH = 80, TERMINAL_HEIGHT = 24 }; /* of a terminal that does not say */

enum paint { PAINT_NONE, PAINT_BOLD, PAINT_DIM, PAINT_RED, PAINT_GREEN, PAINT_YELLOW, PAINT_CYAN };

/* Whether columns, progress and questions make sense there. */
bool terminal_is(FILE *out);

/* Whether colours do: it is a terminal, and neither NO_COLOR nor TERM=dumb says otherwise. */
bool terminal_has_colours(FILE *out);

/* The sequence that begins a colour, and the one that ends it; "" without colours. */
const char *terminal_paint(FILE *out, enum paint paint);
const char *terminal_plain(FILE *out);

/* In characters. */
int terminal_width(FILE *out);
int terminal_height(FILE *out);

#endif
