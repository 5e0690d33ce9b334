/* top.c - `atoll top`: sandboxes and their figures, live. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli/fleet.h"
#include "cli/template.h"
#include "cli/units.h"

enum { INTERVAL_S = 2, INTERVAL_MAX_S = 3600, HEAD_LINES = 4 };

/* A line that is wider than the terminal is cut: wrapped, it would push the others out. */
#define SCREEN_OPEN "\033[?1049h\033[?25l\033[?7l"
#define SCREEN_CLOSE "\033[?7h\033[?25h\033[?1049l"

static const struct grid_column columns[] = {
    {.title = "ID"},
    {.title = "TEMPLATE", .shrinks = true},
    {.title = "CPU", .right = true},
    {.title = "MEMORY", .right = true},
    {.title = "DISK", .right = true},
    {.title = "AGE", .right = true},
    {.title = "LEFT", .right = true},
    {.title = "METADATA", .shrinks = true},
};

struct top {
    const struct cli *cli;
    struct endpoint endpoint;
    struct fleet fleet;
    enum fleet_order order;
    int interval_s;
    struct termios before;
};

static void rows_add(const struct fleet *fleet, struct grid *grid)
{
    for (size_t i = 0; i < fleet->n; i++) {
        const struct fleet_row *row = &fleet->rows[i];
        const char *alias = json_string_of(row->sandbox, "alias");
        grid_add(grid, json_text_of(row->sandbox, "sandboxID"));
        grid_add(grid, alias ? alias : json_text_of(row->sandbox, "templateID"));
        fleet_add_cpu(grid, row);
        fleet_add_size(grid, row, "memUsed");
        fleet_add_size(grid, row, "diskUsed");
        fleet_add_age(grid, row);
        fleet_add_left(grid, row);
        fleet_add_metadata(grid, row);
    }
}

static void totals(const struct fleet *fleet, char *out, size_t size)
{
    double cpu = 0, memory = 0, disk = 0;
    char m[UNITS_BYTES], d[UNITS_BYTES];

    for (size_t i = 0; i < fleet->n; i++) {
        cpu += fleet_figure(&fleet->rows[i], "cpuUsedPct");
        memory += fleet_figure(&fleet->rows[i], "memUsed");
        disk += fleet_figure(&fleet->rows[i], "diskUsed");
    }
    (void)snprintf(out, size, "%zu running, CPU %.1f%%, memory %s, disk %s", fleet->n, cpu,
                   units_size(memory, m), units_size(disk, d));
}

/* ---- live ---- */

static void draw(const struct top *top)
{
    static const char *const orders[] = {[FLEET_BY_AGE] = "age",
                                         [FLEET_BY_CPU] = "CPU",
                                         [FLEET_BY_MEMORY] = "memory",
                                         [FLEET_BY_DISK] = "disk"};
    scoped(grid_fini) struct grid grid = grid_of(columns);
    char sum[128];
    int room = terminal_height(stdout) - HEAD_LINES;

    totals(&top->fleet, sum, sizeof(sum));
    rows_add(&top->fleet, &grid);
    printf(
        "\033[H%s\033[K\n%sby %s; keys: c CPU, m memory, d disk, a age, q quit%s\033[K\n\033[K\n",
        sum, terminal_paint(stdout, PAINT_DIM), orders[top->order], terminal_plain(stdout));
    grid_print_rows(&grid, stdout, room > 1 ? (size_t)room - 1 : 1);
    printf("\033[J");
    (void)fflush(stdout);
}

/* False: the user quits. */
static bool key_take(struct top *top, char key)
{
    static const struct {
        char key;
        enum fleet_order order;
    } keys[] = {
        {'c', FLEET_BY_CPU}, {'m', FLEET_BY_MEMORY}, {'d', FLEET_BY_DISK}, {'a', FLEET_BY_AGE}};

    for (size_t i = 0; i < countof(keys); i++) {
        top->order = key == keys[i].key ? keys[i].order : top->order;
    }
    fleet_sort(&top->fleet, top->order);
    return key != 'q' && key != 'Q';
}

/* Waits for keys until the next figures are due. False: the user quits. */
static bool wait_for_keys(struct top *top)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    time_t due = time(NULL) + top->interval_s;
    bool goes_on = true;
    char key;

    while (goes_on && !follow_interrupted() && time(NULL) < due) {
        int left_ms = (int)(due - time(NULL)) * 1000;
        if (poll(&in, 1, left_ms) == 1) {
            goes_on = read(STDIN_FILENO, &key, 1) == 1 && key_take(top, key);
            draw(top);
        }
    }
    return goes_on && !follow_interrupted();
}

static void screen_open(struct top *top)
{
    struct termios raw;

    (void)tcgetattr(STDIN_FILENO, &top->before);
    raw = top->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    printf("%s", SCREEN_OPEN);
}

static void screen_close(const struct top *top)
{
    printf("%s", SCREEN_CLOSE);
    (void)fflush(stdout);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
}

static int fleet_again(struct top *top, struct err *err)
{
    struct fleet next = {0};
    int r = fleet_read(top->cli, &top->endpoint, FLEET_LATEST, &next, err);

    if (r == 0) {
        fleet_fini(&top->fleet);
        top->fleet = next;
        fleet_sort(&top->fleet, top->order);
    }
    return r;
}

static int live(struct top *top, struct err *err)
{
    int r = fleet_again(top, err);

    if (r < 0) {
        return r;
    }
    follow_begin();
    screen_open(top);
    do {
        draw(top);
    } while (wait_for_keys(top) && (r = fleet_again(top, err)) == 0);
    screen_close(top);
    return r < 0 ? r : follow_interrupted() ? err_set(err, EINTR, "interrupted") : 0;
}

/* ---- once ---- */

static int once(struct top *top, struct err *err)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);
    char sum[128];
    int r = fleet_again(top, err);

    if (r < 0) {
        return r;
    }
    rows_add(&top->fleet, &grid);
    if (terminal_is(stdout)) {
        totals(&top->fleet, sum, sizeof(sum));
        printf("%s\n\n", sum);
    }
    grid_print(&grid, stdout);
    return 0;
}

static int order_of(const char *name, enum fleet_order *order)
{
    static const char *const names[] = {"age", "cpu", "memory", "disk"};

    for (size_t i = 0; i < countof(names); i++) {
        if (name && strcmp(names[i], name) == 0) {
            *order = (enum fleet_order)i;
        }
    }
    return 0;
}

static int top(struct cli *cli)
{
    const char *interval = cli_option(cli, "--interval");
    struct top top = {.cli = cli, .order = FLEET_BY_CPU, .interval_s = INTERVAL_S};
    char *end = NULL;
    struct err err;

    (void)order_of(cli_option(cli, "--sort"), &top.order);
    if (interval) {
        top.interval_s = (int)strtol(interval, &end, 10);
    }
    if ((end && *end) || top.interval_s < 1 || top.interval_s > INTERVAL_MAX_S) {
        return cli_usage(cli, "'%s' is not a number of seconds", interval);
    }
    int r = endpoint_choose(cli, &top.endpoint, &err);
    if (r == 0) {
        bool is_live = terminal_is(stdout) && terminal_is(stdin) && !cli_has(cli, "--once");
        r = is_live ? live(&top, &err) : once(&top, &err);
    }
    fleet_fini(&top.fleet);
    return cli_result(r, &err);
}

static const struct option options[] = {
    {.name = "--once", .help = "print once and end, as without a terminal"},
    {.name = "--sort",
     .value = "BY",
     .help = "cpu, memory, disk or age [cpu]",
     .choices = "cpu|memory|disk|age"},
    {.name = "--interval", .letter = "-i", .value = "SECONDS", .help = "between figures [2]"},
    {.name = "--template",
     .value = "NAME",
     .help = "sandboxes of this template only",
     .takes = TAKES_TEMPLATE},
    {.name = "--metadata",
     .letter = "-m",
     .value = "KEY=VALUE",
     .help = "those with this metadata only",
     .repeats = true},
    {.name = NULL},
};

const struct command row_top = {
    .name = "top",
    .args = "[--once] [--sort BY] [--interval SECONDS]",
    .summary = "shows running sandboxes and their figures, live",
    .run = top,
    .group = GROUP_WATCH,
    .options = options,
    .about = "Keys: c, m, d and a sort by CPU, memory, disk and age; q quits.",
    .examples = "atoll top --sort memory",
};
