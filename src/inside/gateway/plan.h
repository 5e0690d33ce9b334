/* plan.h - the configuration as plans, one per MCP server, checked before any server is started.
 *
 * Owns:     its texts and JSON.
 * Blocks:   never.
 * Threads:  any, each plan in one.
 *
 * The configuration is an object with a member per server. Its name says which kind it is:
 *
 *   "filesystem": {"paths": ["/home/user"]}              one of the catalogue, with its fields
 *   "github/owner/repo": {"runCmd", "installCmd", "envs"} a repository that is cloned
 *   any other: {"npm" | "pypi" | "command", "run", "with", "args", "envs"}   a package, or a
 * command
 */
#ifndef GATEWAY_PLAN_H
#define GATEWAY_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "inside/gateway/catalogue.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    PLANS_MAX = 64,
    PLAN_NAME_LEN_MAX = 128,
};

enum plan_kind { PLAN_COMMAND, PLAN_NPM, PLAN_PYPI, PLAN_GITHUB };

struct plan {
    char *name;    /* its key in the configuration */
    char *prefix;  /* of its tools: "<prefix>-<tool>" */
    char *source;  /* the package with its version, or the repository's address; NULL: a command */
    char *with;    /* installed beside the package: "mcp<2"; NULL: only its own dependencies */
    char *program; /* of the package, NULL: the one that it has; the command; what sh runs */
    char *install; /* run by sh in the repository first, or NULL */
    json_t *args;  /* an array of strings */
    json_t *env;   /* an object of strings */
    enum plan_kind kind;
};

struct plans {
    struct plan all[PLANS_MAX];
    size_t n;
};

/* `text` is the configuration. A refusal says where in it. */
must_check int plans_read(struct str text, const struct catalogue *catalogue, struct plans *out,
                          struct err *err);

/* A plan to install a server of the catalogue ahead: it has no arguments. */
must_check int plans_pull(char *const *names, size_t n, const struct catalogue *catalogue,
                          struct plans *out, struct err *err);

void plans_fini(struct plans *plans);
#define scoped_plans scoped(plans_fini) struct plans

const char *plan_kind_name(enum plan_kind kind); /* "npm": its directory, and its word in JSON */

/* "@scope/name@1.2" is "@scope/name"; "name[extra]==1.2" is "name". */
struct str plan_package(const struct plan *plan);

#endif
