#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/template.h"

enum { PRUNE_DAYS_MAX = 36500, SECONDS_A_DAY = 24 * 3600 };

const char cli_template_usage[] =
    "usage: atoll template list\n"
    "       atoll template build NAME [DIR] [-f DOCKERFILE] [--build-arg NAME=VALUE]\n"
    "                      [--cpus N] [--memory MB] [--start CMD] [--ready CMD] [--no-cache]\n"
    "       atoll template logs NAME [BUILD]\n"
    "       atoll template delete NAME\n"
    "       atoll template prune [DAYS]";

/* ---- list ---- */

static void template_print(const json_t *t)
{
    const char *name = json_string_value(json_array_get(json_object_get(t, "names"), 0));

    printf("%-22s %-30s %-9s %4lld %7lld %8lld %7lld  %.19s\n", answer_text(t, "templateID"),
           name ? name : "-", answer_text(t, "buildStatus"),
           (long long)json_integer_value(json_object_get(t, "cpuCount")),
           (long long)json_integer_value(json_object_get(t, "memoryMB")),
           (long long)json_integer_value(json_object_get(t, "diskSizeMB")),
           (long long)json_integer_value(json_object_get(t, "spawnCount")),
           answer_text(t, "updatedAt"));
}

static int list(const struct endpoint *endpoint, struct err *err)
{
    scoped_json *answer = NULL;
    const json_t *t;
    size_t i;
    int r = endpoint_call(endpoint, "GET", "/templates", NULL, &answer, err);

    if (r < 0) {
        return r;
    }
    printf("%-22s %-30s %-9s %4s %7s %8s %7s  %s\n", "ID", "NAME", "STATUS", "CPUS", "MEM MB",
           "DISK MB", "STARTED", "UPDATED");
    json_array_foreach (answer, i, t) {
        template_print(t);
    }
    return 0;
}

/* ---- logs ---- */

/* The build, or the newest one when none is named. */
static int build_find(const struct endpoint *endpoint, const char *name, const char *wanted,
                      struct build_place *out, struct err *err)
{
    scoped_json *answer = NULL;
    char path[TEMPLATE_PATH_BYTES], escaped[TEMPLATE_NAME_BYTES];

    endpoint_escape(name, escaped, sizeof(escaped));
    (void)snprintf(path, sizeof(path), "/templates/%s", escaped);
    int r = endpoint_call(endpoint, "GET", path, NULL, &answer, err);
    if (r < 0) {
        return r;
    }
    const json_t *newest = json_array_get(json_object_get(answer, "builds"), 0);
    const char *build = wanted ? wanted : json_string_of(newest, "buildID");
    if (!build) {
        return err_set(err, ENOENT, "%s has not been built yet", name);
    }
    (void)snprintf(out->template_id, sizeof(out->template_id), "%s",
                   answer_text(answer, "templateID"));
    (void)snprintf(out->build_id, sizeof(out->build_id), "%s", build);
    return 0;
}

static int logs(const struct endpoint *endpoint, const char *name, const char *build,
                struct err *err)
{
    struct build_place place;
    int r = build_find(endpoint, name, build, &place, err);

    return r < 0 ? r : build_follow(endpoint, &place, false, err);
}

/* ---- delete, prune ---- */

static int remove_one(const struct endpoint *endpoint, const char *name, struct err *err)
{
    scoped_json *answer = NULL;
    char path[TEMPLATE_PATH_BYTES], escaped[TEMPLATE_NAME_BYTES];

    endpoint_escape(name, escaped, sizeof(escaped));
    (void)snprintf(path, sizeof(path), "/templates/%s", escaped);
    int r = endpoint_call(endpoint, "DELETE", path, NULL, &answer, err);
    if (r == 0) {
        printf("Deleted %s\n", name);
    }
    return r;
}

static int prune(const struct endpoint *endpoint, const char *days, struct err *err)
{
    scoped_json *answer = NULL;
    char *end = NULL;
    long n = days ? strtol(days, &end, 10) : 0;

    if (days && (*end || n < 0 || n > PRUNE_DAYS_MAX)) {
        return err_set(err, EINVAL, "'%s' is not a number of days", days);
    }
    scoped_json *body = json_pack("{si}", "unusedSeconds", (int)n * SECONDS_A_DAY);
    int r = endpoint_call(endpoint, "POST", "/templates/prune", body, &answer, err);
    if (r == 0) {
        printf("Removed %lld layers and %lld uploads that nothing uses: %.1f MB\n",
               (long long)json_integer_value(json_object_get(answer, "layers")),
               (long long)json_integer_value(json_object_get(answer, "files")),
               (double)json_integer_value(json_object_get(answer, "bytes")) / 1e6);
    }
    return r;
}

/* ---- which ---- */

static int run(struct cli *cli, const char *verb, const struct endpoint *endpoint, struct err *err)
{
    const char *first = cli->words_n > 1 ? cli->words[1] : NULL;
    const char *second = cli->words_n > 2 ? cli->words[2] : NULL;

    if (strcmp(verb, "list") == 0 && !first) {
        return list(endpoint, err);
    }
    if (strcmp(verb, "logs") == 0 && first) {
        return logs(endpoint, first, second, err);
    }
    if (strcmp(verb, "delete") == 0 && first && !second) {
        return remove_one(endpoint, first, err);
    }
    if (strcmp(verb, "prune") == 0 && !second) {
        return prune(endpoint, first, err);
    }
    return 1;
}

int cli_template(struct cli *cli)
{
    const char *verb = cli->words_n > 0 ? cli->words[0] : "";
    struct endpoint endpoint;
    struct err err;

    if (strcmp(verb, "build") == 0 && cli->words_n > 1) {
        return cli_template_build(cli);
    }
    if (cli->words_n == 0 || cli->flag || cli->options_n > 0) {
        (void)fprintf(stderr, "%s\n", cli_template_usage);
        return CLI_USAGE;
    }
    int r = endpoint_choose(cli, &endpoint, &err);
    if (r == 0) {
        r = run(cli, verb, &endpoint, &err);
    }
    if (r > 0) {
        (void)fprintf(stderr, "%s\n", cli_template_usage);
        return CLI_USAGE;
    }
    return r < 0 ? cli_fail(CLI_FAILED, "%s", err.msg) : CLI_OK;
}
