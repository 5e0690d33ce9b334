#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The usual table of distances between the beginnings of both words; three rows of it are enough,
 * since a swap looks two rows back. */
size_t suggest_edits(const char *a, const char *b)
{
    size_t rows[3][SUGGEST_BYTES + 1];
    size_t n = strnlen(a, SUGGEST_BYTES), m = strnlen(b, SUGGEST_BYTES);

    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], second[j - 2] + 1);
            }
        }
    }
    return rows[n % 3][m];
}

void suggest_init(struct suggest *suggest, const char *word)
{
    *suggest = (struct suggest){.word = word, .best = 1 + strnlen(word, SUGGEST_BYTES) / 3};
}

/* A candidate that the word begins is better than any that is merely similar. */
void suggest_offer(struct suggest *suggest, const char *candidate)
{
    size_t len = strlen(suggest->word);
    bool begins = len > 1 && strncmp(candidate, suggest->word, len) == 0;
    size_t edits = begins ? 0 : suggest_edits(suggest->word, candidate);

    if (edits < suggest->best || (edits == suggest->best && !suggest->found[0])) {
        suggest->best = edits;
        (void)snprintf(suggest->found, sizeof(suggest->found), "%s", candidate);
    }
}

const char *suggest_text(const struct suggest *suggest, char *out, size_t size)
{
    out[0] = '\0';
    if (suggest->found[0]) {
        (void)snprintf(out, size, "; did you mean '%s'?", suggest->found);
    }
    return out;
}
