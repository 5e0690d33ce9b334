/* rules.h - the options that say what a sandbox may reach, as `run` and `network` have them.
 *
 * Blocks:   never; pure. Any thread.
 */
#ifndef CLI_RULES_H
#define CLI_RULES_H

#include "cli/cli.h"

/* Whether one of the options was given. */
bool rules_given(const struct cli *cli);

/* Puts allowOut and denyOut into `network`, and allow_internet_access into `body`. --allow-out
 * alone denies all other targets: nobody allows one target and means every other as well. */
must_check int rules_add(const struct cli *cli, json_t *network, json_t *body, struct err *err);

/* The options that rules_add() reads. */
#define RULES_OPTIONS                                                                              \
    {.name = "--allow-out",                                                                        \
     .value = "TARGET",                                                                            \
     .help = "reach this alone: address, block, name, *.name",                                     \
     .repeats = true},                                                                             \
        {.name = "--deny-out",                                                                     \
         .value = "TARGET",                                                                        \
         .help = "do not reach this address or block",                                             \
         .repeats = true},                                                                         \
    {                                                                                              \
        .name = "--no-internet", .help = "reach nothing but targets of --allow-out"                \
    }

#endif
