#include "tools/ansi.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum {
    LINE_CELLS_MAX = 1024, /* of one line: before them nothing is edited any more */
    TERMINAL_COLUMNS = 80, /* of a session that does not say */
};

/* ---- sequences ---- */

/* Up to BEL or ESC \: what OSC, DCS and their like end with. */
static size_t string_len(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] == '\a') {
            return i + 1;
        }
        if (s.at[i] == '\033') {
            return i + 1 < s.len && s.at[i + 1] == '\\' ? i + 2 : i;
        }
    }
    return s.len;
}

/* Up to the first byte of the range that ends it, with that byte. */
static size_t until_len(struct str s, char first)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] >= first && s.at[i] <= '~') {
            return i + 1;
        }
    }
    return s.len;
}

/* How long the sequence is that begins with ESC. */
static size_t sequence_len(struct str s)
{
    struct str rest = str_skip(s, 2);

    if (s.len < 2) {
        return s.len;
    }
    switch (s.at[1]) {
    case '[':
        return 2 + until_len(rest, '@');
    case ']':
    case 'P':
    case 'X':
    case '^':
    case '_':
        return 2 + string_len(rest);
    default: /* "ESC ( B": bytes in between, then a final one */
        return s.at[1] >= ' ' && s.at[1] <= '/' ? 2 + until_len(rest, '0') : 2;
    }
}

/* ---- the line that is being written ---- */

/* A cell is the bytes of one character; every one is taken to be a column wide. */
struct cell {
    char bytes[4];
};

/* Cells before the window are in `out` already. So a step never costs more than the window, and no
 * terminal of a session is wider. */
struct line {
    struct cell cells[LINE_CELLS_MAX];
    size_t len;
    size_t at;     /* the cursor: below LINE_CELLS_MAX */
    size_t joined; /* bytes that still belong to the character before the cursor */
    bool begun;    /* within this text */
    struct buf *out;
};

static const struct cell blank = {" "};

static int cells_flush(struct line *line, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        const struct cell *cell = &line->cells[i];
        r = buf_append(line->out, cell->bytes, strnlen(cell->bytes, sizeof(cell->bytes)));
    }
    line->len -= n;
    line->at -= n < line->at ? n : line->at;
    memmove(line->cells, line->cells + n, line->len * sizeof(line->cells[0]));
    return r;
}

/* Blanks behind the cursor are what is left of erased text. */
static int line_end(struct line *line)
{
    while (line->len > line->at && line->cells[line->len - 1].bytes[0] == ' ') {
        line->len--;
    }
    int r = cells_flush(line, line->len);
    line->at = 0;
    return r;
}

static void blank_until(struct line *line, size_t end)
{
    for (; line->len < end; line->len++) {
        line->cells[line->len] = blank;
    }
}

static size_t bytes_behind(char lead)
{
    unsigned char c = (unsigned char)lead;

    return c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
}

static int byte_put(struct line *line, char c)
{
    bool continues = ((unsigned char)c & 0xc0) == 0x80;
    int r = 0;

    if (continues && line->joined > 0) {
        struct cell *cell = &line->cells[line->at - 1];
        cell->bytes[strnlen(cell->bytes, sizeof(cell->bytes) - 1)] = c;
        line->joined--;
        return 0;
    }
    blank_until(line, line->at);
    line->cells[line->at] = (struct cell){{c}};
    line->at++;
    line->len = line->len > line->at ? line->len : line->at;
    line->joined = bytes_behind(c);
    if (line->at == LINE_CELLS_MAX) { /* its last character may still grow */
        r = cells_flush(line, LINE_CELLS_MAX - 1);
    }
    return r;
}

/* ---- moving and erasing within the line ---- */

static void move_to(struct line *line, size_t column)
{
    line->at = column < LINE_CELLS_MAX ? column : LINE_CELLS_MAX - 1;
}

static void erase(struct line *line, size_t how)
{
    if (how == 0 && line->at < line->len) {
        line->len = line->at;
    } else if (how == 2) {
        line->len = 0;
    }
    for (size_t i = 0; how == 1 && i <= line->at && i < line->len; i++) {
        line->cells[i] = blank;
    }
}

static void delete_cells(struct line *line, size_t n)
{
    if (line->at < line->len) {
        size_t behind = line->len - line->at;
        n = n < behind ? n : behind;
        memmove(line->cells + line->at, line->cells + line->at + n,
                (behind - n) * sizeof(line->cells[0]));
        line->len -= n;
    }
}

/* Cells that are pushed out at the window's end are lost, as at the edge of a terminal. */
static void insert_cells(struct line *line, size_t n)
{
    if (line->at < line->len) {
        size_t room = LINE_CELLS_MAX - 1 - line->at, behind = line->len - line->at;
        n = n < room ? n : room;
        behind = behind < room - n ? behind : room - n;
        memmove(line->cells + line->at + n, line->cells + line->at,
                behind * sizeof(line->cells[0]));
        line->len = line->at;
        blank_until(line, line->at + n);
        line->len += behind;
    }
}

/* The number of "ESC [ number letter"; `none` when there is none or it is 0. */
static size_t parameter(struct str sequence, size_t none)
{
    size_t n = 0;

    for (size_t i = 2; i < sequence.len && isdigit((unsigned char)sequence.at[i]); i++) {
        n = n < LINE_CELLS_MAX ? 10 * n + (size_t)(sequence.at[i] - '0') : n;
    }
    return n ? n : none;
}

/* Sequences that leave the line, and those of colours and modes, do nothing here. */
static void sequence_apply(struct line *line, struct str sequence)
{
    size_t n = parameter(sequence, 1);

    if (sequence.len < 3 || sequence.at[1] != '[') {
        return;
    }
    switch (sequence.at[sequence.len - 1]) {
    case 'C':
        move_to(line, line->at + n);
        break;
    case 'D':
        move_to(line, line->at - (n < line->at ? n : line->at));
        break;
    case 'G':
        move_to(line, n - 1);
        break;
    case 'J':
        if (parameter(sequence, 0) == 0) {
            erase(line, 0);
        }
        break;
    case 'K':
        erase(line, parameter(sequence, 0));
        break;
    case 'P':
        delete_cells(line, n);
        break;
    case '@':
        insert_cells(line, n);
        break;
    default:
        break;
    }
}

/* ---- the whole ---- */

/* A carriage return before a line end, perhaps after more returns, moves nothing: the cursor is
 * still where the text ends. */
static bool returns(struct str behind)
{
    return behind.len && behind.at[0] != '\r' && behind.at[0] != '\n';
}

/* At the edge, line editors write a blank or the next character, a return, and then go on, so that
 * the terminal moves to its next row: for us that is the same line. The column at which the first
 * line of a text began is unknown, so its edge may be anywhere. */
static bool wraps(const struct line *line, struct str rest)
{
    bool is_edge = line->at % TERMINAL_COLUMNS == 0;

    if (line->at == 0 || line->at < line->len || rest.len < 3 || rest.at[1] != '\r' ||
        (unsigned char)rest.at[2] < ' ') {
        return false;
    }
    return rest.at[0] == rest.at[2] ? is_edge || !line->begun : is_edge && rest.at[0] == ' ';
}

static int control_take(struct line *line, char c, struct str behind)
{
    int r = 0;

    if (c == '\n') {
        r = line_end(line);
        line->begun = true;
        r = r < 0 ? r : buf_append(line->out, "\n", 1);
    } else if (c == '\t') {
        r = byte_put(line, c);
    } else if (c == '\r' && returns(behind)) {
        line->at = 0;
    } else if (c == '\b' && line->at > 0) {
        line->at--;
    }
    line->joined = 0;
    return r;
}

int ansi_strip(struct str text, struct buf *out)
{
    struct line line = {.out = out};
    size_t n;
    int r = 0;

    for (; r == 0 && text.len; text = str_skip(text, n)) {
        char c = text.at[0];
        n = 1;
        if (c == '\033') {
            n = sequence_len(text);
            line.joined = 0;
            sequence_apply(&line, (struct str){text.at, n});
        } else if (wraps(&line, text)) {
            n = 2;
        } else if ((unsigned char)c < ' ') {
            r = control_take(&line, c, str_skip(text, 1));
        } else if (c != 0x7f) {
            r = byte_put(&line, c);
        }
    }
    return r < 0 ? r : line_end(&line);
}

bool ansi_shows_nothing(struct str text)
{
    while (text.len && (text.at[0] == '\033' || text.at[0] == '\r')) {
        text = str_skip(text, text.at[0] == '\033' ? sequence_len(text) : 1);
    }
    return text.len == 0;
}
