#include "tools/text_pairs.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "lib/base/buf.h"

enum { SHOWN_BYTES = 48 };

/* ---- quotes ---- */

/* Behind the quotes that open at `at`; `at` itself where none open or they never close. */
static size_t quoted_end(struct str text, size_t at)
{
    char quote = at < text.len ? text.at[at] : '\0';

    if (quote != '"' && quote != '\'') {
        return at;
    }
    for (size_t i = at + 1; i < text.len; i++) {
        if (text.at[i] == '\\') {
            i++;
        } else if (text.at[i] == quote) {
            return i + 1;
        }
    }
    return at;
}

static char unescaped(char c)
{
    return c == 'n' ? '\n' : c == 't' ? '\t' : c;
}

/* The text between the quotes. */
static json_t *unquoted(struct str value)
{
    scoped_buf(out, value.len + 1);
    int r = 0;

    for (size_t i = 1; r == 0 && i + 1 < value.len; i++) {
        bool escape = value.at[i] == '\\' && i + 2 < value.len;
        char c = escape ? unescaped(value.at[++i]) : value.at[i];

        r = buf_append(&out, &c, 1);
    }
    return json_stringn(buf_len(&out) ? buf_at(&out) : "", buf_len(&out));
}

static json_t *value_new(struct str value)
{
    return value.len > 1 && quoted_end(value, 0) == value.len
               ? unquoted(value)
               : json_stringn(value.at ? value.at : "", value.len);
}

/* ---- parts ---- */

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || strchr("_.-", c);
}

/* Whether a name and its "=" follow, or nothing at all on this line. */
static bool begins_pair(struct str rest)
{
    size_t n = 0;

    rest = str_trim(rest);
    while (n < rest.len && is_name_char(rest.at[n])) {
        n++;
    }
    return rest.len == 0 || rest.at[0] == '\n' || (n > 0 && n < rest.len && rest.at[n] == '=');
}

/* Where the part ends that begins the text: at one of the separators, outside of quotes. */
static size_t part_end(struct str text, const char *separators)
{
    size_t i = 0;

    while (i < text.len && !strchr(separators, text.at[i])) {
        size_t behind = text.at[i] == '=' ? quoted_end(text, i + 1) : i + 1;

        i = behind > i + 1 ? behind : i + 1;
    }
    return i;
}

static bool has_semicolons(struct str text)
{
    while (text.len) {
        text = str_skip(text, part_end(text, ";\n"));
        if (text.len && text.at[0] == ';' && begins_pair(str_skip(text, 1))) {
            return true;
        }
        text = str_skip(text, text.len ? 1 : 0);
    }
    return false;
}

static int pair_put(json_t *object, struct str pair, struct err *err)
{
    size_t equals = str_find(pair, '=');
    struct str name = str_trim((struct str){pair.at, equals});

    if (equals == pair.len || name.len == 0) {
        return err_set(
            err, EINVAL,
            "'%.*s' is not NAME=VALUE; a value with a comma needs quotes, NAME=\"a,b\", or"
            " the form of JSON: {\"NAME\": \"a,b\"}",
            (int)(pair.len < SHOWN_BYTES ? pair.len : SHOWN_BYTES), pair.at);
    }
    (void)json_object_setn_new(object, name.at, name.len,
                               value_new(str_trim(str_skip(pair, equals + 1))));
    return 0;
}

int text_pairs(struct str text, json_t **out, struct err *err)
{
    const char *separators = has_semicolons(text) ? ";\n" : ",\n";
    json_t *object = json_object();
    int r = 0;

    while (r == 0 && text.len) {
        size_t n = part_end(text, separators);
        struct str pair = str_trim((struct str){text.at, n});

        r = pair.len ? pair_put(object, pair, err) : 0;
        text = str_skip(text, n == text.len ? n : n + 1);
    }
    if (r < 0) {
        json_decref(object);
        return r;
    }
    *out = object;
    return 0;
}
