#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/compiler.h"

bool terminal_is(FILE *out)
{
    return isatty(fileno(out));
}

bool terminal_has_colours(FILE *out)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return terminal_is(out) && !(no && no[0]) && !(term && strcmp(term, "dumb") == 0);
}

const char *terminal_paint(FILE *out, enum paint paint)
{
    static const char *const sequences[] = {
        [PAINT_NONE] = "",         [PAINT_BOLD] = "\033[1m",   [PAINT_DIM] = "\033[2m",
        [PAINT_RED] = "\033[31m",  [PAINT_GREEN] = "\033[32m", [PAINT_YELLOW] = "\033[33m",
        [PAINT_CYAN] = "\033[36m",
    };

    return terminal_has_colours(out) ? sequences[paint] : "";
}

const char *terminal_plain(FILE *out)
{
    return terminal_has_colours(out) ? "\033[0m" : "";
}

static struct winsize size_of(FILE *out)
{
    struct winsize size = {0};

    if (ioctl(fileno(out), TIOCGWINSZ, &size) < 0) {
        size = (struct winsize){0};
    }
    return size;
}

int terminal_width(FILE *out)
{
    int width = size_of(out).ws_col;

    return width > 0 ? width : TERMINAL_WIDTH;
}

int terminal_height(FILE *out)
{
    int height = size_of(out).ws_row;

    return height > 0 ? height : TERMINAL_HEIGHT;
}
