#include "tools/duration.h"

#include <errno.h>
#include <stdlib.h>

enum { NUMBER_BYTES = 16 };

static const struct {
    const char *name;
    int64_t seconds;
} units[] = {
    {"s", 1},       {"sec", 1},       {"second", 1}, {"m", 60},      {"min", 60},
    {"minute", 60}, {"h", 3600},      {"hr", 3600},  {"hour", 3600}, {"d", 86400},
    {"day", 86400}, {"week", 604800}, {"w", 604800},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    c = char_lower(c);
    return c >= 'a' && c <= 'z';
}

static struct str skip_gaps(struct str s)
{
    while (s.len && (s.at[0] == ' ' || s.at[0] == '\t' || s.at[0] == ',')) {
        s = str_skip(s, 1);
    }
    return s;
}

static struct str take(struct str *rest, bool (*is)(char c))
{
    struct str taken = {rest->at, 0};

    while (taken.len < rest->len && is(rest->at[taken.len])) {
        taken.len++;
    }
    *rest = str_skip(*rest, taken.len);
    return taken;
}

static bool is_of_number(char c)
{
    return is_digit(c) || c == '.';
}

/* "an" is one. -1: there is none. */
static double take_number(struct str *rest)
{
    char text[NUMBER_BYTES];
    char *end = NULL;

    if (rest->len && is_letter(rest->at[0])) {
        struct str word = take(rest, is_letter);
        return str_ieq(word, STR("a")) || str_ieq(word, STR("an")) ? 1 : -1;
    }
    struct str digits = take(rest, is_of_number);
    if (!digits.len || !is_digit(digits.at[0]) || !str_copy(text, sizeof(text), digits)) {
        return -1;
    }
    double number = strtod(text, &end);
    return *end == '\0' ? number : -1;
}

/* In the singular or in the plural; 0: there is no such unit. */
static int64_t unit_of(struct str word)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        struct str name = str_of(units[i].name);
        struct str one = word;

        if (name.len > 1 && word.len == name.len + 1 && char_lower(word.at[name.len]) == 's') {
            one.len--;
        }
        if (str_ieq(one, name)) {
            return units[i].seconds;
        }
    }
    return 0;
}

/* Takes the word off the front when it is there. */
static void take_word(struct str *rest, struct str word)
{
    struct str after = *rest;

    if (str_ieq(take(&after, is_letter), word)) {
        *rest = skip_gaps(after);
    }
}

int duration_parse(struct str text, int64_t *seconds)
{
    struct str rest = skip_gaps(text);
    double all = 0;

    take_word(&rest, STR("every"));
    do {
        double number = take_number(&rest);
        rest = skip_gaps(rest);
        int64_t unit = unit_of(take(&rest, is_letter));
        rest = skip_gaps(rest);
        take_word(&rest, STR("and"));
        if (number < 0 || unit == 0) {
            return -EINVAL;
        }
        all += number * (double)unit;
    } while (rest.len);
    if (all < 1 || all > DURATION_S_MAX) {
        return -EINVAL;
    }
    *seconds = (int64_t)(all + 0.5);
    return 0;
}

bool duration_is_endless(struct str text)
{
    return str_ieq(str_trim(text), STR("until stopped")) || str_ieq(str_trim(text), STR("forever"));
}
