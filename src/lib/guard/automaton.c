#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/base/table.h"
#include "lib/base/utf8.h"
#include "lib/guard/internal.h"

enum {
    ALIGNMENTS = 3, /* of a secret in the groups of base64 */
    SHARE_SHOWN = 4,
    STATES_PER_BYTE = 9, /* itself, and in two alphabets three times four thirds of it */
};

/* ---- secrets ---- */

struct wanted {
    size_t len;
    uint16_t tag;
    UT_hash_handle hh;
    char text[];
};

struct guard *guard_new(void)
{
    struct guard *guard = xnew(struct guard);

    memset(guard->first, 0xff, sizeof(guard->first));
    return guard;
}

void guard_free(struct guard *guard)
{
    struct wanted *secret, *next;

    if (!guard) {
        return;
    }
    HASH_ITER (hh, guard->secrets, secret, next) {
        HASH_DEL(guard->secrets, secret);
        explicit_bzero(secret->text, secret->len);
        free(secret);
    }
    if (guard->states) {
        explicit_bzero(guard->states, guard->n * sizeof(struct state));
        free(guard->states);
    }
    free(guard);
}

int guard_add(struct guard *guard, struct str text, struct err *err)
{
    return guard_add_tagged(guard, text, 0, err);
}

int guard_add_tagged(struct guard *guard, struct str text, uint16_t tag, struct err *err)
{
    struct wanted *secret;

    HASH_FIND(hh, guard->secrets, text.at, text.len, secret);
    if (secret || text.len == 0) {
        return 0;
    }
    if (text.len > GUARD_SECRETS_BYTES_MAX - guard->secrets_bytes) {
        return err_set(err, ENOSPC,
                       "the secrets to look for are too many or too long: together they may have"
                       " %d bytes",
                       GUARD_SECRETS_BYTES_MAX);
    }
    secret = xcalloc(1, sizeof(*secret) + text.len);
    secret->len = text.len;
    secret->tag = tag;
    memcpy(secret->text, text.at, text.len);
    HASH_ADD(hh, guard->secrets, text, secret->len, secret);
    guard->secrets_bytes += text.len;
    return 0;
}

static bool is_scheme(struct str word)
{
    static const char *const schemes[] = {"Bearer", "Basic", "Digest", "ApiKey"};

    for (size_t i = 0; i < countof(schemes); i++) {
        if (str_ieq(word, str_of(schemes[i]))) {
            return true;
        }
    }
    return false;
}

int guard_add_value(struct guard *guard, struct str value, struct err *err)
{
    return guard_add_value_tagged(guard, value, 0, err);
}

int guard_add_value_tagged(struct guard *guard, struct str value, uint16_t tag, struct err *err)
{
    struct str rest = value, word;
    int r = guard_add_tagged(guard, value, tag, err);

    while (r == 0 && str_split(&rest, ' ', &word)) {
        bool leads = rest.at && is_scheme(word); /* a key behind it */
        if (word.len >= GUARD_WORD_BYTES_MIN && !leads) {
            r = guard_add_tagged(guard, word, tag, err);
        }
    }
    return r;
}

/* ---- states ---- */

static int32_t child_find(const struct guard *guard, int32_t at, unsigned char c)
{
    if (at == 0) {
        return guard->first[c];
    }
    int32_t child = guard->states[at].child;
    while (child >= 0 && guard->states[child].c != c) {
        child = guard->states[child].sibling;
    }
    return child;
}

static int32_t child_make(struct guard *guard, int32_t at, unsigned char c)
{
    int32_t child = child_find(guard, at, c);

    if (child >= 0) {
        return child;
    }
    child = (int32_t)guard->n++;
    struct state *parent = &guard->states[at];
    guard->states[child] =
        (struct state){.c = c, .child = -1, .sibling = parent->child, .depth = parent->depth + 1};
    parent->child = child;
    if (at == 0) {
        guard->first[c] = child;
    }
    return child;
}

static void add_pattern(struct guard *guard, struct str text, struct ending ending, bool encoded)
{
    /* A stream shows at most this many, and at most that share, of a secret that is echoed. */
    size_t shown = text.len / SHARE_SHOWN < GUARD_SHOWN_BYTES ? text.len / SHARE_SHOWN
                                                              : (size_t)GUARD_SHOWN_BYTES;
    int32_t at = 0;

    for (size_t i = 0; i < text.len; i++) {
        at = child_make(guard, at, (unsigned char)text.at[i]);
        if (i >= shown) {
            guard->states[at].held = guard->states[at].depth;
        }
    }
    struct state *last = &guard->states[at];
    ending.len = last->depth;
    if (last->longest.len == 0) {
        last->longest = ending;
    }
    if (encoded && last->encoded.len == 0) {
        last->encoded = ending;
    }
    guard->longest = text.len > guard->longest ? text.len : guard->longest;
}

/* ---- what a secret looks like ---- */

/* Base64 of the secret behind `skipped` other bytes of a group of three: only the part that does
 * not depend on the bytes around it. */
static void add_base64(struct guard *guard, struct str secret, uint16_t tag, size_t skipped,
                       enum base64_kind alphabet)
{
    static const size_t mixed[ALIGNMENTS] = {0, 2, 3}; /* characters with bits of other bytes */
    const size_t rest = (skipped + secret.len) % ALIGNMENTS;
    scoped_buf(plain, secret.len + ALIGNMENTS);
    scoped_buf(text, 2 * secret.len + 16);

    if (buf_append(&plain, "\0\0", skipped) < 0 || buf_append(&plain, secret.at, secret.len) < 0 ||
        base64_encode(&text, buf_at(&plain), buf_len(&plain), alphabet) < 0) {
        abort(); /* both are as long as it takes */
    }
    struct str pattern = str_skip(buf_str(&text), mixed[skipped]);
    pattern.len -= rest ? 1 : 0;
    add_pattern(guard, pattern, (struct ending){.lead = skipped > 0, .tail = rest > 0, .tag = tag},
                true);
    explicit_bzero(plain.data, plain.cap);
    explicit_bzero(text.data, text.cap);
}

static void add_spellings(struct guard *guard, struct str secret, uint16_t tag)
{
    bool encoded = utf8_characters(secret) >= GUARD_ENCODED_CHARS_MIN;

    add_pattern(guard, secret, (struct ending){.tag = tag}, encoded);
    for (size_t skipped = 0; encoded && skipped < ALIGNMENTS; skipped++) {
        add_base64(guard, secret, tag, skipped, BASE64_STD_NOPAD);
        add_base64(guard, secret, tag, skipped, BASE64_URL_NOPAD);
    }
    guard->spaces = guard->spaces || (encoded && str_find(secret, ' ') < secret.len);
}

/* ---- from one state to the next ---- */

int32_t guard_step(const struct guard *guard, int32_t at, unsigned char c)
{
    for (;;) {
        int32_t child = child_find(guard, at, c);
        if (child >= 0) {
            return child;
        }
        if (at == 0) {
            return 0;
        }
        at = guard->states[at].fail;
    }
}

/* A match of the fallback state is a match here too, unless a longer one is known. */
static void state_link(struct guard *guard, int32_t at, int32_t parent)
{
    struct state *state = &guard->states[at];

    state->fail = parent == 0 ? 0 : guard_step(guard, guard->states[parent].fail, state->c);
    const struct state *fail = &guard->states[state->fail];
    if (state->longest.len == 0) {
        state->longest = fail->longest;
    }
    if (state->encoded.len == 0) {
        state->encoded = fail->encoded;
    }
    if (state->held == 0) {
        state->held = fail->held;
    }
}

/* Level by level: a state falls back to one that is nearer to the root. */
static void states_link(struct guard *guard)
{
    int32_t *queue = xcalloc(guard->n, sizeof(*queue));
    size_t n = 1;

    for (size_t i = 0; i < n; i++) {
        for (int32_t at = guard->states[queue[i]].child; at >= 0; at = guard->states[at].sibling) {
            state_link(guard, at, queue[i]);
            queue[n++] = at;
        }
    }
    free(queue);
}

/* There is room for as many states as the patterns have bytes: pages that none uses stay unused. */
void guard_ready(struct guard *guard)
{
    struct wanted *secret, *next;

    guard->states = xcalloc(1 + STATES_PER_BYTE * guard->secrets_bytes, sizeof(struct state));
    guard->states[0] = (struct state){.child = -1, .sibling = -1};
    guard->n = 1;
    HASH_ITER (hh, guard->secrets, secret, next) {
        add_spellings(guard, (struct str){secret->text, secret->len}, secret->tag);
    }
    states_link(guard);
}
