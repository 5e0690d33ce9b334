/* shell_pattern.c - matches a path against a pattern of an API shell.
 *
 * A pattern is a row of tokens, and a place is in front of one of them. All places at which the
 * path may be are followed at once, 64 per word, without backtracking: so the time is bounded by
 * the lengths of both.
 */
#include <stdint.h>

#include "serve/egress/shell.h"

enum {
    WORD_BITS = 64,
    WORDS = (SHELL_PATTERN_BYTES_MAX + WORD_BITS) / WORD_BITS, /* one place is behind them all */
    CHARACTERS = 256,
};

struct tokens {
    size_t n, words;
    uint64_t is[CHARACTERS][WORDS]; /* those that are this character */
    uint64_t some[WORDS];           /* "*": any text without a slash */
    uint64_t any[WORDS];            /* "**": any text */
};

static void token_add(struct tokens *tokens, uint64_t set[WORDS])
{
    set[tokens->n / WORD_BITS] |= UINT64_C(1) << tokens->n % WORD_BITS;
    tokens->n++;
}

/* More than two stars count as two. */
static void tokens_read(struct str pattern, struct tokens *out)
{
    *out = (struct tokens){0};
    while (pattern.len > 0) {
        size_t stars = 0;

        while (stars < pattern.len && pattern.at[stars] == '*') {
            stars++;
        }
        token_add(out, stars > 1    ? out->any
                       : stars == 1 ? out->some
                                    : out->is[(unsigned char)pattern.at[0]]);
        pattern = str_skip(pattern, stars ? stars : 1);
    }
    out->words = out->n / WORD_BITS + 1;
}

/* A star may stand for nothing: a place in front of a star is also behind it. */
static void pass_stars(const struct tokens *tokens, uint64_t places[WORDS])
{
    uint64_t carry = 0;

    for (size_t i = 0; i < tokens->words; i++) {
        uint64_t passed = places[i] & (tokens->some[i] | tokens->any[i]);

        places[i] |= passed << 1 | carry;
        carry = passed >> (WORD_BITS - 1);
    }
}

/* Where c leads from the places; false: nowhere. */
static bool advance(const struct tokens *tokens, unsigned char c, uint64_t places[WORDS])
{
    uint64_t carry = 0, left = 0;

    for (size_t i = 0; i < tokens->words; i++) {
        uint64_t stars = c == '/' ? tokens->any[i] : tokens->any[i] | tokens->some[i];
        uint64_t passed = places[i] & tokens->is[c][i];

        places[i] = (places[i] & stars) | passed << 1 | carry;
        carry = passed >> (WORD_BITS - 1);
        left |= places[i];
    }
    pass_stars(tokens, places);
    return left != 0;
}

bool shell_pattern_has(struct str pattern, struct str path)
{
    uint64_t places[WORDS] = {1};
    struct tokens tokens;

    if (pattern.len > SHELL_PATTERN_BYTES_MAX) {
        return false;
    }
    tokens_read(pattern, &tokens);
    pass_stars(&tokens, places);
    for (size_t i = 0; i < path.len; i++) {
        if (!advance(&tokens, (unsigned char)path.at[i], places)) {
            return false;
        }
    }
    return places[tokens.n / WORD_BITS] >> tokens.n % WORD_BITS & 1;
}
