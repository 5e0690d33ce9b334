#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "keeper/probe.h"
#include "serve/daemon/builtin.h"
#include "serve/daemon/layer.h"

static const char *const words[] = {
    [PROBE_OK] = "ok",
    [PROBE_DEGRADED] = "degraded",
    [PROBE_MISSING] = "missing",
};

/* Returns whether it is there. */
static bool file_check(const char *name, const char *path, const char *advice)
{
    bool there = path[0] && access(path, R_OK) == 0;

    printf("%-9s %-20s %s\n", words[there ? PROBE_OK : PROBE_MISSING], name, there ? path : advice);
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
static bool programs_check(const struct cli *cli)
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
            well &= file_check(programs[i].name, there ? path : "", programs[i].advice);
        }
    }
    return well;
}

static void result_print(const struct probe_result *result)
{
    printf("%-9s %-20s %s\n", words[result->verdict], result->name, result->sentence);
}

/* The daemon's domain, unless another is named. */
static void names_check(void)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    bool there = getaddrinfo("doctor.localhost", NULL, &hints, &found) == 0;

    printf("%-9s %-20s %s\n", words[there ? PROBE_OK : PROBE_DEGRADED], "names",
           there ? "names below localhost lead to this machine"
                 : "names below localhost lead nowhere, so SDKs cannot go by E2B_DOMAIN: apt-get "
                   "install libnss-myhostname");
    if (found) {
        freeaddrinfo(found);
    }
}

static int doctor(struct cli *cli)
{
    struct probe_result results[PROBE_RESULTS_MAX];
    bool well = true;

    if (cli->words_n == 1) {
        return cli_sandbox_history(cli, cli->words[0]);
    }
    if (geteuid() != 0) {
        (void)fprintf(stderr, "atoll: most checks need root: try sudo\n");
    }
    size_t n = probe_machine(cli->config.data, results);
    for (size_t i = 0; i < n; i++) {
        result_print(&results[i]);
        well = well && results[i].verdict != PROBE_MISSING;
    }
    const struct probe_result merging = probe_merging(cli->config.merge_pages);
    result_print(&merging);
    const struct probe_result size = probe_size_bpf(cli->config.bpf_figures);
    result_print(&size);
    well &= file_check("agent", cli->paths.agent, "not beside this program: name it with --agent");
    well &= file_check("templates", cli->paths.templates,
                       "their recipes are not beside this program: name their directory with "
                       "--templates");
    (void)file_check("code interpreter", cli->paths.interpreter,
                     "not beside this program: its template cannot be made");
    well &= programs_check(cli);
    names_check();
    return well ? CLI_OK : CLI_FAILED;
}

const struct command row_doctor = {
    .name = "doctor",
    .args = "[ID]",
    .summary = "checks this machine point by point, or prints the history of a sandbox",
    .run = doctor,
    .group = GROUP_DAEMON,
    .words_max = 1,
    .takes = TAKES_SANDBOX,
    .examples = "sudo atoll doctor",
};
