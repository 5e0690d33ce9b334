#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    LINE_MAX_BYTES = 1024,
};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static const char *log_program = "atoll";
static enum log_level log_least = LOG_INFO;

void log_init(const char *program, enum log_level least)
{
    log_program = program;
    log_least = least;
}

int log_level_parse(const char *name, enum log_level *out)
{
    for (size_t i = 0; i < countof(level_names); i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return 0;
        }
    }
    return -EINVAL;
}

void log_write(enum log_level level, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    char stamp[CLOCK_STAMP_BYTES];
    int saved = errno;
    va_list ap;

    if (level < log_least) {
        return;
    }
    clock_stamp(clock_wall_ms(), stamp);
    int n = snprintf(line, sizeof(line) - 1, "%s %s %s: ", stamp, level_names[level], log_program);
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof(line) - 1 - (size_t)n, fmt, ap);
    va_end(ap);

    size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (len > sizeof(line) - 2) {
        len = sizeof(line) - 2;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0) {
        /* Nobody is left to tell. */
    }
    errno = saved;
}
