#include "tools/nearest.h"

#include "lib/base/compiler.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool same(struct str a, size_t i, struct str b, size_t j)
{
    return char_lower(a.at[i - 1]) == char_lower(b.at[j - 1]);
}

/* Three rows of the table of all prefixes: row[0] is the one being filled. */
size_t nearest_distance(struct str a, struct str b)
{
    unsigned char rows[3][NEAREST_BYTES_MAX + 1];
    unsigned char *row[3] = {rows[0], rows[1], rows[2]};

    if (a.len > NEAREST_BYTES_MAX || b.len > NEAREST_BYTES_MAX) {
        return NEAREST_BYTES_MAX + 1;
    }
    for (size_t i = 0; i <= a.len; i++) {
        row[0][0] = (unsigned char)i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t best = j;
            if (i > 0) {
                best = least(row[1][j], row[0][j - 1]) + 1u;
                best = least(best, row[1][j - 1] + (same(a, i, b, j) ? 0u : 1u));
            }
            if (i > 1 && j > 1 && same(a, i, b, j - 1) && same(a, i - 1, b, j)) {
                best = least(best, row[2][j - 2] + 1u);
            }
            row[0][j] = (unsigned char)best;
        }
        unsigned char *oldest = row[2];
        row[2] = row[1];
        row[1] = row[0];
        row[0] = oldest;
    }
    return row[1][b.len];
}

/* A word that is the beginning or a part of the name counts as two typing errors. */
static size_t distance_of(struct str word, struct str name)
{
    size_t distance = nearest_distance(word, name);
    bool within =
        word.len >= 4 && (memmem(name.at, name.len, word.at, word.len) ||
                          (name.len >= 4 && memmem(word.at, word.len, name.at, name.len)));

    return within && distance > 2 ? 2 : distance;
}

void nearest_offer(struct nearest *nearest, const char *name)
{
    struct str offered = str_of(name);
    size_t distance = distance_of(nearest->word, offered);
    size_t allowed = offered.len < 6 ? 1 : offered.len / 3;

    if (distance <= (allowed > 2 ? allowed : 2) &&
        (!nearest->best || distance < nearest->distance)) {
        nearest->best = name;
        nearest->distance = distance;
    }
}
