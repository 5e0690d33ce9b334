/* log.h - one line per event on stderr: "2026-01-02T03:04:05.678Z info serve: text".
 *
 * An error is logged once, where it stops travelling; functions that return it do not log it. A
 * line is one write(), so lines of several processes on one terminal do not mix. Control characters
 * in the text are replaced: a name chosen by a tenant cannot forge a line.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"

enum { LOG_TURN_MS = 1000 };

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* The program's part in every line: "serve", "keeper", "agent". Borrowed. */
void log_init(const char *program, enum log_level least);

/* "debug", "info", "warn", "error"; -EINVAL for anything else. */
must_check int log_level_parse(const char *name, enum log_level *out);
const char *log_level_name(enum log_level level);

void log_write(enum log_level level, const char *fmt, ...) printf_like(2, 3);

/* Limits a line that a sandbox can cause as often as it likes: true once in LOG_TURN_MS. *last_ms,
 * 0 at first, belongs to the object that the line is about. */
bool log_turn(int64_t *last_ms);

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
