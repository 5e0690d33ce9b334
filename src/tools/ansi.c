#include "tools/ansi.h"

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

static size_t line_start(const struct buf *out, size_t from)
{
    size_t at = buf_len(out);

    while (at > from && buf_at(out)[at - 1] != '\n') {
        at--;
    }
    return at;
}

static void cut_to(struct buf *out, size_t len)
{
    out->end = out->start + len;
}

/* Looks at the one character alone, not at its line: that may be long, and the steps many. */
static void step_back(struct buf *out, size_t from)
{
    size_t at = buf_len(out);

    while (at > from && ((unsigned char)buf_at(out)[at - 1] & 0xc0) == 0x80) {
        at--;
    }
    cut_to(out, at > from && buf_at(out)[at - 1] != '\n' ? at - 1 : at);
}

/* A return that a line's end follows, perhaps behind more returns, writes over nothing. Of several
 * the last one decides. */
static bool overwrites(struct str behind)
{
    return behind.len && behind.at[0] != '\r' && behind.at[0] != '\n';
}

int ansi_strip(struct str text, struct buf *out)
{
    size_t from = buf_len(out);
    int r = 0;

    for (size_t i = 0; r == 0 && i < text.len;) {
        char c = text.at[i];
        struct str behind = str_skip(text, i + 1);

        if (c == '\033') {
            i += sequence_len(str_skip(text, i));
            continue;
        }
        i++;
        if (c == '\r') {
            if (overwrites(behind)) {
                cut_to(out, line_start(out, from));
            }
        } else if (c == '\b') {
            step_back(out, from);
        } else if ((unsigned char)c >= ' ' ? c != 0x7f : c == '\n' || c == '\t') {
            r = buf_append(out, &c, 1);
        }
    }
    return r;
}
