/* The parts of the command line that need no daemon: suggestions, units, columns. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "cli/cli.h"
#include "cli/grid.h"
#include "cli/suggest.h"
#include "cli/units.h"

/* grid.c prints lists with it; no list is printed as JSON here. */
void cli_print_json(const json_t *json)
{
    (void)json;
}

static const char *suggested(const char *word, const char *const *candidates)
{
    static char out[128];
    struct suggest suggest;

    suggest_init(&suggest, word);
    for (; *candidates; candidates++) {
        suggest_offer(&suggest, *candidates);
    }
    return suggest_text(&suggest, out, sizeof(out));
}

static void edits_are_counted(void)
{
    CHECK(suggest_edits("kill", "kill") == 0);
    CHECK(suggest_edits("kil", "kill") == 1);
    CHECK(suggest_edits("klil", "kill") == 1); /* a swap */
    CHECK(suggest_edits("", "abc") == 3 && suggest_edits("abc", "") == 3);
    CHECK(suggest_edits("abc", "xyz") == 3);
    CHECK(suggest_edits("ca", "abc") == 3);
}

static void the_nearest_word_is_suggested(void)
{
    static const char *const words[] = {"ps", "pause", "kill", "inspect", "template", NULL};
    char long_word[300];

    CHECK_STR(suggested("inspetc", words), "; did you mean 'inspect'?");
    CHECK_STR(suggested("temp", words), "; did you mean 'template'?"); /* a beginning */
    CHECK_STR(suggested("zzzzzz", words), "");
    CHECK_STR(suggested("", words), "");
    (void)memset(long_word, 'x', sizeof(long_word));
    long_word[sizeof(long_word) - 1] = '\0';
    CHECK_STR(suggested(long_word, words), "");
}

static void a_word_of_other_programs_is_answered_with_ours(void)
{
    static const char *const words[] = {"prepare", "port", "run", "kill", "template", NULL};
    static const char *const subs[] = {"list", "set", "rm", NULL};

    CHECK_STR(suggested("create", words), "; did you mean 'run'?"); /* and not 'prepare' */
    CHECK_STR(suggested("stop", words), "; did you mean 'kill'?");
    CHECK_STR(suggested("create", subs), "; did you mean 'set'?");
    CHECK_STR(suggested("delete", subs), "; did you mean 'rm'?");
    CHECK_STR(suggested("ls", subs), "; did you mean 'list'?");
    CHECK_STR(suggested("st", words), ""); /* a part of a word is none */
}

static void ages_and_sizes_are_short(void)
{
    char out[UNITS_BYTES];

    CHECK_STR(units_age(-5, out), "0s");
    CHECK_STR(units_age(119, out), "119s");
    CHECK_STR(units_age(120, out), "2m");
    CHECK_STR(units_age(7200, out), "2h");
    CHECK_STR(units_age(2 * 86400, out), "2d");
    CHECK_STR(units_size(0, out), "0 B");
    CHECK_STR(units_size(999, out), "999 B");
    CHECK_STR(units_size(999.6, out), "1.0 kB");
    CHECK_STR(units_size(1234567890.0, out), "1.2 GB");
    CHECK_STR(units_size(9.96e9, out), "10 GB");
    CHECK_STR(units_size(5e20, out), "500000 PB");
}

static void times_are_read(void)
{
    int64_t s = 0;

    CHECK(units_duration("90", &s) && s == 90);
    CHECK(units_duration("90s", &s) && s == 90);
    CHECK(units_duration("2h", &s) && s == 7200);
    CHECK(units_duration("1d", &s) && s == 86400);
    CHECK(units_duration("0", &s) && s == 0);
    CHECK(!units_duration("", &s) && !units_duration("h", &s) && !units_duration("-1", &s));
    CHECK(!units_duration("5x", &s) && !units_duration("5hh", &s));
    CHECK(!units_duration("99999999999999999999", &s) && !units_duration("9999999999999d", &s));
    CHECK(units_time("1970-01-02T00:00:01.500Z", &s) && s == 86401);
    CHECK(!units_time("yesterday", &s) && !units_time(NULL, &s));
}

static const struct grid_column columns[] = {{.title = "ID"}, {.title = "N", .right = true}};

/* A file is no terminal: tabs, no titles. */
static void a_pipe_gets_tabs(void)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);
    char text[256] = "";
    FILE *out = tmpfile();

    grid_add(&grid, "a\tb\nc\033[31m\xe2\x80\xae");
    grid_add(&grid, NULL);
    grid_addf(&grid, "%d", 7);
    grid_add(&grid, "bad \xff\xc3 end");
    CHECK(grid_rows(&grid) == 2);
    grid_print(&grid, out);
    rewind(out);
    CHECK(fread(text, 1, sizeof(text) - 1, out) > 0);
    CHECK_STR(text, "a?b?c?[31m?\t-\n7\tbad ?? end\n");
    (void)fclose(out);
}

static void wide_characters_take_two_columns(void)
{
    CHECK(grid_width("abc") == 3);
    CHECK(grid_width("\xe6\x97\xa5\xe6\x9c\xac") == 4);
    CHECK(grid_width("e\xcc\x81") == 1); /* with a combining accent */
    CHECK(grid_width("\xff") == 1 && grid_width("") == 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"edits are counted", edits_are_counted},
        {"the nearest word is suggested", the_nearest_word_is_suggested},
        {"a word of other programs is answered with ours",
         a_word_of_other_programs_is_answered_with_ours},
        {"ages and sizes are short", ages_and_sizes_are_short},
        {"times are read", times_are_read},
        {"a pipe gets tabs", a_pipe_gets_tabs},
        {"wide characters take two columns", wide_characters_take_two_columns},
    };

    (void)setlocale(LC_CTYPE, "C.UTF-8");
    return check_run(tests, countof(tests));
}
