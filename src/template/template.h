/* template.h - what a sandbox starts from, and the table of them in memory. */
#ifndef TEMPLATE_TEMPLATE_H
#define TEMPLATE_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/err.h"
#include "base/str.h"
#include "store/store.h"

struct template
{
    char *id;
    char *alias;   /* NULL: has none */
    char *team_id; /* NULL: built in */
    char *build_id;
    char *layers; /* topmost first, separated by ',' */
    char *user;
    char *workdir;
    char *env_json;
    uint32_t cpu_count, memory_mb, disk_mb;
    int64_t created_ms;
    bool is_public;
};

struct templates;

/* Reads the table back from the store. */
must_check int templates_new(struct store *store, struct templates **out, struct err *err);
void templates_free(struct templates *templates);

/* Puts a built-in template in place, or changes it when its layers did. */
void templates_put_builtin(struct templates *templates, const char *alias, const char *layers,
                           uint32_t cpu_count, uint32_t memory_mb, uint32_t disk_mb);

/* By id, alias, or alias:tag. NULL with -ENOENT or -EACCES in *why (never NULL). */
const struct template *templates_find(struct templates *templates, const char *team_id,
                                      struct str name, int *why);

#endif
