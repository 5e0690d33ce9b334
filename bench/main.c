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
#include "proc.h"
#include "timing.h"

enum {
    CREATES = 60,
    COMMANDS = 300,
    TRANSFERS = 3,
    STREAMS = 200,
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

static void print_kb(const char *name, uint64_t kb)
{
    printf("%-46s %9" PRIu64 " kB\n", name, kb);
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
    uint64_t agent = proc_agent_kb(box.id);
    (void)client_kill(c, &box);
    heading("Command round trip");
    samples_print(&bare, NULL);
    samples_print(&command, &bare);
    samples_print(&shell, &bare);
    print_kb("agent, resident, after them", agent);
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
    uint64_t agent = proc_agent_kb(box.id);
    (void)client_kill(c, &box);
    heading("Transfer");
    samples_print(&nginx_up, NULL);
    samples_print(&up, &nginx_up);
    samples_print(&nginx_down, NULL);
    samples_print(&down, &nginx_down);
    print_kb("agent, resident, after them", agent);
}

static void bench_streams(struct client *c)
{
    static struct samples local = {.name = "head -c 1G /dev/zero, read over a pipe"};
    static struct samples print = {.name = "atoll: the same, read over HTTP"};
    static struct samples one = {.name = "atoll: sleep 1; echo"};
    static struct samples many = {.name = "atoll: 200 of them at once"};
    struct client_box box;

    if (client_create(c, &box) < 0) {
        return;
    }
    uint64_t idle = proc_agent_kb(box.id);
    for (int i = 0; i < TRANSFERS; i++) {
        TIMED(local, peer_read("exec head -c 1073741824 /dev/zero", transfer_bytes));
        TIMED(print, client_run_printing(c, &box, "/usr/bin/head",
                                         "\"-c\",\"1073741824\",\"/dev/zero\"", transfer_bytes));
    }
    uint64_t printed = proc_agent_kb(box.id);
    for (int i = 0; i < TRANSFERS; i++) {
        TIMED(one, client_run(c, &box, "/bin/sh", "\"-c\",\"sleep 1; echo\""));
        TIMED(many, client_run_many(c, &box, "/bin/sh", "\"-c\",\"sleep 1; echo\"", STREAMS));
    }
    uint64_t streamed = proc_agent_kb(box.id);
    (void)client_kill(c, &box);
    heading("Streams");
    samples_print(&local, NULL);
    samples_print(&print, &local);
    samples_print(&one, NULL);
    samples_print(&many, &one);
    print_kb("agent, resident, before", idle);
    print_kb("agent, resident, after 1 GB of output", printed);
    print_kb("agent, resident, after 200 streams", streamed);
}

static void bench_memory(struct client *c, const char *serve_pid)
{
    static struct client_box boxes[IDLE_SANDBOXES];
    char status[64];
    int n = 0;

    (void)snprintf(status, sizeof(status), "/proc/%s/status", serve_pid ? serve_pid : "self");
    uint64_t daemon_before = proc_kb(status, "VmRSS:");
    uint64_t before = proc_kb("/proc/meminfo", "MemAvailable:");
    while (n < IDLE_SANDBOXES && client_create(c, &boxes[n]) == 0) {
        n++;
    }
    uint64_t after = proc_kb("/proc/meminfo", "MemAvailable:");
    uint64_t daemon_after = proc_kb(status, "VmRSS:");
    for (int i = 0; i < n; i++) {
        (void)client_kill(c, &boxes[i]);
    }
    printf("\nMemory, %d idle sandboxes\n", n);
    printf("%-46s %9.0f kB\n", "host memory per sandbox (MemAvailable)",
           n ? (double)(int64_t)(before - after) / n : 0.0);
    if (serve_pid) {
        print_kb("daemon, resident, before", daemon_before);
        print_kb("daemon, resident, with them", daemon_after);
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
    bench_streams(c);
    bench_memory(c, getenv("BENCH_SERVE_PID"));
    client_free(c);
    return 0;
}
