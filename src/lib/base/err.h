/* err.h - errors that carry a sentence.
 *
 * An error is a plain value the caller owns: no heap, so it can be filled between clone() and
 * exec(), and written whole over a pipe from a sandbox's first process to the daemon.
 *
 * Convention: a function that can fail returns int, 0 (or a useful positive number) on success and
 * -errno on failure. When the number alone would not tell an operator what to do, it takes a
 * `struct err *err` as its last parameter. `err` is written only on failure, and is never NULL.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "lib/base/compiler.h"

struct err {
    int code;      /* an errno value, positive; 0 while nothing has failed */
    char msg[252]; /* one line, no full stop, cut with "..." if it does not fit */
};

/* Each returns -code, so a failing frame is one statement: `return err_set(err, EINVAL, ...)`. */
int err_set(struct err *err, int code, const char *fmt, ...) printf_like(3, 4);

/* As err_set(), with errno as the code and its description after the message. */
int err_sys(struct err *err, const char *fmt, ...) printf_like(2, 3);

/* As err_sys(), with `code` in place of errno: for a callee that returned -code without a sentence.
 */
int err_code(struct err *err, int code, const char *fmt, ...) printf_like(3, 4);

/* Puts context before a message that a callee left: "start sandbox x: " + "mount /proc: ...". */
int err_wrap(struct err *err, const char *fmt, ...) printf_like(2, 3);

/* Marks a text in a sentence that this side made, or that its reader has sent. In files that handle
 * secrets every text needs this mark, or must be redacted (lib/guard/said.h);
 * tools/check-redaction.py holds them to it. */
#define ours(text) (text)

#endif
