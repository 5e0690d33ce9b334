#include "flow.h"

#include <stdio.h>
#include <stdlib.h>

enum { WAIT_MS = 1000 };

struct lane {
    CURL *curl;
    struct curl_slist *headers;
    struct answer answer;
    struct flow *flow; /* NULL: free */
    enum flow_step step;
    double flow_ms, step_ms; /* when they began */
};

struct drive {
    struct client *client;
    CURLM *multi;
    const struct flow_plan *plan;
    struct flow *flows;
    size_t n, next; /* the one that begins next */
    struct lane *lanes;
    size_t busy;
    double begin_ms;
};

/* ---- one step of one flow ---- */

static void step_ask(struct drive *drive, struct lane *lane)
{
    const struct client *c = drive->client;
    const struct flow_plan *plan = drive->plan;

    if (lane->step == FLOW_CREATE) {
        lane->headers = client_ask_create(c, lane->curl, &lane->answer, plan->template);
    } else if (lane->step == FLOW_RUN) {
        lane->headers =
            client_ask_run(c, lane->curl, &lane->answer, &lane->flow->box, plan->command);
    } else {
        lane->headers = client_ask_kill(c, lane->curl, &lane->answer, &lane->flow->box);
    }
    curl_easy_setopt(lane->curl, CURLOPT_PRIVATE, lane);
    curl_multi_add_handle(drive->multi, lane->curl);
}

static int step_check(struct lane *lane, CURLcode code)
{
    static const char *const names[FLOW_STEPS] = {"create", "run", "kill"};

    if (client_check(lane->curl, code, names[lane->step], &lane->answer) < 0) {
        return -1;
    }
    if (lane->step == FLOW_CREATE) {
        return client_read_created(&lane->answer, &lane->flow->box);
    }
    return lane->step == FLOW_RUN ? client_read_exited(&lane->answer) : 0;
}

/* The step from which on one is wanted; FLOW_STEPS: there is none. */
static enum flow_step step_from(const struct flow_plan *plan, enum flow_step step)
{
    while (step < FLOW_STEPS && !plan->steps[step]) {
        step++;
    }
    return step;
}

static void step_begin(struct drive *drive, struct lane *lane, enum flow_step from)
{
    lane->step = step_from(drive->plan, from);
    if (lane->flow->failed || lane->step == FLOW_STEPS) {
        lane->flow->total_ms = now_ms() - lane->flow_ms;
        lane->flow = NULL;
        drive->busy--;
        return;
    }
    lane->step_ms = now_ms();
    step_ask(drive, lane);
}

static void step_end(struct drive *drive, struct lane *lane, CURLcode code)
{
    lane->flow->took_ms[lane->step] = now_ms() - lane->step_ms;
    curl_multi_remove_handle(drive->multi, lane->curl);
    lane->flow->failed = step_check(lane, code) < 0;
    curl_slist_free_all(lane->headers);
    step_begin(drive, lane, lane->step + 1);
}

/* ---- all of them ---- */

/* When the next flow is due, in ms from now; negative: none is. */
static double next_due(const struct drive *drive)
{
    const struct flow_plan *plan = drive->plan;
    double now = now_ms() - drive->begin_ms;

    if (drive->next == drive->n || drive->busy == plan->lanes ||
        (plan->span_ms > 0 && now > plan->span_ms)) {
        return -1;
    }
    double due = plan->stagger_ms * (double)drive->next - now;
    return due > 0 ? due : 0;
}

static struct lane *lane_free(const struct drive *drive)
{
    struct lane *lane = drive->lanes;

    while (lane->flow) {
        lane++;
    }
    return lane;
}

static void flows_begin(struct drive *drive)
{
    while (next_due(drive) == 0) { // NOLINT: exact by construction
        struct lane *lane = lane_free(drive);
        lane->flow = &drive->flows[drive->next++];
        lane->flow->begun = true;
        lane->flow_ms = now_ms();
        drive->busy++;
        step_begin(drive, lane, FLOW_CREATE);
    }
}

static void ended_take(struct drive *drive)
{
    const CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(drive->multi, &left))) {
        struct lane *lane = NULL;
        CURLcode code = msg->data.result;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&lane);
        step_end(drive, lane, code);
    }
}

static int drive_on(struct drive *drive)
{
    int running = 0;

    for (;;) {
        flows_begin(drive);
        if (curl_multi_perform(drive->multi, &running) != CURLM_OK) {
            return -1;
        }
        ended_take(drive);
        double due = next_due(drive);
        if (drive->busy == 0 && due < 0) {
            return 0;
        }
        int wait_ms = due < 0 ? WAIT_MS : due < 1 ? 0 : (int)due;
        if (curl_multi_poll(drive->multi, NULL, 0, wait_ms, NULL) != CURLM_OK) {
            return -1;
        }
    }
}

int flows_run(struct client *c, struct flow *flows, size_t n, const struct flow_plan *plan)
{
    struct drive drive = {.client = c,
                          .multi = client_multi(c),
                          .plan = plan,
                          .flows = flows,
                          .n = n,
                          .lanes = calloc(plan->lanes, sizeof(struct lane)),
                          .begin_ms = now_ms()};

    if (!drive.lanes) {
        abort();
    }
    for (size_t i = 0; i < plan->lanes; i++) {
        drive.lanes[i].curl = curl_easy_init();
    }
    int r = drive_on(&drive);
    if (r < 0) {
        fprintf(stderr, "bench: the transfers cannot be driven\n");
    }
    for (size_t i = 0; i < plan->lanes; i++) {
        curl_easy_cleanup(drive.lanes[i].curl);
    }
    free(drive.lanes);
    return r;
}
