/* words.c - reads the arguments of steps: variables, paths, owners, modes. */
#include <errno.h>

#include "serve/template/build/spec.h"

/* ---- variables ---- */

static bool is_name(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

static size_t name_len(struct str text)
{
    size_t n = 0;

    while (n < text.len && is_name(text.at[n], n == 0)) {
        n++;
    }
    return n;
}

static struct str value_of(const json_t *env, struct str name)
{
    char key[256];

    if (!str_copy(key, sizeof(key), name)) {
        return STR("");
    }
    const json_t *value = json_object_get(env, key);
    return (struct str){json_string_value(value), json_string_length(value)};
}

static int expand_word(struct str text, const json_t *env, int depth, struct buf *out,
                       struct err *err);

/* Expands the text between the braces. */
static int expand_braced(struct str inside, const json_t *env, int depth, struct buf *out,
                         struct err *err)
{
    size_t n = name_len(inside);
    struct str value = value_of(env, (struct str){inside.at, n});
    struct str rest = str_skip(inside, n);

    if (n == 0 || (rest.len > 0 && !str_starts(rest, STR(":-")) && !str_starts(rest, STR(":+")))) {
        return err_set(err, EINVAL,
                       "'${%.*s}' is no variable: known are ${NAME}, ${NAME:-word} "
                       "and ${NAME:+word}",
                       (int)(inside.len < 64 ? inside.len : 64), inside.at);
    }
    if (rest.len == 0) {
        return buf_append(out, value.at, value.len);
    }
    struct str word = str_skip(rest, 2);
    if (rest.at[1] == '-') {
        return value.len ? buf_append(out, value.at, value.len)
                         : expand_word(word, env, depth + 1, out, err);
    }
    return value.len ? expand_word(word, env, depth + 1, out, err) : 0;
}

/* The brace that closes, with those inside counted. */
static size_t brace_end(struct str text)
{
    size_t depth = 1, i = 0;

    for (; i < text.len; i++) {
        if (text.at[i] == '{') {
            depth++;
        } else if (text.at[i] == '}' && --depth == 0) {
            break;
        }
    }
    return i;
}

/* text begins behind the dollar. Returns how much of it was used, or -errno. */
static int expand_dollar(struct str text, const json_t *env, int depth, struct buf *out,
                         struct err *err)
{
    size_t n = name_len(text);
    int r;

    if (n > 0) {
        struct str value = value_of(env, (struct str){text.at, n});
        r = buf_append(out, value.at, value.len);
        return r < 0 ? r : (int)n;
    }
    if (text.len > 0 && text.at[0] == '{') {
        size_t end = brace_end(str_skip(text, 1));
        if (end + 1 == text.len) {
            return err_set(err, EINVAL, "'$%.*s' has no closing brace",
                           (int)(text.len < 64 ? text.len : 64), text.at);
        }
        r = expand_braced((struct str){text.at + 1, end}, env, depth, out, err);
        return r < 0 ? r : (int)end + 2;
    }
    r = buf_append(out, "$", 1);
    return r < 0 ? r : 0;
}

static int expand_word(struct str text, const json_t *env, int depth, struct buf *out,
                       struct err *err)
{
    int r = 0;

    if (depth > SPEC_NESTING_MAX) {
        return err_set(err, EINVAL, "variables are nested deeper than %d", SPEC_NESTING_MAX);
    }
    for (size_t i = 0; i < text.len && r >= 0;) {
        if (text.at[i] == '\\' && i + 1 < text.len && text.at[i + 1] == '$') {
            r = buf_append(out, "$", 1);
            i += 2;
        } else if (text.at[i] == '$') {
            r = expand_dollar(str_skip(text, i + 1), env, depth, out, err);
            i += 1 + (size_t)(r > 0 ? r : 0);
        } else {
            r = buf_append(out, text.at + i, 1);
            i++;
        }
    }
    return r < 0 ? r : 0;
}

int expand(struct str text, const json_t *env, struct buf *out, struct err *err)
{
    int r = expand_word(text, env, 0, out, err);

    if (r == -ENOBUFS) {
        return err_set(err, ENOBUFS, "the variables are longer than %zu bytes", out->max);
    }
    return r;
}

/* ---- paths ---- */

static bool is_glob(struct str part)
{
    for (size_t i = 0; i < part.len; i++) {
        if (strchr("*?[{", part.at[i])) {
            return true;
        }
    }
    return false;
}

int copy_source(struct str source, struct buf *out, struct err *err)
{
    struct str rest = source, part;

    while (str_split(&rest, '/', &part) && !is_glob(part)) {
        if (part.len == 0 || str_eq(part, STR("."))) {
            continue;
        }
        if (str_eq(part, STR("..")) ||
            buf_printf(out, "%s%.*s", buf_len(out) ? "/" : "", (int)part.len, part.at) < 0) {
            return err_set(err, EINVAL, "the path '%.*s' leads out of the context directory",
                           (int)(source.len < 128 ? source.len : 128), source.at);
        }
    }
    if (source.len > 0 && source.at[0] == '/') {
        return err_set(err, EINVAL, "the path '%.*s' leads out of the context directory",
                       (int)(source.len < 128 ? source.len : 128), source.at);
    }
    return buf_len(out) ? 0 : buf_append(out, ".", 1);
}

/* Drops the last part of what is there. */
static void path_up(struct buf *out)
{
    while (buf_len(out) > 0 && out->data[out->end - 1] != '/') {
        out->end--;
    }
    if (buf_len(out) > 0) {
        out->end--;
    }
}

static int path_add(struct buf *out, struct str path)
{
    struct str rest = path, part;
    int r = 0;

    while (r == 0 && str_split(&rest, '/', &part)) {
        if (str_eq(part, STR(".."))) {
            path_up(out);
        } else if (part.len > 0 && !str_eq(part, STR("."))) {
            r = buf_printf(out, "/%.*s", (int)part.len, part.at);
        }
    }
    return r;
}

int path_join(struct str dir, struct str path, struct buf *out, struct err *err)
{
    bool slash = path.len > 0 && path.at[path.len - 1] == '/';
    int r = path.len > 0 && path.at[0] == '/' ? 0 : path_add(out, dir);

    if (r == 0) {
        r = path_add(out, path);
    }
    if (r == 0 && (buf_len(out) == 0 || slash)) {
        r = buf_append(out, "/", 1);
    }
    return r < 0 ? err_set(err, EINVAL, "the path is longer than %zu bytes", out->max) : 0;
}

/* ---- names ---- */

bool user_name_ok(struct str name)
{
    if (name.len == 0 || name.len > 32 || name.at[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!is_name(c, false) && c != '-' && c != '.' && !(c == '$' && i + 1 == name.len)) {
            return false;
        }
    }
    return true;
}

bool owner_ok(struct str owner)
{
    size_t colon = str_find(owner, ':');
    struct str group = str_skip(owner, colon + 1);

    return user_name_ok((struct str){owner.at, colon}) && (group.len == 0 || user_name_ok(group));
}

bool mode_ok(struct str mode)
{
    unsigned value = 0;

    for (size_t i = 0; i < mode.len && i <= 5; i++) {
        if (mode.at[i] < '0' || mode.at[i] > '7') {
            return false;
        }
        value = value * 8 + (unsigned)(mode.at[i] - '0');
    }
    return mode.len >= 1 && mode.len <= 5 && value <= 07777;
}
