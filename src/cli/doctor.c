#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/terminal.h"
#include "keeper/probe.h"
#include "serve/daemon/builtin.h"
#include "serve/daemon/layer.h"

static const char *const words[] = {
    [PROBE_OK] = "ok",
    [PROBE_DEGRADED] = "degraded",
    [PROBE_MISSING] = "missing",
};

/* -q prints findings that ask for something; --json collects all. */
static void finding(const struct cli *cli, json_t *all, enum probe_verdict verdict,
                    const char *name, const char *sentence)
{
    static const enum paint paints[] = {
        [PROBE_OK] = PAINT_GREEN, [PROBE_DEGRADED] = PAINT_YELLOW, [PROBE_MISSING] = PAINT_RED};

    if (cli->json) {
        (void)json_array_append_new(all,
                                    json_pack("{s:s, s:s, s:o}", "verdict", words[verdict], "name",
                                              name, "message", json_sentence(sentence)));
    } else if (!cli->quiet || verdict != PROBE_OK) {
        printf("%s%-9s%s %-20s %s\n", terminal_paint(stdout, paints[verdict]), words[verdict],
               terminal_plain(stdout), name, sentence);
    }
}

/* Returns whether it is there. */
static bool file_check(const struct cli *cli, json_t *all, const char *name, const char *path,
                       const char *advice)
{
    bool there = path[0] && access(path, R_OK) == 0;

    finding(cli, all, there ? PROBE_OK : PROBE_MISSING, name, there ? path : advice);
    return there;
}

static bool program_find(const char *name, char *out, size_t size)
{
    static const char *const dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                       "/usr/bin",        "/sbin",          "/bin"};

    for (size_t i = 0; i < countof(dirs); i++) {
        (void)snprintf(out, size, "%s/%s", dirs[i], name);
        if (access(out, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* The programs that the first start runs; later ones need none. */
static bool programs_check(const struct cli *cli, json_t *all)
{
    static const struct {
        const char *name;
        const char *advice;
        enum layer_state until; /* the base template is that far */
    } programs[] = {
        {"mmdebstrap", "makes the base template: apt-get install mmdebstrap", LAYER_ARCHIVE},
        {"zstd", "unpacks the base template: apt-get install zstd", LAYER_READY},
        {"tar", "unpacks the base template: apt-get install tar", LAYER_READY},
    };
    enum layer_state state = layer_look(&cli->config, &cli->paths, BUILTIN_BASE);
    char path[64];
    bool well = true;

    for (size_t i = 0; i < countof(programs); i++) {
        if (state < programs[i].until) {
            bool there = program_find(programs[i].name, path, sizeof(path));
            well &= file_check(cli, all, programs[i].name, there ? path : "", programs[i].advice);
        }
    }
    return well;
}

/* The daemon's domain, unless another is named. */
static void names_check(const struct cli *cli, json_t *all)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    bool there = getaddrinfo("doctor.localhost", NULL, &hints, &found) == 0;

    finding(cli, all, there ? PROBE_OK : PROBE_DEGRADED, "names",
            there ? "names below localhost lead to this machine"
                  : "names below localhost lead nowhere, so SDKs cannot go by E2B_DOMAIN: apt-get "
                    "install libnss-myhostname");
    if (found) {
        freeaddrinfo(found);
    }
}

static bool files_check(const struct cli *cli, json_t *all)
{
    bool well = file_check(cli, all, "agent", cli->paths.agent,
                           "not beside this program: name it with --agent");

    well &= file_check(cli, all, "templates", cli->paths.templates,
                       "their recipes are not beside this program: name their directory with "
                       "--templates");
    (void)file_check(cli, all, "code interpreter", cli->paths.interpreter,
                     "not beside this program: its template cannot be made");
    return well && programs_check(cli, all);
}

static bool machine_check(const struct cli *cli, json_t *all)
{
    struct probe_result results[PROBE_RESULTS_MAX + 3];
    bool well = true;
    size_t n = probe_machine(cli->config.data, results);

    for (size_t i = 0; i < n; i++) {
        well = well && results[i].verdict != PROBE_MISSING;
    }
    results[n++] = probe_sharing(cli->config.share_memory);
    results[n++] = probe_merging(cli->config.merge_pages);
    results[n++] = probe_size_bpf(cli->config.bpf_figures);
    for (size_t i = 0; i < n; i++) {
        finding(cli, all, results[i].verdict, results[i].name, results[i].sentence);
    }
    return well;
}

static int doctor(struct cli *cli)
{
    scoped_json *all = json_array();

    if (cli->words_n == 1) {
        return cli_sandbox_history(cli, cli->words[0]);
    }
    if (geteuid() != 0) {
        (void)fprintf(stderr, "atoll: most checks need root: try sudo\n");
    }
    bool well = machine_check(cli, all);
    well &= files_check(cli, all);
    names_check(cli, all);
    if (cli->json) {
        cli_print_json(all);
    }
    return well ? CLI_OK : CLI_FAILED;
}

const struct command row_doctor = {
    .name = "doctor",
    .args = "[ID]",
    .summary = "checks this machine, or prints the history of a sandbox",
    .run = doctor,
    .group = GROUP_DAEMON,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_max = 1,
    .takes = TAKES_SANDBOX,
    .about = "-q prints only the points that ask for something. The exit code is 1 if a part\n"
             "that every sandbox needs is missing.",
    .examples = "sudo atoll doctor\n"
                "atoll doctor i7i90cqta19ry4sptnylp",
};
