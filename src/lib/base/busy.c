#include "lib/base/busy.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DETAIL_WORDS = BUSY_DETAIL_BYTES / 8 };

static _Atomic(const char *) busy_what;
static _Atomic uint64_t busy_words[DETAIL_WORDS]; /* a text with its end, as words */

static void detail_clear(void)
{
    atomic_store_explicit(&busy_words[0], 0, memory_order_relaxed);
}

const char *busy_enter(const char *what)
{
    return atomic_exchange_explicit(&busy_what, what, memory_order_relaxed);
}

void busy_leave(const char *const *before)
{
    atomic_store_explicit(&busy_what, *before, memory_order_relaxed);
    detail_clear();
}

void busy_detail(struct str first, struct str second)
{
    uint64_t words[DETAIL_WORDS] = {0};

    (void)snprintf((char *)words, sizeof(words), "%.*s %.*s", (int)(first.len % INT16_MAX),
                   first.at, (int)(second.len % INT16_MAX), second.at);
    for (size_t i = 0; i < DETAIL_WORDS; i++) {
        atomic_store_explicit(&busy_words[i], words[i], memory_order_relaxed);
    }
}

void busy_show(char out[BUSY_TEXT_BYTES])
{
    const char *what = atomic_load_explicit(&busy_what, memory_order_relaxed);
    uint64_t words[DETAIL_WORDS];

    for (size_t i = 0; i < DETAIL_WORDS; i++) {
        words[i] = atomic_load_explicit(&busy_words[i], memory_order_relaxed);
    }
    const char *detail = (const char *)words;
    (void)snprintf(out, BUSY_TEXT_BYTES, "%s%s%.*s", what ? what : "something without a name",
                   detail[0] ? ": " : "", (int)sizeof(words) - 1, detail);
}
