/* grid.h - rows of text in columns.
 *
 * On a terminal: a line of titles, columns as wide as their contents, numbers to the right; columns
 * that may shrink do so until a row fits the terminal. Elsewhere: one tab between the fields and no
 * titles, for cut and awk.
 *
 * The texts may come from a sandbox: nothing in them can move the cursor, end a line or turn the
 * direction of writing around.
 */
#ifndef CLI_GRID_H
#define CLI_GRID_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/terminal.h"
#include "lib/base/compiler.h"

struct grid_column {
    const char *title;
    bool right;   /* numbers */
    bool shrinks; /* is cut where the terminal is too narrow */
};

struct grid_cell {
    char *text;
    enum paint paint;
};

struct grid {
    const struct grid_column *columns;
    size_t columns_n;
    struct grid_cell *cells; /* row by row */
    size_t cells_n;
};

#define grid_of(list) ((struct grid){.columns = (list), .columns_n = countof(list)})

void grid_fini(struct grid *grid);

/* Adds the next cell, from left to right and row by row. NULL and "" are shown as "-". */
void grid_add(struct grid *grid, const char *text);
void grid_addf(struct grid *grid, const char *fmt, ...) printf_like(2, 3);

/* Colours the cell that was added last. */
void grid_paint(struct grid *grid, enum paint paint);

size_t grid_rows(const struct grid *grid);
void grid_print(const struct grid *grid, FILE *out);

/* The first `rows` rows alone, with titles, each line cleared to its end: for a live display. */
void grid_print_rows(const struct grid *grid, FILE *out, size_t rows);

/* Prints a list of the API: as it is with --json, one member of each row with -q, else as a grid
 * that add_row() fills. */
struct cli;
void grid_print_list(const struct cli *cli, const json_t *list, const char *id, struct grid *grid,
                     void (*add_row)(struct grid *grid, const json_t *row));

/* Columns of a terminal that a text takes. */
size_t grid_width(const char *text);

#endif
