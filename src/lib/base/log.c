#include "lib/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/utf8.h"

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

const char *log_level_name(enum log_level level)
{
    return level_names[level];
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

/* Bytes of the character at the front, or 0 for what a terminal could take for a command: control
 * characters, also those of ISO 6429's upper half, and what is no UTF-8. */
static size_t shown_len(struct str text)
{
    const unsigned char *at = (const unsigned char *)text.at;

    if (at[0] < 0x80) {
        return at[0] >= 0x20 && at[0] != 0x7f;
    }
    for (size_t n = 2; n <= 4 && n <= text.len; n++) {
        if (utf8_valid((struct str){text.at, n})) {
            return at[0] == 0xc2 && at[1] < 0xa0 ? 0 : n;
        }
    }
    return 0;
}

static void line_tame(char *line, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = shown_len((struct str){line + i, len - i});

        if (n == 0) {
            line[i++] = '?';
        }
        i += n;
    }
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
    line_tame(line, len);
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0) {
        /* Nobody is left to tell. */
    }
    errno = saved;
}

bool log_turn(int64_t *last_ms)
{
    int64_t now_ms = clock_mono_ms();

    if (*last_ms && now_ms - *last_ms < LOG_TURN_MS) {
        return false;
    }
    *last_ms = now_ms;
    return true;
}
