/* suggest.h - "did you mean": the candidate that means the same as a word that is none of ours, or
 * is nearest to it in letters.
 *
 * Blocks:   never; pure. Any thread.
 */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

enum { SUGGEST_BYTES = 64 };

struct suggest {
    const char *word;
    size_t best; /* edits between the word and `found` */
    bool meant;  /* `found` is another word for it */
    char found[SUGGEST_BYTES];
};

void suggest_init(struct suggest *suggest, const char *word);
/* The first candidate that means the same wins, else the nearest. */
void suggest_offer(struct suggest *suggest, const char *candidate);

/* "", or "; did you mean 'CANDIDATE'?" in `out`. */
const char *suggest_text(const struct suggest *suggest, char *out, size_t size);

/* Letters to insert, remove, replace or swap. Words are cut at SUGGEST_BYTES. */
size_t suggest_edits(const char *a, const char *b);

#endif
