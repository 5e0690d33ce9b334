#include "cli/dockerfile_words.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"

/* ---- variables ---- */

static size_t name_len(struct str text)
{
    size_t n = 0;

    while (n < text.len && (isalnum((unsigned char)text.at[n]) || text.at[n] == '_') &&
           (n > 0 || !isdigit((unsigned char)text.at[0]))) {
        n++;
    }
    return n;
}

static const char *var_find(const json_t *vars, struct str name)
{
    char text[256];

    return str_copy(text, sizeof(text), name) ? json_string_of(vars, text) : NULL;
}

static int put(struct buf *out, struct str text)
{
    return buf_append(out, text.at, text.len) < 0 ? -EINVAL : 0;
}

/* The value of a variable whose text, from '$' on, is `whole`. */
static int var_put(struct str whole, struct str name, struct str rule, const json_t *vars,
                   enum word_unknown unknown, struct buf *out)
{
    const char *value = var_find(vars, name);
    bool is_set = value && value[0];

    if (str_starts(rule, STR(":-"))) {
        return put(out, is_set ? str_of(value) : str_skip(rule, 2));
    }
    if (str_starts(rule, STR(":+"))) {
        return is_set ? put(out, str_skip(rule, 2)) : 0;
    }
    if (value) {
        return put(out, str_of(value));
    }
    return unknown == WORD_UNKNOWN_KEPT ? put(out, whole) : 0;
}

/* *rest begins with '$'. */
static int var_take(struct str *rest, const json_t *vars, enum word_unknown unknown,
                    struct buf *out)
{
    struct str whole = *rest, inside = str_skip(*rest, 1);
    bool braced = inside.len > 0 && inside.at[0] == '{';
    size_t end = braced ? str_find(inside, '}') : 0;

    if (braced && end == inside.len) {
        return -EINVAL;
    }
    if (braced) {
        inside = (struct str){inside.at + 1, end - 1};
    }
    size_t n = name_len(inside);
    if (n == 0) {
        *rest = str_skip(*rest, 1);
        return put(out, STR("$"));
    }
    whole.len = 1 + (braced ? end + 1 : n);
    *rest = str_skip(*rest, whole.len);
    struct str rule = braced ? str_skip(inside, n) : (struct str){NULL, 0};
    return var_put(whole, (struct str){inside.at, n}, rule, vars, unknown, out);
}

/* ---- words ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Takes a character, an escape or a variable. `quote` is 0 outside of quotes. */
static int char_take(struct str *rest, char quote, const json_t *vars, enum word_unknown unknown,
                     struct buf *out)
{
    char c = rest->at[0];

    if (c == '$' && quote != '\'') {
        return var_take(rest, vars, unknown, out);
    }
    if (c == '\\' && quote != '\'' && rest->len > 1) {
        *rest = str_skip(*rest, 1);
        bool plain = quote == '"' && !strchr("\"\\$", rest->at[0]);
        if (plain && buf_append(out, "\\", 1) < 0) {
            return -EINVAL;
        }
    }
    int r = buf_append(out, rest->at, 1) < 0 ? -EINVAL : 0;
    *rest = str_skip(*rest, 1);
    return r;
}

int word_next(struct str *rest, const json_t *vars, enum word_unknown unknown, struct buf *out)
{
    char quote = 0;

    buf_clear(out);
    while (rest->len && is_blank(rest->at[0])) {
        *rest = str_skip(*rest, 1);
    }
    if (rest->len == 0) {
        return 0;
    }
    while (rest->len && (quote || !is_blank(rest->at[0]))) {
        char c = rest->at[0];
        if (quote ? c == quote : c == '"' || c == '\'') {
            quote = (char)(quote ? 0 : c);
            *rest = str_skip(*rest, 1);
        } else if (char_take(rest, quote, vars, unknown, out) < 0) {
            return -EINVAL;
        }
    }
    return quote ? -EINVAL : 1;
}

json_t *words_read(struct str text, const json_t *vars, enum word_unknown unknown)
{
    json_t *words = json_array();
    scoped_buf(word, WORD_BYTES_MAX);
    int found;

    while ((found = word_next(&text, vars, unknown, &word)) > 0) {
        if (json_array_append_new(words, json_stringn(buf_at(&word), buf_len(&word))) < 0) {
            found = -EINVAL; /* a backslash took a character apart */
            break;
        }
    }
    if (found < 0) {
        json_decref(words);
        return NULL;
    }
    return words;
}

json_t *pairs_read(struct str text, const json_t *vars)
{
    json_t *words = words_read(text, vars, WORD_UNKNOWN_KEPT), *pairs = json_array();
    const json_t *word;
    size_t i;

    json_array_foreach (words, i, word) {
        struct str pair = str_of(json_string_value(word));
        size_t equals = str_find(pair, '=');
        if (equals == 0 || equals == pair.len ||
            json_array_append_new(pairs, json_stringn(pair.at, equals)) < 0 ||
            json_array_append_new(pairs, json_string(pair.at + equals + 1)) < 0) {
            json_decref(move_ptr(&pairs));
            break;
        }
    }
    if (json_array_size(words) == 0) {
        json_decref(move_ptr(&pairs));
    }
    json_decref(words);
    return pairs;
}

json_t *pair_read(struct str text, size_t len, const json_t *vars)
{
    struct str value = str_trim(str_skip(text, len));
    scoped_buf(out, WORD_BYTES_MAX);
    int r = 0;

    while (r == 0 && value.len) {
        r = value.at[0] == '$' ? var_take(&value, vars, WORD_UNKNOWN_KEPT, &out)
                               : char_take(&value, '\'', vars, WORD_UNKNOWN_KEPT, &out);
    }
    if (r < 0) {
        return NULL;
    }
    return json_pack("[oo]", json_stringn(text.at, len),
                     json_stringn(buf_len(&out) ? buf_at(&out) : "", buf_len(&out)));
}

/* ---- back into a line ---- */

static bool needs_quotes(struct str word)
{
    for (size_t i = 0; i < word.len; i++) {
        if (!isalnum((unsigned char)word.at[i]) && !strchr("@%_-+=:,./", word.at[i])) {
            return true;
        }
    }
    return word.len == 0;
}

static void quoted_put(struct buf *out, struct str word)
{
    bool quotes = needs_quotes(word);
    int r = quotes ? buf_append(out, "'", 1) : 0;

    for (size_t i = 0; r == 0 && i < word.len; i++) {
        r = word.at[i] == '\'' ? buf_append(out, "'\\''", 4) : buf_append(out, word.at + i, 1);
    }
    if (r < 0 || (quotes && buf_append(out, "'", 1) < 0)) {
        abort(); /* four times as long as what was read is room enough */
    }
}

char *words_quote(const json_t *words)
{
    const json_t *word;
    scoped_buf(out, (size_t)8 * 1024 * 1024);
    size_t i;

    json_array_foreach (words, i, word) {
        if (i > 0 && buf_append(&out, " ", 1) < 0) {
            abort();
        }
        const char *text = json_string_value(word);
        quoted_put(&out, str_of(text ? text : ""));
    }
    if (buf_append(&out, "", 1) < 0) {
        abort();
    }
    return xstrdup(buf_at(&out));
}
