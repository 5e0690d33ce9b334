#include "serve/template/image/challenge.h"

#include <errno.h>
#include <stdbool.h>

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static void skip_blanks(struct str *rest, bool commas)
{
    while (rest->len &&
           (rest->at[0] == ' ' || rest->at[0] == '\t' || (commas && rest->at[0] == ','))) {
        *rest = str_skip(*rest, 1);
    }
}

static struct str token_take(struct str *rest)
{
    size_t n = 0;

    while (n < rest->len && is_token_char(rest->at[n])) {
        n++;
    }
    struct str token = {rest->at, n};
    *rest = str_skip(*rest, n);
    return token;
}

/* A quoted string, its backslashes resolved, or a token. False when it does not end or fit. */
static bool value_take(struct str *rest, char out[CHALLENGE_TEXT_BYTES])
{
    size_t n = 0;

    if (rest->len == 0 || rest->at[0] != '"') {
        return str_copy(out, CHALLENGE_TEXT_BYTES, token_take(rest));
    }
    for (*rest = str_skip(*rest, 1); rest->len && n + 1 < CHALLENGE_TEXT_BYTES;
         *rest = str_skip(*rest, 1)) {
        if (rest->at[0] == '"') {
            out[n] = '\0';
            *rest = str_skip(*rest, 1);
            return true;
        }
        if (rest->at[0] == '\\' && rest->len > 1) {
            *rest = str_skip(*rest, 1);
        }
        if ((unsigned char)rest->at[0] < 0x20) {
            return false;
        }
        out[n++] = rest->at[0];
    }
    return false;
}

/* The parameters of one challenge; what follows them is the next one's scheme, which has no '='. */
static bool parameters_take(struct str *rest, struct challenge *c)
{
    for (;;) {
        skip_blanks(rest, true);
        struct str before = *rest, name = token_take(rest);
        skip_blanks(rest, false);
        if (name.len == 0 || rest->len == 0 || rest->at[0] != '=') {
            *rest = before;
            return true;
        }
        *rest = str_skip(*rest, 1);
        skip_blanks(rest, false);
        char value[CHALLENGE_TEXT_BYTES];
        if (!value_take(rest, value)) {
            return false;
        }
        char *field = str_ieq(name, STR("realm"))     ? c->realm
                      : str_ieq(name, STR("service")) ? c->service
                      : str_ieq(name, STR("scope"))   ? c->scope
                                                      : NULL;
        if (field) {
            (void)str_copy(field, CHALLENGE_TEXT_BYTES, str_of(value));
        }
    }
}

int challenge_parse(struct str header, struct challenge *out, struct err *err)
{
    struct str rest = header;

    for (;;) {
        skip_blanks(&rest, true);
        struct str scheme = token_take(&rest);
        struct challenge found = {0};
        if (scheme.len == 0 || !parameters_take(&rest, &found)) {
            break;
        }
        bool bearer = str_ieq(scheme, STR("bearer"));
        if ((bearer && found.realm[0]) || str_ieq(scheme, STR("basic"))) {
            found.kind = bearer ? CHALLENGE_BEARER : CHALLENGE_BASIC;
            *out = found;
            return 0;
        }
    }
    return err_set(err, EINVAL, "the registry asks for a kind of authentication that is not known");
}
