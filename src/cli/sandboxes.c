#include "cli/sandboxes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/entry.h"
#include "cli/terminal.h"
#include "lib/base/alloc.h"

enum { PATH_BYTES = SANDBOX_QUERY_BYTES + 128, SHOWN_MAX = 3, SHOWN_BYTES = 128 };

int sandboxes_read(const struct endpoint *endpoint, const char *states, const char *query,
                   json_t **list, struct err *err)
{
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof(path), "/v2/sandboxes?limit=100&state=%s%s", states, query);

    if (n >= (int)sizeof(path)) {
        return err_set(err, EINVAL, "the filters are too long");
    }
    return endpoint_list(endpoint, path, list, err);
}

/* ---- by the beginning of an id ---- */

struct matches {
    size_t n;
    char first[ID_SANDBOX_LEN + 1];
    char shown[SHOWN_BYTES];
};

static void matches_find(const json_t *list, const char *word, struct matches *out)
{
    const json_t *row;
    size_t i, used = 0;

    *out = (struct matches){0};
    json_array_foreach (list, i, row) {
        const char *id = json_text_of(row, "sandboxID");
        if (!entry_id_ok(id) || strncmp(id, word, strlen(word)) != 0) {
            continue;
        }
        if (out->n == 0) {
            (void)snprintf(out->first, sizeof(out->first), "%s", id);
        }
        if (out->n++ < SHOWN_MAX) {
            used += (size_t)snprintf(out->shown + used, sizeof(out->shown) - used, "%s%s",
                                     used ? ", " : "", id);
        }
    }
}

int sandbox_find_in(const struct endpoint *endpoint, const char *word, json_t **list,
                    char id[ID_SANDBOX_LEN + 1], struct err *err)
{
    struct matches found;

    if (!entry_id_ok(word)) {
        return err_set(err, EINVAL, "'%.32s' is not the id of a sandbox", word);
    }
    if (strlen(word) == ID_SANDBOX_LEN) {
        (void)snprintf(id, ID_SANDBOX_LEN + 1, "%s", word);
        return 0;
    }
    int r = *list ? 0 : sandboxes_read(endpoint, SANDBOX_STATES, "", list, err);
    if (r < 0) {
        return r;
    }
    matches_find(*list, word, &found);
    if (found.n == 0) {
        return err_set(err, CALL_NOT_FOUND, "no sandbox has an id that begins with '%s'", word);
    }
    if (found.n > 1) {
        return err_set(err, EINVAL, "%zu sandboxes have ids that begin with '%s': %s%s", found.n,
                       word, found.shown, found.n > SHOWN_MAX ? ", ..." : "");
    }
    (void)memcpy(id, found.first, sizeof(found.first));
    return 0;
}

int sandbox_find(const struct endpoint *endpoint, const char *word, char id[ID_SANDBOX_LEN + 1],
                 struct err *err)
{
    scoped_json *list = NULL;

    return sandbox_find_in(endpoint, word, &list, id, err);
}

/* ---- several at once ---- */

struct target {
    char id[ID_SANDBOX_LEN + 1];
    struct request request;
};

static void targets_find(const struct endpoint *endpoint, char **words, struct target *targets,
                         int n, const struct sandbox_action *action)
{
    scoped_json *list = NULL;

    for (int i = 0; i < n; i++) {
        struct request *request = &targets[i].request;
        request->r = sandbox_find_in(endpoint, words[i], &list, targets[i].id, &request->err);
        request->method = action->method;
        request->body = action->body;
    }
}

/* Only those that were found, in one array, since the calls are made over an array. */
static void targets_call(const struct endpoint *endpoint, struct target *targets, int n,
                         const char *path)
{
    struct request *requests = xcalloc((size_t)n, sizeof(*requests));
    size_t wanted = 0, taken = 0;

    for (int i = 0; i < n; i++) {
        if (targets[i].request.r == 0) {
            const char *id = targets[i].id, *at = strstr(path, "%s");
            (void)snprintf(targets[i].request.path, sizeof(targets[i].request.path), "%.*s%s%s",
                           (int)(at - path), path, id, at + 2);
            requests[wanted++] = targets[i].request;
        }
    }
    endpoint_call_all(endpoint, requests, wanted);
    for (int i = 0; i < n; i++) {
        if (targets[i].request.r == 0) {
            targets[i].request = requests[taken++];
        }
    }
    free(requests);
}

static json_t *outcome_json(const struct target *target, const char *word)
{
    bool failed = target->request.r < 0;
    json_t *outcome = json_pack("{s:s}", "sandboxID", target->id[0] ? target->id : word);

    (void)json_object_set_new(outcome, "error",
                              failed ? json_sentence(target->request.err.msg) : json_null());
    if (target->request.answer) {
        (void)json_object_set(outcome, "answer", target->request.answer);
    }
    return outcome;
}

static int outcome_print(const struct cli *cli, const struct target *target, const char *word,
                         const char *done, int n)
{
    const struct request *request = &target->request;

    if (request->r < 0) {
        (void)cli_fail(CLI_FAILED, "%s: %s", target->id[0] ? target->id : word, request->err.msg);
        return n == 1 ? cli_code(request->r) : CLI_FAILED;
    }
    if (!cli->json) {
        printf("%s%s%s\n", cli->quiet ? "" : done, cli->quiet ? "" : " ", target->id);
    }
    return CLI_OK;
}

int sandboxes_act(const struct cli *cli, const struct endpoint *endpoint, char **words, int n,
                  const struct sandbox_action *action)
{
    struct target *targets = xcalloc((size_t)n + 1, sizeof(*targets));
    scoped_json *outcomes = json_array();
    int code = CLI_OK;

    targets_find(endpoint, words, targets, n, action);
    targets_call(endpoint, targets, n, action->path);
    for (int i = 0; i < n; i++) {
        int one = outcome_print(cli, &targets[i], words[i], action->done, n);
        code = one == CLI_OK ? code : one;
        (void)json_array_append_new(outcomes, outcome_json(&targets[i], words[i]));
        json_decref(targets[i].request.answer);
    }
    if (cli->json) {
        cli_print_json(outcomes);
    }
    free(targets);
    return code;
}
