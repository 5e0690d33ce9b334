#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/compiler.h"

/* Words that other programs have for the same thing. A line has several of ours where commands and
 * sub-commands differ. */
static const char *const same[] = {
    "run create new start launch spawn add",
    "create put set add new make build",
    "ps list ls",
    "inspect show describe info get status",
    "kill delete rm remove stop destroy terminate end revoke",
    "exec sh bash",
    "connect ssh login enter console terminal",
    "attach reattach follow",
    "cp copy scp upload download push pull sync",
    "port ports forward port-forward expose tunnel",
    "pause suspend freeze hibernate sleep",
    "resume unpause wake thaw continue restore",
    "timeout extend ttl renew expire",
    "fork clone branch duplicate",
    "snapshot save checkpoint commit backup",
    "network net firewall egress allow deny",
    "top monitor watch htop",
    "stats metrics figures usage",
    "logs tail output",
    "events history timeline",
    "template image images build",
    "disk df du storage space",
    "open dashboard ui web browser",
    "serve daemon server up",
    "doctor check diagnose health",
};

static bool line_has(const char *line, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = line; len > 0 && (p = strstr(p, word)); p++) {
        if ((p == line || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool mean_the_same(const char *a, const char *b)
{
    for (size_t i = 0; i < countof(same); i++) {
        if (line_has(same[i], a) && line_has(same[i], b)) {
            return true;
        }
    }
    return false;
}

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

    if (suggest->meant) {
        return;
    }
    suggest->meant = mean_the_same(suggest->word, candidate);
    if (suggest->meant || edits < suggest->best || (edits == suggest->best && !suggest->found[0])) {
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
