/* Measures atoll beside its peers in one run and prints a table of ratios.
 *
 * What is compared alternates within one loop, so that noise of the machine meets all alike. The
 * reference of each group has no ratio; the others are shown as multiples of its median.
 * Environment: that of a client (tools/with-daemon sets it), BENCH_ROOTFS (the base layer),
 * BENCH_NGINX (a URL whose directory takes PUT, on the same disk), BENCH_SCRATCH, BENCH_SERVE_PID.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "peers.h"
#include "timing.h"

enum {
    CREATES = 60,
    COMMANDS = 300,
    TRANSFERS = 3,
    IDLE_SANDBOXES = 200,
};

static const size_t transfer_bytes = (size_t)1 << 30;

#define TIMED(samples, call)                                                                       \
    do {                                                                                           \
        double begin_ = now_ms();                                                                  \
        if ((call) == 0) {                                                                         \
            samples_add(&(samples), now_ms() - begin_);                                            \
        }                                                                                          \
    } while (0)

static void heading(const char *title)
{
    printf("\n%-46s %9s %9s %9s %9s\n", title, "min ms", "median", "p95", "ratio");
}

static int create_and_true(struct client *c, struct client_box *box)
{
    return client_create(c, box) < 0 ? -1 : client_run(c, box, "/bin/true", "");
}

static void bench_create(struct client *c, const char *rootfs, const char *scratch)
{
    static struct samples tti = {.name = "atoll: create to first true done, over HTTP"};
    static struct samples destroy = {.name = "atoll: destroy, over HTTP"};
    static struct samples all = {.name = "atoll: both"};
    static struct samples bwrap = {.name = "bwrap: create + true + destroy"};
    static struct samples crun = {.name = "crun: create + true + destroy"};
    int bundle = peer_crun_bundle(scratch, rootfs);

    for (int i = 0; i < CREATES; i++) {
        struct client_box box;
        double begin = now_ms();

        if (create_and_true(c, &box) < 0) {
            return;
        }
        double up = now_ms();
        if (client_kill(c, &box) < 0) {
            return;
        }
        samples_add(&tti, up - begin);
        samples_add(&destroy, now_ms() - up);
        samples_add(&all, now_ms() - begin);
        TIMED(bwrap, peer_bwrap(rootfs));
        if (bundle == 0) {
            TIMED(crun, peer_crun(scratch));
        }
    }
    heading("Cold create, same root filesystem");
    samples_print(&bwrap, NULL);
    samples_print(&tti, &bwrap);
    samples_print(&destroy, &bwrap);
    samples_print(&all, &bwrap);
    samples_print(&crun, &bwrap);
}

static void bench_command(struct client *c)
{
    static struct samples bare = {.name = "bare fork + exec + wait of /bin/true"};
    static struct samples command = {.name = "atoll: /bin/true over HTTP"};
    static struct samples shell = {.name = "atoll: bash -l -c true (what SDKs send)"};
    struct client_box box;

    if (client_create(c, &box) < 0) {
        return;
    }
    for (int i = 0; i < COMMANDS; i++) {
        TIMED(bare, peer_fork_exec("/bin/true"));
        TIMED(command, client_run(c, &box, "/bin/true", ""));
        TIMED(shell, client_run(c, &box, "/bin/bash", "\"-l\",\"-c\",\"true\""));
    }
    (void)client_kill(c, &box);
    heading("Command round trip");
    samples_print(&bare, NULL);
    samples_print(&command, &bare);
    samples_print(&shell, &bare);
}

static void bench_transfer(struct client *c, const char *nginx)
{
    static struct samples up = {.name = "atoll: upload 1 GB"};
    static struct samples down = {.name = "atoll: download 1 GB"};
    static struct samples nginx_up = {.name = "nginx: upload 1 GB"};
    static struct samples nginx_down = {.name = "nginx: download 1 GB"};
    struct client_box box;
    char url[512];

    if (client_create(c, &box) < 0) {
        return;
    }
    (void)snprintf(url, sizeof(url), "%s/big", nginx ? nginx : "");
    for (int i = 0; i < TRANSFERS; i++) {
        if (nginx) {
            TIMED(nginx_up, client_put(c, url, transfer_bytes));
            TIMED(nginx_down, client_get(c, url, transfer_bytes));
        }
        TIMED(up, client_upload(c, &box, "/home/user/big", transfer_bytes));
        TIMED(down, client_download(c, &box, "/home/user/big", transfer_bytes));
    }
    (void)client_kill(c, &box);
    heading("Transfer");
    samples_print(&nginx_up, NULL);
    samples_print(&up, &nginx_up);
    samples_print(&nginx_down, NULL);
    samples_print(&down, &nginx_down);
}

/* A "Name:   N kB" line of a file in /proc; 0 when it is not there. */
static uint64_t kb_of(const char *path, const char *name)
{
    char line[256];
    uint64_t kb = 0;
    FILE *f = fopen(path, "re");

    if (!f) {
        return 0;
    }
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kb = strtoull(line + strlen(name), NULL, 10);
        }
    }
    (void)fclose(f);
    return kb;
}

static void bench_memory(struct client *c, const char *serve_pid)
{
    static struct client_box boxes[IDLE_SANDBOXES];
    char status[64];
    int n = 0;

    (void)snprintf(status, sizeof(status), "/proc/%s/status", serve_pid ? serve_pid : "self");
    uint64_t daemon_before = kb_of(status, "VmRSS:");
    uint64_t before = kb_of("/proc/meminfo", "MemAvailable:");
    while (n < IDLE_SANDBOXES && client_create(c, &boxes[n]) == 0) {
        n++;
    }
    uint64_t after = kb_of("/proc/meminfo", "MemAvailable:");
    uint64_t daemon_after = kb_of(status, "VmRSS:");
    for (int i = 0; i < n; i++) {
        (void)client_kill(c, &boxes[i]);
    }
    printf("\nMemory, %d idle sandboxes\n", n);
    printf("%-46s %9.0f kB\n", "host memory per sandbox (MemAvailable)",
           n ? (double)(int64_t)(before - after) / n : 0.0);
    if (serve_pid) {
        printf("%-46s %9" PRIu64 " kB\n", "daemon, resident, before", daemon_before);
        printf("%-46s %9" PRIu64 " kB\n", "daemon, resident, with them", daemon_after);
    }
}

int main(void)
{
    const char *rootfs = getenv("BENCH_ROOTFS");
    const char *scratch = getenv("BENCH_SCRATCH");
    struct client *c = client_new();

    if (!rootfs || !scratch) {
        fprintf(stderr, "bench: BENCH_ROOTFS and BENCH_SCRATCH must be set: run bench/run\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_create(c, rootfs, scratch);
    bench_command(c);
    bench_transfer(c, getenv("BENCH_NGINX"));
    bench_memory(c, getenv("BENCH_SERVE_PID"));
    client_free(c);
    return 0;
}
