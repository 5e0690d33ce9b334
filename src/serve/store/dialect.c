#include "serve/store/dialect.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/str.h"

static const char *const words[][2] = {
    {"json_object(", "json_build_object("},
    {"json(", "as_json("},
    {"ifnull(", "coalesce("},
    {"instr(", "strpos("},
    {"uuid()", "gen_random_uuid()"},
    /* As a subquery it is evaluated once, so that an index can be used. */
    {"last_insert_rowid()", "(SELECT lastval())"},
};

static void put(struct buf *out, const char *text, size_t len)
{
    if (buf_append(out, text, len) < 0) {
        abort(); /* the texts are ours, and they fit */
    }
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The length of the word that was replaced; 0: there is none at this place. */
static size_t word_put(const char *at, struct buf *out)
{
    for (size_t i = 0; i < countof(words); i++) {
        size_t len = strlen(words[i][0]);

        if (strncmp(at, words[i][0], len) == 0) {
            put(out, words[i][1], strlen(words[i][1]));
            return len;
        }
    }
    return 0;
}

/* `?2` is `$2`, and each `?` without a number is the next one. */
static size_t placeholder_put(const char *at, int *last, struct buf *out)
{
    char *end = NULL;
    long number = isdigit((unsigned char)at[1]) ? strtol(at + 1, &end, 10) : ++*last;

    if (buf_printf(out, "$%ld", number) < 0) {
        abort();
    }
    return end ? (size_t)(end - at) : 1;
}

void dialect_postgres(const char *sql, struct buf *out)
{
    bool quoted = false;
    int last = 0;

    for (const char *at = sql; *at;) {
        size_t taken = 0;

        quoted = *at == '\'' ? !quoted : quoted;
        if (!quoted && *at == '?') {
            taken = placeholder_put(at, &last, out);
        } else if (!quoted && (at == sql || !in_word(at[-1]))) {
            taken = word_put(at, out);
        }
        if (taken == 0) {
            put(out, at, 1);
            taken = 1;
        }
        at += taken;
    }
    put(out, "", 1);
}
