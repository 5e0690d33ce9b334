#include "lib/guard/said.h"

#include <assert.h>
#include <stdio.h>

enum {
    REDACTED_BYTES_MAX = 512 * 1024, /* a mark is longer than a short secret */
};

/* Neither control characters, which forge lines, nor a character that a cut has halved. */
static void copy_printable(struct str text, char *out, size_t size)
{
    size_t n = text.len < size - 1 ? text.len : size - 1;

    for (size_t i = 0; i < n; i++) {
        out[i] = text.at[i];
        if (out[i] < ' ' || out[i] > '~') {
            out[i] = '?';
        }
    }
    out[n] = '\0';
    if (text.len > n) {
        (void)snprintf(out + size - sizeof("..."), sizeof("..."), "...");
    }
}

const char *guard_said(const struct guard *guard, struct str text, struct said *out)
{
    scoped_buf(clean, REDACTED_BYTES_MAX);
    size_t count = 0;

    assert(guard);
    if (guard_redact(guard, text, &clean, &count) < 0) {
        copy_printable(STR("(too long to be shown)"), out->text, sizeof(out->text));
    } else {
        copy_printable(buf_str(&clean), out->text, sizeof(out->text));
    }
    return out->text;
}
