/* The measurements' hand in C: reads what to do from standard input, a JSON object a line, does it,
 * and answers each with a line that says how long it took. Loops, alternation and statistics are
 * the asker's (bench/lib).
 *
 *   {"do":"flows","steps":["create","run","kill"],"n":100,"lanes":100,"stagger_ms":0,"span_s":0,
 *    "template":"base","command":"echo"}
 *         What is created and not killed is held; steps without a create go over what is held, a
 *         kill from its end. Answers "create", "run", "kill", "total": ms of each; "failed",
 * "all_ms".
 *   {"do":"list"} {"do":"print","bytes":N} {"do":"print-binary","bytes":N}
 *   {"do":"upload","bytes":N} {"do":"upload-form","bytes":N} {"do":"download","bytes":N}
 *   {"do":"put","url":U,"bytes":N} {"do":"get","url":U,"bytes":N} {"do":"peer","name":P}
 *   {"do":"pipe","bytes":N} {"do":"hold","name":"none|net|all","n":N} {"do":"release"}
 *         Answers "ms".
 *
 * What failed is answered with "error" true; its sentence is on standard error. Environment: that
 * of a client (tools/with-daemon sets it); for peers BENCH_ROOTFS and BENCH_SCRATCH. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow.h"
#include "peers.h"

enum { COMMAND_BYTES = 128, LANES_MAX = 1000, FLOWS_MAX = 200 * 1000 };

static const char *const file_path = "/home/user/big";

struct hand {
    struct client *client;
    struct peers peers;
    struct client_box *held;
    size_t held_n, held_cap;
};

/* ---- flows ---- */

static const char *const step_names[FLOW_STEPS] = {"create", "run", "kill"};

static void hold(struct hand *hand, const struct client_box *box)
{
    if (hand->held_n == hand->held_cap) {
        hand->held_cap = hand->held_cap ? hand->held_cap * 2 : 64;
        hand->held = reallocarray(hand->held, hand->held_cap, sizeof(*box));
        if (!hand->held) {
            abort();
        }
    }
    hand->held[hand->held_n++] = *box;
}

/* Those that are created know theirs when they are. */
static size_t boxes_deal(const struct hand *hand, struct flow *flows, size_t n,
                         const struct flow_plan *plan)
{
    if (plan->steps[FLOW_CREATE]) {
        return n;
    }
    if (hand->held_n == 0) {
        return 0;
    }
    if (plan->steps[FLOW_KILL] && n > hand->held_n) {
        n = hand->held_n;
    }
    for (size_t i = 0; i < n; i++) {
        flows[i].box = hand->held[plan->steps[FLOW_KILL] ? hand->held_n - 1 - i : i % hand->held_n];
    }
    return n;
}

static void boxes_settle(struct hand *hand, const struct flow *flows, size_t n,
                         const struct flow_plan *plan)
{
    if (plan->steps[FLOW_CREATE] == plan->steps[FLOW_KILL]) {
        return;
    }
    if (plan->steps[FLOW_KILL]) {
        hand->held_n -= n;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (flows[i].box.id[0]) {
            hold(hand, &flows[i].box);
        }
    }
}

static json_t *times(const struct flow *flows, size_t n, int step)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        if (flows[i].begun && !flows[i].failed) {
            double ms = step < FLOW_STEPS ? flows[i].took_ms[step] : flows[i].total_ms;
            (void)json_array_append_new(list, json_real(ms));
        }
    }
    return list;
}

static json_t *flows_tell(const struct flow *flows, size_t n, const struct flow_plan *plan,
                          double all_ms)
{
    size_t failed = 0;
    json_t *answer = json_object();

    for (size_t i = 0; i < n; i++) {
        failed += flows[i].failed;
    }
    for (int step = 0; step < FLOW_STEPS; step++) {
        if (plan->steps[step]) {
            (void)json_object_set_new(answer, step_names[step], times(flows, n, step));
        }
    }
    (void)json_object_set_new(answer, "total", times(flows, n, FLOW_STEPS));
    (void)json_object_set_new(answer, "failed", json_integer((json_int_t)failed));
    (void)json_object_set_new(answer, "all_ms", json_real(all_ms));
    return answer;
}

static bool plan_read(json_t *asked, struct flow_plan *plan, size_t *n)
{
    int count = 0, lanes = 1;
    double span_s = 0;
    json_t *steps = NULL, *name = NULL;
    size_t i;

    *plan = (struct flow_plan){.template = "base", .command = "true"};
    if (json_unpack(asked, "{so si s?i s?F s?F s?s s?s}", "steps", &steps, "n", &count, "lanes",
                    &lanes, "stagger_ms", &plan->stagger_ms, "span_s", &span_s, "template",
                    &plan->template, "command", &plan->command) < 0 ||
        count < 1 || count > FLOWS_MAX || lanes < 1 || lanes > LANES_MAX) {
        return false;
    }
    json_array_foreach (steps, i, name) {
        for (int step = 0; step < FLOW_STEPS; step++) {
            plan->steps[step] |= strcmp(json_string_value(name), step_names[step]) == 0;
        }
    }
    plan->span_ms = span_s * 1000;
    plan->lanes = (size_t)(lanes < count ? lanes : count);
    *n = (size_t)count;
    return true;
}

static json_t *flows_do(struct hand *hand, json_t *asked)
{
    struct flow_plan plan;
    json_t *answer = NULL;
    size_t n;

    if (!plan_read(asked, &plan, &n)) {
        return NULL;
    }
    struct flow *flows = calloc(n, sizeof(*flows));
    if (!flows) {
        abort();
    }
    n = boxes_deal(hand, flows, n, &plan);
    double begin = now_ms();
    if (n == 0 || flows_run(hand->client, flows, n, &plan) == 0) {
        double all_ms = now_ms() - begin;
        boxes_settle(hand, flows, n, &plan);
        answer = flows_tell(flows, n, &plan, all_ms);
    }
    free(flows);
    return answer;
}

/* ---- what is done once ---- */

static int print_do(struct hand *hand, size_t bytes, bool binary)
{
    char command[COMMAND_BYTES];

    (void)snprintf(command, sizeof(command), "exec head -c %zu /dev/zero", bytes);
    return binary ? client_run_binary(hand->client, &hand->held[0], command, bytes)
                  : client_run(hand->client, &hand->held[0], command, bytes);
}

static int pipe_do(size_t bytes)
{
    char command[COMMAND_BYTES];

    (void)snprintf(command, sizeof(command), "exec head -c %zu /dev/zero", bytes);
    return peer_read(command, bytes);
}

static int box_do(struct hand *hand, const char *what, size_t bytes)
{
    if (hand->held_n == 0) {
        return -1;
    }
    if (strcmp(what, "print") == 0 || strcmp(what, "print-binary") == 0) {
        return print_do(hand, bytes, strcmp(what, "print") != 0);
    }
    if (strcmp(what, "upload-form") == 0) {
        return client_upload_form(hand->client, &hand->held[0], file_path, bytes);
    }
    return strcmp(what, "upload") == 0
               ? client_upload(hand->client, &hand->held[0], file_path, bytes)
               : client_download(hand->client, &hand->held[0], file_path, bytes);
}

static int once_do(struct hand *hand, const json_t *asked, const char *what)
{
    const char *url = json_string_value(json_object_get(asked, "url"));
    const char *name = json_string_value(json_object_get(asked, "name"));
    size_t bytes = (size_t)json_integer_value(json_object_get(asked, "bytes"));

    if (strcmp(what, "list") == 0) {
        return client_list(hand->client);
    }
    if (strcmp(what, "pipe") == 0) {
        return pipe_do(bytes);
    }
    if (strcmp(what, "peer") == 0 && name) {
        return peer_run(&hand->peers, name);
    }
    if (strcmp(what, "hold") == 0 && name) {
        return peers_hold(name, (int)json_integer_value(json_object_get(asked, "n")));
    }
    if (strcmp(what, "release") == 0) {
        peers_release();
        return 0;
    }
    if (strcmp(what, "put") == 0 && url) {
        return client_put(hand->client, url, bytes);
    }
    if (strcmp(what, "get") == 0 && url) {
        return client_get(hand->client, url, bytes);
    }
    return box_do(hand, what, bytes);
}

static json_t *answer_to(struct hand *hand, json_t *asked)
{
    const char *what = json_string_value(json_object_get(asked, "do"));

    if (!what) {
        return NULL;
    }
    if (strcmp(what, "flows") == 0) {
        return flows_do(hand, asked);
    }
    double begin = now_ms();
    int r = once_do(hand, asked, what);
    return r < 0 ? NULL : json_pack("{sf}", "ms", now_ms() - begin);
}

static void line_do(struct hand *hand, const char *line)
{
    json_t *asked = json_loads(line, 0, NULL);
    json_t *answer = answer_to(hand, asked);

    if (!answer) {
        answer = json_pack("{sb}", "error", 1);
    }
    (void)json_dumpf(answer, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    (void)putchar('\n');
    (void)fflush(stdout);
    json_decref(answer);
    json_decref(asked);
}

int main(void)
{
    struct hand hand = {.client = client_new(),
                        .peers = {getenv("BENCH_ROOTFS"), getenv("BENCH_SCRATCH")}};
    char *line = NULL;
    size_t cap = 0;

    if (hand.peers.rootfs && hand.peers.scratch && peers_prepare(&hand.peers) < 0) {
        fprintf(stderr, "bench: the peers' bundle cannot be written\n");
        return 1;
    }
    while (getline(&line, &cap, stdin) > 0) {
        line_do(&hand, line);
    }
    peers_release();
    free(line);
    free(hand.held);
    client_free(hand.client);
    return 0;
}
