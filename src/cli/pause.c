/* pause.c - `atoll pause`, `atoll resume` and `atoll timeout`: the states of a sandbox. */
#include <stdio.h>
#include <string.h>

#include "cli/sandboxes.h"
#include "cli/units.h"

enum { RESUME_S = 300 };

static int act(struct cli *cli, const struct sandbox_action *action, int words)
{
    struct endpoint endpoint;
    struct err err;
    int r = endpoint_choose(cli, &endpoint, &err);

    return r < 0 ? cli_failed(r, &err) : sandboxes_act(cli, &endpoint, cli->words, words, action);
}

static bool keeps_memory(const struct cli *cli)
{
    return !cli_has(cli, "--no-memory");
}

static int command_pause(struct cli *cli)
{
    scoped_json *body = json_pack("{s:b}", "memory", keeps_memory(cli));
    const struct sandbox_action action = {"POST", "/sandboxes/%s/pause", body, "Paused"};

    return act(cli, &action, cli->words_n);
}

/* The daemon never shortens the time that a running sandbox has. */
static int resume(struct cli *cli)
{
    const char *text = cli_option(cli, "--timeout");
    int64_t seconds = RESUME_S;

    if (text && !units_duration(text, &seconds)) {
        return cli_usage(cli, "'%s' is not a time: 90, 90s, 5m, 2h or 1d", text);
    }
    scoped_json *body =
        json_pack("{s:I, s:b}", "timeout", (json_int_t)seconds, "memory", keeps_memory(cli));
    const struct sandbox_action action = {"POST", "/v2/sandboxes/%s/connect", body, "Resumed"};
    return act(cli, &action, cli->words_n);
}

static int timeout(struct cli *cli)
{
    const char *text = cli->words[cli->words_n - 1];
    int64_t seconds;

    if (!units_duration(text, &seconds)) {
        return cli_usage(cli, "'%s' is not a time: 90, 90s, 5m, 2h or 1d", text);
    }
    scoped_json *body = json_pack("{s:I}", "timeout", (json_int_t)seconds);
    const struct sandbox_action action = {"POST", "/sandboxes/%s/timeout", body, "Set"};
    return act(cli, &action, cli->words_n - 1);
}

static const struct option pause_options[] = {
    {.name = "--no-memory", .help = "keep the disk alone: processes end"},
    {.name = NULL},
};

static const struct option resume_options[] = {
    {.name = "--timeout", .letter = "-t", .value = "TIME", .help = "how long it runs [5m]"},
    {.name = "--no-memory", .help = "start from the disk, without the saved processes"},
    {.name = NULL},
};

const struct command row_pause = {
    .name = "pause",
    .args = "ID... [--no-memory]",
    .summary = "pauses sandboxes: processes and files are kept on disk",
    .run = command_pause,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 1,
    .words_max = WORDS_ANY,
    .takes = TAKES_SANDBOX,
    .options = pause_options,
    .examples = "atoll pause i7i9\n"
                "atoll ps -q | xargs atoll pause",
};

const struct command row_resume = {
    .name = "resume",
    .args = "ID... [--timeout TIME] [--no-memory]",
    .summary = "resumes paused sandboxes",
    .run = resume,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 1,
    .words_max = WORDS_ANY,
    .takes = TAKES_SANDBOX,
    .options = resume_options,
    .about = "TIME is 90, 90s, 5m, 2h or 1d. A running sandbox keeps the longer time.",
    .examples = "atoll resume i7i9 --timeout 1h",
};

const struct command row_timeout = {
    .name = "timeout",
    .args = "ID... TIME",
    .summary = "sets when sandboxes end",
    .run = timeout,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 2,
    .words_max = WORDS_ANY,
    .takes = TAKES_SANDBOX,
    .about = "TIME is 90, 90s, 5m, 2h or 1d from now; 0 ends them now. Sandboxes that were\n"
             "created to pause at their end are paused then.",
    .examples = "atoll timeout i7i9 30m",
};
