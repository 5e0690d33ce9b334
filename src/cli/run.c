/* run.c - creates a sandbox, runs a command in it, and kills it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/copy.h"
#include "cli/rules.h"
#include "cli/session.h"
#include "cli/units.h"

enum {
    RUN_ALIVE_S = 120, /* without --timeout: as long as the command runs, and this much longer */
    PATH_BYTES = 128,
    METADATA_NAME_BYTES = 256,
    SCRIPT_WORDS_MAX = 1024,
    SCRIPT_PATH_BYTES = 300,
};

/* ---- the sandbox ---- */

static int volumes_add(const struct cli *cli, json_t *body, struct err *err)
{
    const char *given[CLI_OPTIONS_MAX];
    int n = session_values(cli, "--volume", given);
    json_t *mounts = n > 0 ? json_array() : NULL;

    for (int i = 0; i < n; i++) {
        const char *colon = strchr(given[i], ':');
        if (!colon || colon == given[i] || colon[1] != '/') {
            json_decref(mounts);
            return err_set(err, EINVAL, "-v %.80s: give VOLUME:PATH, with an absolute path",
                           given[i]);
        }
        (void)json_array_append_new(
            mounts,
            json_pack("{ss%ss}", "name", given[i], (size_t)(colon - given[i]), "path", colon + 1));
    }
    return mounts ? json_object_set_new(body, "volumeMounts", mounts) : 0;
}

static int metadata_add(const struct cli *cli, json_t *body, struct err *err)
{
    const char *given[CLI_OPTIONS_MAX];
    int n = session_values(cli, "--metadata", given);
    json_t *metadata = n > 0 ? json_object() : NULL;

    for (int i = 0; i < n; i++) {
        const char *equals = strchr(given[i], '=');
        char name[METADATA_NAME_BYTES];
        if (!equals || equals == given[i] ||
            !str_copy(name, sizeof(name), (struct str){given[i], (size_t)(equals - given[i])}) ||
            json_object_set_new(metadata, name, json_string(equals + 1)) < 0) {
            json_decref(metadata);
            return err_set(err, EINVAL, "-m %.80s: give KEY=VALUE, in UTF-8", given[i]);
        }
    }
    return metadata ? json_object_set_new(body, "metadata", metadata) : 0;
}

static int network_add(const struct cli *cli, json_t *body, struct err *err)
{
    json_t *network = json_object();
    int r = rules_add(cli, network, body, err);

    if (r == 0 && json_object_size(network) > 0) {
        return json_object_set_new(body, "network", network);
    }
    json_decref(network);
    return r;
}

static int body_make(const struct cli *cli, int64_t seconds, json_t **out, struct err *err)
{
    const char *template = cli_option(cli, "--template");
    json_t *body = json_pack("{sssI}", "templateID", template ? template : "base", "timeout",
                             (json_int_t)seconds);

    if (!body) {
        return err_set(err, EILSEQ, "the name of the template is not UTF-8");
    }
    int r = volumes_add(cli, body, err);
    r = r < 0 ? r : metadata_add(cli, body, err);
    r = r < 0 ? r : network_add(cli, body, err);
    if (r < 0) {
        json_decref(body);
        return r;
    }
    *out = body;
    return 0;
}

static int sandbox_create(const struct cli *cli, int64_t seconds, struct link *out, struct err *err)
{
    struct endpoint endpoint;
    scoped_json *body = NULL, *answer = NULL;
    int r = endpoint_choose(cli, &endpoint, err);

    r = r < 0 ? r : body_make(cli, seconds, &body, err);
    r = r < 0 ? r : endpoint_call_verbatim(&endpoint, "POST", "/v2/sandboxes", body, &answer, err);
    return r < 0 ? r : link_of(&endpoint, answer, out, err);
}

static int sandbox_kill(const struct link *link, struct err *err)
{
    scoped_json *answer = NULL;
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/sandboxes/%s", link->id);
    int r = endpoint_call(&link->endpoint, "DELETE", path, NULL, &answer, err);
    return r == -CALL_NOT_FOUND ? 0 : r; /* its timeout was first */
}

/* ---- the command ---- */

static const char *script_interpreter(const char *name)
{
    static const struct {
        const char *ending, *program;
    } known[] = {{".py", "python3"}, {".js", "node"}, {".mjs", "node"}, {".sh", "sh"},
                 {".bash", "bash"},  {".rb", "ruby"}, {".pl", "perl"},  {".R", "Rscript"}};

    for (size_t i = 0; i < countof(known); i++) {
        if (str_ends(str_of(name), str_of(known[i].ending))) {
            return known[i].program;
        }
    }
    return NULL; /* it says itself what runs it: #! */
}

/* Copies the file and makes its command line: the interpreter, the file, the words after it. */
static int script_prepare(const struct cli *cli, const struct link *link, const char *file,
                          char path[SCRIPT_PATH_BYTES], const char **argv, struct err *err)
{
    static struct place from, to;
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    const char *program = script_interpreter(name);
    int n = 0;

    if (cli->rest_n > SCRIPT_WORDS_MAX ||
        snprintf(path, SCRIPT_PATH_BYTES, "/tmp/%s", name) >= SCRIPT_PATH_BYTES) {
        return err_set(err, E2BIG, "the command is too long");
    }
    from = (struct place){.kind = PLACE_LOCAL, .bytes = -1};
    to = (struct place){.kind = PLACE_SANDBOX, .link = *link, .bytes = -1};
    if (!str_copy(from.path, sizeof(from.path), str_of(file)) ||
        !str_copy(to.path, sizeof(to.path), str_of(path))) {
        return err_set(err, ENAMETOOLONG, "the name of the script is too long");
    }
    if (program) {
        argv[n++] = program;
    }
    argv[n++] = path;
    for (int i = 0; i < cli->rest_n; i++) {
        argv[n++] = cli->rest[i];
    }
    argv[n] = NULL;
    return copy_run(&from, &to, true, NULL, err);
}

static const char *const stdin_shell[] = {"/bin/sh", "-s", NULL};

static int command_run(const struct cli *cli, const struct session *plan, struct remote_end *end,
                       struct err *err)
{
    struct session session = *plan;
    const char *file = cli_option(cli, "--file"), *env[CLI_OPTIONS_MAX];
    const char *argv[SCRIPT_WORDS_MAX + 3];
    char path[SCRIPT_PATH_BYTES];
    bool person = isatty(STDIN_FILENO);
    int r = 0;

    session.env = env;
    session.env_n = session_values(cli, "--env", env);
    if (file) {
        r = script_prepare(cli, session.link, file, path, argv, err);
        session.argv = argv;
    } else if (cli->rest_n > 0) {
        session.argv = (const char *const *)(const void *)cli->rest;
    } else {
        session.terminal = person;
        session.argv = person ? session_shell : stdin_shell;
    }
    return r < 0 ? r : session_run(&session, end, err);
}

static void sandbox_leave(const struct cli *cli, const struct link *link)
{
    struct err err;
    bool keep = cli_has(cli, "--keep");

    if (keep && cli->quiet) {
        printf("%s\n", link->id);
    } else if (keep && !cli->json) {
        (void)fprintf(stderr, "The sandbox keeps running: %s\n", link->id);
    } else if (!keep && sandbox_kill(link, &err) < 0) {
        (void)cli_fail(CLI_FAILED, "sandbox %s may still run: %s", link->id, err.msg);
    }
}

static int run_run(struct cli *cli)
{
    struct remote_signals signals = {.fd = -1};
    const char *limit = cli_option(cli, "--timeout");
    struct remote_end end = {0};
    struct link link = {0};
    struct err err;
    int64_t seconds = RUN_ALIVE_S;
    struct session session = {
        .link = &link,
        .signals = &signals,
        .user = cli_option(cli, "--user"),
        .cwd = cli_option(cli, "--workdir"),
        .input = cli_has(cli, "--interactive") || !isatty(STDIN_FILENO),
        .terminal = cli_has(cli, "--tty"),
        .ends_at_once = true,
        .spares_stdout = cli->quiet && cli_has(cli, "--keep"),
        .keep_alive_s = limit ? 0 : RUN_ALIVE_S,
    };

    if (limit && (!units_duration(limit, &seconds) || seconds <= 0)) {
        return cli_usage(cli, "--timeout takes a time such as 90, 5m or 2h, not '%.32s'", limit);
    }
    if (session.terminal && !isatty(STDIN_FILENO)) {
        return cli_usage(cli, "stdin is not a terminal: leave out -t");
    }
    /* From here on a signal waits until it can be followed by the kill. */
    int r = remote_signals_open(&signals, &err);
    r = r < 0 ? r : sandbox_create(cli, seconds, &link, &err);
    if (r < 0) {
        return cli_failed(r, &err);
    }
    r = command_run(cli, &session, &end, &err);
    sandbox_leave(cli, &link);
    remote_signals_close(&signals);
    int code = session_code(r, &end, &err);
    if (cli->json) {
        session_print_json(link.id, code);
    }
    return code;
}

static const struct option run_options[] = {
    {.name = "--interactive", .letter = "-i", .help = "pass stdin on, also from a terminal"},
    {.name = "--tty", .letter = "-t", .help = "give the command a terminal, as large as this one"},
    {.name = "--template",
     .value = "NAME",
     .help = "template of the sandbox (default: base)",
     .takes = TAKES_TEMPLATE},
    {.name = "--file",
     .letter = "-f",
     .value = "SCRIPT",
     .help = "copy this script in and run it with the words",
     .takes = TAKES_FILE},
    {.name = "--keep", .help = "leave the sandbox running, print its id on stderr"},
    {.name = "--timeout", .value = "TIME", .help = "the sandbox ends after that long: 90, 5m, 2h"},
    {.name = "--env",
     .letter = "-e",
     .value = "NAME=VALUE",
     .help = "set a variable; NAME alone passes ours on",
     .repeats = true},
    {.name = "--volume",
     .letter = "-v",
     .value = "VOL:PATH",
     .help = "mount a volume",
     .repeats = true},
    {.name = "--metadata",
     .letter = "-m",
     .value = "K=V",
     .help = "label the sandbox, for `atoll ps -m`",
     .repeats = true},
    RULES_OPTIONS,
    {.name = "--user", .letter = "-u", .value = "USER", .help = "run it as this user"},
    {.name = "--workdir", .letter = "-w", .value = "DIR", .help = "run it in this directory"},
    {.name = "--json", .help = "end stderr with the sandbox's id and the exit code"},
    {.name = "--quiet",
     .letter = "-q",
     .help = "with --keep: stdout is the id, output goes to stderr"},
    {.name = NULL},
};

const struct command row_run = {
    .name = "run",
    .args = "[-it] [--template NAME] [OPTIONS] [COMMAND...]",
    .summary = "creates a sandbox, runs a command in it, and kills it",
    .run = run_run,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_max = 0,
    .plain_words = PLAIN_NONE,
    .options = run_options,
    .about = "Exits with its code. Without a command: a shell, or a script from a pipe.",
};
