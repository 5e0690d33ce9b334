#include "lib/base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* vsnprintf() that marks a cut, so that a truncated path is not mistaken for a whole one. */
static void printf_like(3, 0) format_msg(char *dst, size_t size, const char *fmt, va_list ap)
{
    int n = vsnprintf(dst, size, fmt, ap);

    if (n >= 0 && (size_t)n >= size) {
        memcpy(dst + size - sizeof("..."), "...", sizeof("..."));
    }
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
    va_list ap;

    assert(err);
    assert(code > 0);

    err->code = code;
    va_start(ap, fmt);
    format_msg(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    return -code;
}

static int printf_like(3, 0) describe(struct err *err, int code, const char *fmt, va_list ap)
{
    char msg[sizeof(err->msg) - 64]; /* leaves room for the longest errno description */

    format_msg(msg, sizeof(msg), fmt, ap);
    /* strerrordesc_np() neither allocates nor translates: usable in a freshly cloned child. */
    const char *why = strerrordesc_np(code);
    return err_set(err, code, "%s: %s", msg, why ? why : "unknown error");
}

int err_sys(struct err *err, const char *fmt, ...)
{
    int code = errno;
    va_list ap;

    va_start(ap, fmt);
    int r = describe(err, code, fmt, ap);
    va_end(ap);
    return r;
}

int err_code(struct err *err, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int r = describe(err, code, fmt, ap);
    va_end(ap);
    return r;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    char inner[sizeof(err->msg)];
    char outer[sizeof(err->msg)];
    va_list ap;

    assert(err);
    assert(err->code > 0);

    memcpy(inner, err->msg, sizeof(inner));
    va_start(ap, fmt);
    format_msg(outer, sizeof(outer), fmt, ap);
    va_end(ap);
    return err_set(err, err->code, "%s: %s", outer, inner);
}
