/* The pure parts of the tools: lengths of time, what a terminal shows, settings of Claude Code. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lib/base/compiler.h"
#include "tools/ansi.h"
#include "tools/claude_settings.h"
#include "tools/duration.h"

/* ---- lengths of time ---- */

static int64_t span(const char *text)
{
    int64_t seconds = -1;
    int r = duration_parse(str_of(text), &seconds);

    return r < 0 ? r : seconds;
}

static void spans_are_read(void)
{
    CHECK_INT(span("5 minutes"), 300);
    CHECK_INT(span("every 30 seconds"), 30);
    CHECK_INT(span("6 hours"), 6 * 3600);
    CHECK_INT(span("an hour and 30 minutes"), 5400);
    CHECK_INT(span("1h30m"), 5400);
    CHECK_INT(span("1.5 Hours"), 5400);
    CHECK_INT(span("2 days, 1 min"), 2 * 86400 + 60);
    CHECK_INT(span("90s"), 90);
    CHECK_INT(span(" 1 week "), 7 * 86400);
}

static void other_words_are_no_spans(void)
{
    static const char *const bad[] = {"",
                                      "5",
                                      "minutes",
                                      "five minutes",
                                      "5 miles",
                                      "-5 minutes",
                                      "0 seconds",
                                      "5 minutes ago",
                                      "1e9 h",
                                      "1..5 hours",
                                      "999999999999 weeks",
                                      "every"};

    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(span(bad[i]) == -EINVAL, "'%s' was read as %lld", bad[i],
                   (long long)span(bad[i]));
    }
}

static void an_end_may_be_left_open(void)
{
    CHECK(duration_is_endless(STR("until stopped")));
    CHECK(duration_is_endless(STR(" Until Stopped ")));
    CHECK(!duration_is_endless(STR("6 hours")));
}

/* ---- terminals ---- */

static const char *stripped(const char *text)
{
    static char out[256];
    struct buf buf;

    buf_init(&buf, sizeof(out) - 1);
    int r = ansi_strip(str_of(text), &buf);
    bool fits = r == 0 && str_copy(out, sizeof(out), buf_str(&buf));
    buf_fini(&buf);
    return fits ? out : "(failed)";
}

static void escape_sequences_are_left_out(void)
{
    CHECK_STR(stripped("\033[31mred\033[0m"), "red");
    CHECK_STR(stripped("\033]0;title\atext"), "text");
    CHECK_STR(stripped("\033]8;;http://x\033\\link\033]8;;\033\\"), "link");
    CHECK_STR(stripped("\033[?2004h$ ls\r\n\033[?2004l\rfile\r\n"), "$ ls\nfile\n");
    CHECK_STR(stripped("\033(Btext\033="), "text");
    CHECK_STR(stripped("a\007b\ttab\001"), "ab\ttab");
}

static void a_line_is_as_it_was_left(void)
{
    CHECK_STR(stripped("10%\r50%\r100%\r\ndone"), "100%\ndone");
    CHECK_STR(stripped("lss\b \b"), "ls");
    CHECK_STR(stripped("gr\xc3\xbc\b\033[K"), "gr");
    CHECK_STR(stripped("gr\xc3\xbc\xc3\x9f"
                       "e\b\b\bun"),
              "grun"
              "e");
    CHECK_STR(stripped("one\n\b\btwo"), "one\ntwo");
    CHECK_STR(stripped("kept\r"), "kept");
    CHECK_STR(stripped("kept\r\r\nnext"), "kept\nnext");
    CHECK_STR(stripped("two blanks  \r\nnext"), "two blanks  \nnext");
    CHECK_STR(stripped("100%\rok"), "ok0%");
}

static void what_a_line_editor_does_is_applied(void)
{
    CHECK_STR(stripped(">>> p\r\033[5C\r>>> pr\r\033[6C\r\n1"), ">>> pr\n1");
    CHECK_STR(stripped("abc\033[2DX"), "aXc");
    CHECK_STR(stripped("abc\033[99D\033[CX"), "aXc");
    CHECK_STR(stripped("abc\033[2G\033[K"), "a");
    CHECK_STR(stripped("abc\033[2G\033[1KX"), " Xc");
    CHECK_STR(stripped("abc\033[2Kd"), "   d");
    CHECK_STR(stripped("abc\r\033[J$ "), "$ ");
    CHECK_STR(stripped("abcd\033[2G\033[2P"), "ad");
    CHECK_STR(stripped("abcd\033[2G\033[99PX"), "aX");
    CHECK_STR(stripped("ad\b\033[2@bc"), "abcd");
    CHECK_STR(stripped("a\033[5GX"), "a   X");
    CHECK_STR(stripped("one\n\033[9D\033[Atwo"), "one\ntwo");
}

/* At the edge of the terminal a line editor writes a blank and a return. */
static void a_long_command_stays_whole(void)
{
    char text[128], want[128];

    memset(text, 'x', 80);
    (void)strcpy(text + 80, " \rend");
    memset(want, 'x', 80);
    (void)strcpy(want + 80, "end");
    CHECK_STR(stripped(text), want);
    CHECK_STR(stripped("echo 12\r23\r\n"), "echo 123\n");
    CHECK_STR(stripped("$ a\necho 12\r23"), "$ a\n23ho 12");
}

/* What a sandbox shows is its own choice: a line's length must not count for every step. */
static void a_long_line_that_is_edited_takes_no_time(void)
{
    enum { LINE_BYTES = 1024 * 1024, EDITS = 256 * 1024 };
    static const char edit[] = "\r\033[999999C\033[@\033[P";
    char *text = malloc(LINE_BYTES + EDITS * (sizeof(edit) - 1));
    struct buf out;

    CHECK(text);
    memset(text, 'a', LINE_BYTES);
    for (size_t i = 0; i < EDITS; i++) {
        memcpy(text + LINE_BYTES + i * (sizeof(edit) - 1), edit, sizeof(edit) - 1);
    }
    buf_init(&out, 2 * LINE_BYTES);
    CHECK_INT(ansi_strip((struct str){text, LINE_BYTES + EDITS * (sizeof(edit) - 1)}, &out), 0);
    CHECK_INT(buf_len(&out), LINE_BYTES);
    CHECK(!memchr(buf_at(&out), 0, LINE_BYTES));
    buf_fini(&out);
    free(text);
}

static void what_shows_nothing_is_known(void)
{
    CHECK(ansi_shows_nothing(STR("")));
    CHECK(ansi_shows_nothing(STR("\033[K\r\033[?2004h\033]0;title\a")));
    CHECK(!ansi_shows_nothing(STR("\033[K $")));
    CHECK(!ansi_shows_nothing(STR("\n")));
}

static void a_sequence_without_its_end_is_left_out(void)
{
    CHECK_STR(stripped("text\033"), "text");
    CHECK_STR(stripped("text\033[3"), "text");
    CHECK_STR(stripped("text\033]0;never"), "text");
}

/* ---- settings ---- */

static const char *mode_of(const char *preset)
{
    static char out[64];
    json_t *settings = claude_settings(preset, NULL);
    const json_t *permissions = json_object_get(settings, "permissions");
    const char *mode = json_string_value(json_object_get(permissions, "defaultMode"));
    bool known = str_copy(out, sizeof(out), str_of(mode ? mode : "none"));

    json_decref(settings);
    return known ? out : "none";
}

static void every_preset_has_its_mode(void)
{
    CHECK_STR(mode_of("allow_all"), "bypassPermissions");
    CHECK_STR(mode_of("dev_standard"), "acceptEdits");
    CHECK_STR(mode_of("dev_webfetch_allowlist"), "acceptEdits");
    CHECK_STR(mode_of("ci_build_test"), "dontAsk");
    CHECK_STR(mode_of("review_readonly"), "dontAsk");
    CHECK_STR(mode_of("plan_mode"), "plan");
    CHECK_STR(mode_of("other"), "none");
}

static bool has_rule(const json_t *settings, const char *list, const char *rule)
{
    const json_t *rules = json_object_get(json_object_get(settings, "permissions"), list);

    for (size_t i = 0; i < json_array_size(rules); i++) {
        if (strcmp(json_string_value(json_array_get(rules, i)), rule) == 0) {
            return true;
        }
    }
    return false;
}

static void read_only_is_read_only(void)
{
    json_t *settings = claude_settings("review_readonly", NULL);
    bool right = has_rule(settings, "allow", "Read") && has_rule(settings, "deny", "Edit") &&
                 has_rule(settings, "deny", "Write") && has_rule(settings, "deny", "Bash");

    json_decref(settings);
    CHECK(right);
}

static void rules_of_a_preset_and_those_given_are_together(void)
{
    json_t *more =
        json_pack("{s[s] s[s] s[s] sb}", "allow", "Bash(terraform:*)", "deny", "Read(./private/**)",
                  "additional_directories", "../docs", "disable_bypass", 1);
    json_t *settings = claude_settings("dev_standard", more);
    const json_t *permissions = json_object_get(settings, "permissions");
    const char *bypass =
        json_string_value(json_object_get(permissions, "disableBypassPermissionsMode"));
    bool right = has_rule(settings, "allow", "Bash(terraform:*)") &&
                 has_rule(settings, "allow", "Bash(npm test:*)") &&
                 has_rule(settings, "ask", "Bash(git push:*)") &&
                 has_rule(settings, "ask", "WebFetch") &&
                 has_rule(settings, "deny", "Bash(curl:*)") &&
                 has_rule(settings, "deny", "Read(./private/**)") &&
                 has_rule(settings, "additionalDirectories", "../docs");

    CHECK(right);
    CHECK_STR(bypass ? bypass : "", "disable");
    json_decref(more);
    json_decref(settings);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"lengths of time are read as people write them", spans_are_read},
        {"other words are no lengths of time", other_words_are_no_spans},
        {"an end may be left open", an_end_may_be_left_open},
        {"escape sequences are left out", escape_sequences_are_left_out},
        {"a line is as it was left", a_line_is_as_it_was_left},
        {"what a line editor does is applied", what_a_line_editor_does_is_applied},
        {"a long command stays whole", a_long_command_stays_whole},
        {"a long line that is edited takes no time", a_long_line_that_is_edited_takes_no_time},
        {"what shows nothing is known", what_shows_nothing_is_known},
        {"a sequence without its end is left out", a_sequence_without_its_end_is_left_out},
        {"every preset has its mode", every_preset_has_its_mode},
        {"read only is read only", read_only_is_read_only},
        {"rules of a preset and those given are together",
         rules_of_a_preset_and_those_given_are_together},
    };

    return check_run(tests, countof(tests));
}
