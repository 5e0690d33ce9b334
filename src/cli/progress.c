#include "cli/progress.h"

#include <stdio.h>

#include "cli/terminal.h"
#include "cli/units.h"
#include "lib/base/clock.h"

enum { SHORT_MS = 1000, PAUSE_MS = 200 };

void progress_begin(struct progress *progress, bool wanted)
{
    *progress =
        (struct progress){.begun_ms = clock_mono_ms(), .wanted = wanted && terminal_is(stderr)};
}

void progress_tell(struct progress *progress, int64_t done, int64_t all)
{
    char text[UNITS_BYTES];
    int64_t now = progress->wanted ? clock_mono_ms() : 0;

    if (!progress->wanted || now - progress->begun_ms < SHORT_MS ||
        now - progress->told_ms < PAUSE_MS) {
        return;
    }
    progress->told_ms = now;
    progress->shown = true;
    (void)fprintf(stderr, "\r\033[K%s", units_size((double)done, text));
    if (all > 0) {
        int percent = done >= all ? 100 : (int)(done * 100 / all);
        (void)fprintf(stderr, " of %s (%d %%)", units_size((double)all, text), percent);
    }
    (void)fflush(stderr);
}

void progress_end(struct progress *progress)
{
    if (progress->shown) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
    progress->shown = false;
}
