/* audit_actions.c - the name that each changing route has in the audit log.
 *
 * tests/unit/test_api_audit.c compares this table with routes.c: every route that is not a GET, or
 * that a read-only key may not call, has a row here. The object is the last {} of the path, and the
 * one before it is the object's parent; a route without {} makes its object, whose id is in the
 * answer. */
#include <string.h>

#include "serve/api/internal.h"

/* clang-format off */
static const struct audit_action actions[] = {
    {"POST",   "/v2/sandboxes",                    "sandbox.create"},
    {"POST",   "/sandboxes",                       "sandbox.create"},
    {"DELETE", "/sandboxes/{}",                    "sandbox.kill"},
    {"POST",   "/sandboxes/{}/timeout",            "sandbox.timeout"},
    {"POST",   "/sandboxes/{}/refreshes",          "sandbox.timeout"},
    {"PUT",    "/sandboxes/{}/network",            "sandbox.network"},
    {"POST",   "/sandboxes/{}/pause",              "sandbox.pause"},
    {"POST",   "/sandboxes/{}/resume",             "sandbox.resume"},
    {"POST",   "/sandboxes/{}/fork",               "sandbox.fork"},
    {"POST",   "/sandboxes/{}/snapshots",          "sandbox.snapshot"},
    {"POST",   "/sandboxes/{}/connect",            "sandbox.connect"},
    {"POST",   "/v2/sandboxes/{}/connect",         "sandbox.connect"},

    {"POST",   "/templates",                       "template.create"},
    {"POST",   "/v3/templates",                    "template.create"},
    {"POST",   "/v2/templates",                    "template.create"},
    {"POST",   "/templates/tags",                  "template.tag"},
    {"DELETE", "/templates/tags",                  "template.untag"},
    {"POST",   "/templates/prune",                 "template.prune"},
    {"POST",   "/templates/{}",                    "template.rebuild"},
    {"PATCH",  "/templates/{}",                    "template.change"},
    {"PATCH",  "/v2/templates/{}",                 "template.change"},
    {"DELETE", "/templates/{}",                    "template.delete"},
    {"PUT",    "/templates/{}/files/{}",           "template.upload"},
    {"POST",   "/templates/{}/builds/{}",          "build.start"},
    {"POST",   "/v2/templates/{}/builds/{}",       "build.start"},
    {"DELETE", "/templates/{}/builds/{}",          "build.cancel"},

    {"POST",   "/volumes",                         "volume.create"},
    {"DELETE", "/volumes/{}",                      "volume.delete"},
    {"PATCH",  "/volumecontent/{}/path",           "volume.change"},
    {"DELETE", "/volumecontent/{}/path",           "volume.remove"},
    {"POST",   "/volumecontent/{}/dir",            "volume.mkdir"},
    {"PUT",    "/volumecontent/{}/file",           "volume.write"},

    {"POST",   "/secrets",                         "secret.create"},
    {"POST",   "/secrets/{}",                      "secret.change"},
    {"DELETE", "/secrets/{}",                      "secret.delete"},
    {"PUT",    "/shells/{}",                       "shell.save"},
    {"DELETE", "/shells/{}",                       "shell.delete"},

    {"POST",   "/events/webhooks",                 "webhook.create"},
    {"PATCH",  "/events/webhooks/{}",              "webhook.change"},
    {"DELETE", "/events/webhooks/{}",              "webhook.delete"},
    {"POST",   "/events/webhooks/{}/test",         "webhook.test"},
    {"POST",   "/events/webhooks/{}/deliveries/{}/redeliver", "webhook.redeliver"},

    {"POST",   "/access-tokens",                   "token.create"},
    {"DELETE", "/access-tokens/{}",                "token.delete"},
    {"POST",   "/api-keys",                        "key.create"},
    {"PATCH",  "/api-keys/{}",                     "key.change"},
    {"DELETE", "/api-keys/{}",                     "key.delete"},

    {"POST",   "/dashboard/session",               AUDIT_BY_HANDLER}, /* session.begin, .elevate */
    {"DELETE", "/dashboard/session",               AUDIT_BY_HANDLER}, /* session.end */
    {"POST",   "/dashboard/links",                 "session.link"},
    {"GET",    "/dashboard/sandboxes/{}/stream/{}", "sandbox.screen"},
    {"GET",    "/templates/{}/files/{}",           "template.upload-address"},

    {"POST",   "/nodes/{}",                        "node.change"},
    {"POST",   "/admin/keys",                      "admin-key.create"},
    {"DELETE", "/admin/keys/{}",                   "admin-key.delete"},
    {"POST",   "/admin/teams",                     "team.create"},
    {"PATCH",  "/admin/teams/{}",                  "team.change"},
    {"POST",   "/admin/teams/{}/sandboxes/kill",   "team.kill-sandboxes"},
    {"POST",   "/admin/teams/{}/builds/cancel",    "team.cancel-builds"},
    {"POST",   "/admin/teams/{}/api-keys",         "key.create"},
    {"PATCH",  "/admin/teams/{}/api-keys/{}",      "key.change"},
    {"DELETE", "/admin/teams/{}/api-keys/{}",      "key.delete"},

    {"PUT",    "/internal/sandboxes/{}/keys",      "sandbox.keys"},
    {"PUT",    "/internal/artifacts",              "artifact.save"},
    {"DELETE", "/internal/artifacts",              "artifact.delete"},
    {"POST",   "/internal/tool-calls",             AUDIT_BY_HANDLER}, /* tool.NAME */
    {"POST",   "/internal/guard",                  AUDIT_NO_CHANGE},  /* looks at a text */
};
/* clang-format on */

size_t audit_actions_count(void)
{
    return countof(actions);
}

const struct audit_action *audit_action_at(size_t i)
{
    return &actions[i];
}

const char *audit_action_of(const struct route *route)
{
    for (size_t i = 0; i < countof(actions); i++) {
        if (strcmp(actions[i].method, route->method) == 0 &&
            strcmp(actions[i].path, route->path) == 0) {
            return actions[i].action;
        }
    }
    return NULL;
}
