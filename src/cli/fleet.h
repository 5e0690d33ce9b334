/* fleet.h - sandboxes with their latest figures, as `ps`, `top` and `stats` show them. */
#ifndef CLI_FLEET_H
#define CLI_FLEET_H

#include "cli/cli.h"
#include "cli/grid.h"

struct fleet_row {
    const json_t *sandbox; /* of /v2/sandboxes or /dashboard/sandboxes */
    const json_t *figures; /* NULL: it has none (yet, or while paused) */
};

enum fleet_figures {
    FLEET_PLAIN,   /* no figures; the list is that of /v2/sandboxes */
    FLEET_LATEST,  /* CPU, memory and disk, in as few requests as there can be */
    FLEET_METRICS, /* the answers of /sandboxes/metrics */
};

struct fleet {
    struct fleet_row *rows;
    size_t n;
    json_t *list, *figures; /* that the rows borrow from */
};

enum fleet_order { FLEET_BY_AGE, FLEET_BY_CPU, FLEET_BY_MEMORY, FLEET_BY_DISK };

/* Reads the sandboxes that the filters choose: --all, --state, --template, --metadata. Blocks. */
must_check int fleet_read(const struct cli *cli, const struct endpoint *endpoint,
                          enum fleet_figures figures, struct fleet *fleet, struct err *err);
void fleet_fini(struct fleet *fleet);

/* Descending; the newest first by age. */
void fleet_sort(struct fleet *fleet, enum fleet_order order);

/* A figure by its name; 0 where there is none. */
double fleet_figure(const struct fleet_row *row, const char *name);

/* Cells for figures: "-" where there are none. */
void fleet_add_cpu(struct grid *grid, const struct fleet_row *row);
void fleet_add_size(struct grid *grid, const struct fleet_row *row, const char *name);
void fleet_add_state(struct grid *grid, const struct fleet_row *row);
void fleet_add_age(struct grid *grid, const struct fleet_row *row);
void fleet_add_left(struct grid *grid, const struct fleet_row *row);
void fleet_add_metadata(struct grid *grid, const struct fleet_row *row);

/* The options that fleet_read() reads. */
#define FLEET_FILTERS                                                                              \
    {.name = "--state",                                                                            \
     .value = "STATE",                                                                             \
     .help = "running or paused sandboxes only",                                                   \
     .choices = "running|paused"},                                                                 \
        {.name = "--template",                                                                     \
         .value = "NAME",                                                                          \
         .help = "those of this template only",                                                    \
         .takes = TAKES_TEMPLATE},                                                                 \
    {                                                                                              \
        .name = "--metadata", .letter = "-m", .value = "KEY=VALUE",                                \
        .help = "those with this metadata only", .repeats = true                                   \
    }

#endif
