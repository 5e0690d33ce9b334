#include "cli/grid.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "cli/cli.h"
#include "cli/terminal_text.h"
#include "lib/base/alloc.h"

enum { GAP = 2, COLUMN_MIN = 8, CELL_BYTES = 1024, COLUMNS_MAX = 24 };

void grid_fini(struct grid *grid)
{
    for (size_t i = 0; i < grid->cells_n; i++) {
        free(grid->cells[i].text);
    }
    free(grid->cells);
    grid->cells = NULL;
    grid->cells_n = 0;
}

/* ---- characters ---- */

/* Reads a character, and how many columns it takes; the bytes that it has. -1: it is not shown. */
static size_t character(const char *text, int *width)
{
    mbstate_t state = {0};
    wchar_t c = 0;
    size_t n = mbrtowc(&c, text, strlen(text), &state);

    size_t control = terminal_control_len(text);
    if (control > 0) {
        *width = -1;
        return control;
    }
    if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
        *width = -1;
        return 1;
    }
    *width = wcwidth(c);
    return n;
}

static char *cleaned(const char *text)
{
    char *out = xcalloc(strlen(text) + 1, 1);
    size_t n = 0;

    while (*text) {
        int width;
        size_t len = character(text, &width);
        if (width < 0) {
            out[n++] = '?';
        } else {
            (void)memcpy(out + n, text, len);
            n += len;
        }
        text += len;
    }
    return out;
}

size_t grid_width(const char *text)
{
    size_t sum = 0;

    while (*text) {
        int width;
        text += character(text, &width);
        sum += width < 0 ? 1 : (size_t)width;
    }
    return sum;
}

/* ---- cells ---- */

void grid_add(struct grid *grid, const char *text)
{
    if ((grid->cells_n & (grid->cells_n - 1)) == 0) { /* it is full at each power of two */
        size_t room = grid->cells_n ? 2 * grid->cells_n : 1;
        grid->cells = xrealloc(grid->cells, room * sizeof(*grid->cells));
    }
    grid->cells[grid->cells_n++] =
        (struct grid_cell){.text = cleaned(text && text[0] ? text : "-")};
}

void grid_addf(struct grid *grid, const char *fmt, ...)
{
    char text[CELL_BYTES];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    grid_add(grid, text);
}

void grid_paint(struct grid *grid, enum paint paint)
{
    grid->cells[grid->cells_n - 1].paint = paint;
}

size_t grid_rows(const struct grid *grid)
{
    return grid->cells_n / grid->columns_n;
}

/* ---- out ---- */

static void plain_print(const struct grid *grid, FILE *out)
{
    size_t n = grid_rows(grid) * grid->columns_n;

    for (size_t i = 0; i < n; i++) {
        (void)fprintf(out, "%s%c", grid->cells[i].text,
                      (i + 1) % grid->columns_n == 0 ? '\n' : '\t');
    }
}

static void widths_find(const struct grid *grid, size_t widths[COLUMNS_MAX])
{
    size_t n = grid_rows(grid) * grid->columns_n;

    for (size_t i = 0; i < grid->columns_n; i++) {
        widths[i] = grid_width(grid->columns[i].title);
    }
    for (size_t i = 0; i < n; i++) {
        size_t width = grid_width(grid->cells[i].text), column = i % grid->columns_n;
        widths[column] = width > widths[column] ? width : widths[column];
    }
}

/* Takes from the widest column that may shrink, until all fit or none can give more. */
static void widths_shrink(const struct grid *grid, size_t widths[COLUMNS_MAX], size_t room)
{
    size_t sum = (grid->columns_n - 1) * GAP;

    for (size_t i = 0; i < grid->columns_n; i++) {
        sum += widths[i];
    }
    while (sum > room) {
        size_t widest = grid->columns_n;
        for (size_t i = 0; i < grid->columns_n; i++) {
            bool gives = grid->columns[i].shrinks && widths[i] > COLUMN_MIN;
            if (gives && (widest == grid->columns_n || widths[i] > widths[widest])) {
                widest = i;
            }
        }
        if (widest == grid->columns_n) {
            return;
        }
        widths[widest]--;
        sum--;
    }
}

/* Prints as much of a text as the width holds, with an ellipsis where it is cut. */
static void cell_print(FILE *out, const char *text, size_t width, bool right, bool last)
{
    size_t whole = grid_width(text), used = 0, pad = whole < width ? width - whole : 0;
    bool cut = whole > width;

    (void)fprintf(out, "%*s", right ? (int)pad : 0, "");
    while (*text) {
        int w;
        size_t n = character(text, &w);
        used += (size_t)(w < 0 ? 1 : w);
        if (cut && used > width - 1) {
            (void)fputs("…", out);
            break;
        }
        (void)fwrite(text, 1, n, out);
        text += n;
    }
    (void)fprintf(out, "%*s", right || last ? 0 : (int)pad, "");
}

static void row_print(const struct grid *grid, FILE *out, const size_t widths[COLUMNS_MAX],
                      const struct grid_cell *row, const char *end)
{
    for (size_t i = 0; i < grid->columns_n; i++) {
        const struct grid_column *column = &grid->columns[i];
        enum paint paint = row ? row[i].paint : PAINT_BOLD;
        bool last = i + 1 == grid->columns_n;

        (void)fputs(terminal_paint(out, paint), out);
        cell_print(out, row ? row[i].text : column->title, widths[i], column->right, last);
        (void)fprintf(out, "%s%*s", paint ? terminal_plain(out) : "", last ? 0 : GAP, "");
    }
    (void)fprintf(out, "%s\n", end);
}

static void columns_print(const struct grid *grid, FILE *out, size_t rows, const char *end)
{
    size_t widths[COLUMNS_MAX] = {0};

    widths_find(grid, widths);
    widths_shrink(grid, widths, (size_t)terminal_width(out));
    row_print(grid, out, widths, NULL, end);
    for (size_t i = 0; i < rows && i < grid_rows(grid); i++) {
        row_print(grid, out, widths, grid->cells + i * grid->columns_n, end);
    }
}

void grid_print(const struct grid *grid, FILE *out)
{
    if (terminal_is(out)) {
        columns_print(grid, out, grid_rows(grid), "");
    } else {
        plain_print(grid, out);
    }
}

void grid_print_rows(const struct grid *grid, FILE *out, size_t rows)
{
    columns_print(grid, out, rows, "\033[K");
}

static void quiet_print(const json_t *list, const char *id)
{
    const json_t *row;
    size_t i;

    json_array_foreach (list, i, row) {
        char *text = cleaned(json_text_of(row, id));
        printf("%s\n", text);
        free(text);
    }
}

void grid_print_list(const struct cli *cli, const json_t *list, const char *id, struct grid *grid,
                     void (*add_row)(struct grid *grid, const json_t *row))
{
    const json_t *row;
    size_t i;

    if (cli->json) {
        cli_print_json(list);
    } else if (cli->quiet) {
        quiet_print(list, id);
    } else {
        json_array_foreach (list, i, row) {
            add_row(grid, row);
        }
        grid_print(grid, stdout);
    }
}
