/* routes.c - the one table of the API's routes: each line tells who may call, which body is
 * taken and who answers. routes.h explains the columns. The first row that matches is taken: a row
 * with a word comes before the row that has {} in its place ("first").
 *
 * openapi/ describes the same routes to users; tests/unit/test_api_openapi.c compares the two. */
#include "serve/api/internal.h"

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define NO_LIMIT 0 /* what the volume, or the disk limit of the team, has room for */

_Static_assert(64 * GIB == BUILD_FILE_BYTES_MAX, "the most that a build unpacks");

/* clang-format off */
static const struct route routes[] = {
    /* method   path                                          handle                         access               body           bytes     flags     stream         action */

    /* sandboxes */
    {"POST",   "/v2/sandboxes",                               handle_create_v2,              ACCESS_KEY,          BODY_REQUIRED, 1 * MIB,  0,        NULL,          "sandbox.create"},
    {"POST",   "/sandboxes",                                  handle_create_v1,              ACCESS_KEY,          BODY_REQUIRED, 1 * MIB,  0,        NULL,          "sandbox.create"},
    {"GET",    "/v2/sandboxes",                               handle_list_v2,                ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/sandboxes",                                  handle_list_v1,                ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/sandboxes/metrics",                          handle_metrics_many,           ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL}, /* first */
    {"GET",    "/sandboxes/{}",                               handle_get,                    ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"DELETE", "/sandboxes/{}",                               handle_kill,                   ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          "sandbox.kill"},
    {"POST",   "/sandboxes/{}/timeout",                       handle_timeout,                ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "sandbox.timeout"},
    {"POST",   "/sandboxes/{}/refreshes",                     handle_refresh,                ACCESS_KEY,          BODY_OPTIONAL, 64 * KIB, 0,        NULL,          "sandbox.timeout"},
    {"PUT",    "/sandboxes/{}/network",                       handle_network,                ACCESS_KEY,          BODY_REQUIRED, 1 * MIB,  0,        NULL,          "sandbox.network"},
    {"POST",   "/sandboxes/{}/pause",                         handle_pause,                  ACCESS_KEY,          BODY_OPTIONAL, 64 * KIB, 0,        NULL,          "sandbox.pause"},
    {"POST",   "/sandboxes/{}/resume",                        handle_resume,                 ACCESS_KEY,          BODY_OPTIONAL, 64 * KIB, 0,        NULL,          "sandbox.resume"},
    {"GET",    "/sandboxes/{}/connections",                   handle_connections,            ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/sandboxes/{}/lineage",                       handle_lineage,                ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"POST",   "/sandboxes/{}/fork",                          handle_fork,                   ACCESS_KEY,          BODY_OPTIONAL, 64 * KIB, 0,        NULL,          "sandbox.fork"},
    {"POST",   "/sandboxes/{}/snapshots",                     handle_snapshot,               ACCESS_KEY,          BODY_OPTIONAL, 64 * KIB, 0,        NULL,          "sandbox.snapshot"},
    {"GET",    "/snapshots",                                  handle_snapshots,              ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"POST",   "/snapshots/import",                           NULL,                          ACCESS_KEY,          BODY_STREAM,   NO_LIMIT, 0,        stream_import, "snapshot.import"},
    {"POST",   "/snapshots/{}/export",                        NULL,                          ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_STORE, stream_export, "snapshot.export"},
    {"POST",   "/sandboxes/{}/export",                        NULL,                          ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_STORE, stream_export_paused, "sandbox.export"},
    {"POST",   "/sandboxes/{}/connect",                       handle_connect_v1,             ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "sandbox.connect"},
    {"POST",   "/v2/sandboxes/{}/connect",                    handle_connect_v2,             ACCESS_KEY,          BODY_OPTIONAL, 64 * KIB, 0,        NULL,          "sandbox.connect"},
    {"GET",    "/sandboxes/{}/metrics",                       handle_metrics,                ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/sandboxes/{}/logs",                          handle_logs_v1,                ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/v2/sandboxes/{}/logs",                       handle_logs_v2,                ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        stream_logs,   NULL},

    /* templates and their builds */
    {"GET",    "/templates",                                  handle_templates,              ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"POST",   "/templates",                                  handle_pushed_request,         ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "template.create"},
    {"GET",    "/v2/templates",                               handle_templates_v2,           ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/templates/aliases/{}",                       handle_alias,                  ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"POST",   "/v3/templates",                               handle_build_v3,               ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "template.create"},
    {"POST",   "/v2/templates",                               handle_build_v2,               ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "template.create"},
    {"POST",   "/templates/tags",                             handle_tags_assign,            ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "template.tag"}, /* first */
    {"DELETE", "/templates/tags",                             handle_tags_remove,            ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "template.untag"}, /* first */
    {"POST",   "/templates/prune",                            handle_template_prune,         ACCESS_KEY,          BODY_OPTIONAL, 64 * KIB, 0,        NULL,          "template.prune"}, /* first */
    {"GET",    "/templates/{}/tags",                          handle_tags,                   ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/templates/{}/tags/count",                    handle_tag_count,              ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/templates/{}/tags/exists",                   handle_tag_exists,             ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/templates/{}/tags/groups",                   handle_tag_groups,             ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/templates/{}/tags/{}/assignments",           handle_tag_assignments,        ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/default-templates",                          handle_default_templates,      ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/templates/{}",                               handle_template,               ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"POST",   "/templates/{}",                               handle_pushed_rebuild,         ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "template.rebuild"},
    {"POST",   "/templates/{}/builds/{}",                     handle_pushed_start,           ACCESS_KEY,          BODY_OPTIONAL, 64 * KIB, 0,        NULL,          "build.start"},
    {"PATCH",  "/templates/{}",                               handle_template_change,        ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "template.change"},
    {"PATCH",  "/v2/templates/{}",                            handle_template_change,        ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "template.change"},
    {"DELETE", "/templates/{}",                               handle_template_delete,        ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          "template.delete"},
    {"GET",    "/templates/{}/files/{}",                      handle_files,                  ACCESS_KEY,          BODY_NONE,     64 * KIB, WRITES,   NULL,          "template.upload-address"}, /* an address to upload to */
    {"PUT",    "/templates/{}/files/{}",                      NULL,                          ACCESS_UPLOAD_TOKEN, BODY_STREAM,   64 * GIB, 0,        stream_upload, "template.upload"},
    {"POST",   "/v2/templates/{}/builds/{}",                  handle_build_start,            ACCESS_KEY,          BODY_REQUIRED, 8 * MIB,  0,        NULL,          "build.start"},
    {"DELETE", "/templates/{}/builds/{}",                     handle_build_cancel,           ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          "build.cancel"},
    {"GET",    "/templates/{}/builds/{}/status",              handle_build_status,           ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/templates/{}/builds/{}/logs",                handle_build_logs,             ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},

    /* volumes */
    {"GET",    "/volumes",                                    handle_volumes_list,           ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"POST",   "/volumes",                                    handle_volumes_create,         ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "volume.create"},
    {"GET",    "/volumes/{}",                                 handle_volumes_get,            ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_STORE, NULL,          NULL},
    {"DELETE", "/volumes/{}",                                 handle_volumes_delete,         ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          "volume.delete"},
    {"GET",    "/volumecontent/{}/path",                      NULL,                          ACCESS_VOLUME_TOKEN, BODY_NONE,     64 * KIB, 0,        stream_volume, NULL},
    {"PATCH",  "/volumecontent/{}/path",                      NULL,                          ACCESS_VOLUME_TOKEN, BODY_STREAM,   4 * KIB,  0,        stream_volume, "volume.change"},
    {"DELETE", "/volumecontent/{}/path",                      NULL,                          ACCESS_VOLUME_TOKEN, BODY_NONE,     64 * KIB, 0,        stream_volume, "volume.remove"},
    {"GET",    "/volumecontent/{}/dir",                       NULL,                          ACCESS_VOLUME_TOKEN, BODY_NONE,     64 * KIB, 0,        stream_volume, NULL},
    {"POST",   "/volumecontent/{}/dir",                       NULL,                          ACCESS_VOLUME_TOKEN, BODY_NONE,     64 * KIB, 0,        stream_volume, "volume.mkdir"},
    {"GET",    "/volumecontent/{}/file",                      NULL,                          ACCESS_VOLUME_TOKEN, BODY_NONE,     64 * KIB, 0,        stream_volume, NULL},
    {"PUT",    "/volumecontent/{}/file",                      NULL,                          ACCESS_VOLUME_TOKEN, BODY_STREAM,   NO_LIMIT, 0,        stream_volume, "volume.write"},

    /* secrets, shells and identity */
    {"GET",    "/secrets",                                    handle_secrets_list,           ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_STORE, NULL,          NULL},
    {"POST",   "/secrets",                                    handle_secrets_create,         ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, NO_STORE, NULL,          "secret.create"},
    {"GET",    "/secrets/{}",                                 handle_secrets_get,            ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_STORE, NULL,          NULL},
    {"POST",   "/secrets/{}",                                 handle_secrets_update,         ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, NO_STORE, NULL,          "secret.change"},
    {"DELETE", "/secrets/{}",                                 handle_secrets_delete,         ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_STORE, NULL,          "secret.delete"},
    {"GET",    "/shells",                                     handle_shells_list,            ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_STORE, NULL,          NULL},
    {"GET",    "/shells/{}",                                  handle_shells_get,             ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_STORE, NULL,          NULL},
    {"PUT",    "/shells/{}",                                  handle_shells_put,             ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, NO_STORE, NULL,          "shell.save"},
    {"DELETE", "/shells/{}",                                  handle_shells_delete,          ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_STORE, NULL,          "shell.delete"},
    {"GET",    "/.well-known/openid-configuration",           handle_identity_configuration, ACCESS_NONE,         BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/.well-known/jwks.json",                      handle_identity_keys,          ACCESS_NONE,         BODY_NONE,     64 * KIB, 0,        NULL,          NULL},

    /* events and webhooks */
    {"GET",    "/events/sandboxes",                           handle_events,                 ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        stream_events, NULL},
    {"GET",    "/events/sandboxes/{}",                        handle_events_of,              ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        stream_events, NULL},
    {"GET",    "/events/webhooks",                            handle_webhooks_list,          ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"POST",   "/events/webhooks",                            handle_webhooks_create,        ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "webhook.create"},
    {"GET",    "/events/webhooks/{}",                         handle_webhooks_get,           ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"PATCH",  "/events/webhooks/{}",                         handle_webhooks_change,        ACCESS_KEY,          BODY_REQUIRED, 64 * KIB, 0,        NULL,          "webhook.change"},
    {"DELETE", "/events/webhooks/{}",                         handle_webhooks_delete,        ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          "webhook.delete"},
    {"POST",   "/events/webhooks/{}/test",                    handle_webhooks_test,          ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          "webhook.test"},
    {"GET",    "/events/webhooks/{}/deliveries",              handle_webhooks_deliveries,    ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"POST",   "/events/webhooks/{}/deliveries/{}/redeliver",handle_webhooks_redeliver,     ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          "webhook.redeliver"},

    /* keys and teams */
    {"GET",    "/teams",                                      handle_teams,                  ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/teams/{}/usage",                             handle_team_usage,             ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"POST",   "/access-tokens",                              handle_tokens_create,          ACCESS_FULL_KEY,     BODY_REQUIRED, 64 * KIB, 0,        NULL,          "token.create"},
    {"DELETE", "/access-tokens/{}",                           handle_tokens_delete,          ACCESS_FULL_KEY,     BODY_NONE,     64 * KIB, 0,        NULL,          "token.delete"},
    {"GET",    "/api-keys",                                   handle_keys_list,              ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"POST",   "/api-keys",                                   handle_keys_create,            ACCESS_FULL_KEY,     BODY_REQUIRED, 64 * KIB, 0,        NULL,          "key.create"},
    {"PATCH",  "/api-keys/{}",                                handle_keys_rename,            ACCESS_FULL_KEY,     BODY_REQUIRED, 64 * KIB, 0,        NULL,          "key.change"},
    {"DELETE", "/api-keys/{}",                                handle_keys_delete,            ACCESS_FULL_KEY,     BODY_NONE,     64 * KIB, 0,        NULL,          "key.delete"},
    {"GET",    "/audit",                                      handle_audit,                  ACCESS_FULL_KEY,     BODY_NONE,     64 * KIB, NO_STORE, stream_audit,  NULL},
    {"GET",    "/teams/{}/metrics",                           handle_metrics_team,           ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/teams/{}/metrics/max",                       handle_metrics_team_max,       ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},

    /* the dashboard */
    {"POST",   "/dashboard/session",                          handle_session_begin,          ACCESS_NONE,         BODY_REQUIRED, 4 * KIB,  NO_CORS | NO_STORE, NULL,          AUDIT_BY_HANDLER}, /* session.begin, .elevate */
    {"GET",    "/dashboard/session",                          handle_session_get,            ACCESS_NONE,         BODY_NONE,     4 * KIB,  NO_CORS | NO_STORE, NULL,          NULL},
    {"DELETE", "/dashboard/session",                          handle_session_end,            ACCESS_NONE,         BODY_NONE,     4 * KIB,  NO_CORS | NO_STORE, NULL,          AUDIT_BY_HANDLER}, /* session.end */
    {"POST",   "/dashboard/links",                            handle_link_make,              ACCESS_KEY,          BODY_OPTIONAL, 4 * KIB,  NO_CORS | NO_STORE | READS, NULL,          "session.link"},
    {"GET",    "/dashboard/sandboxes/{}/stream/{}",           NULL,                          ACCESS_PAGE,         BODY_NONE,     64 * KIB, NO_CORS | WRITES, stream_screen, "sandbox.screen"},
    {"GET",    "/dashboard/health",                           handle_dashboard_health,       ACCESS_NONE,         BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/dashboard/overview",                         handle_dashboard_overview,     ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_STORE, NULL,          NULL},
    {"GET",    "/dashboard/sandboxes",                        handle_dashboard_sandboxes,    ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/dashboard/builds",                           handle_dashboard_builds,       ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/dashboard/builds/statuses",                  handle_dashboard_statuses,     ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL}, /* first */
    {"GET",    "/dashboard/builds/{}",                        handle_dashboard_build,        ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/dashboard/templates",                        handle_dashboard_templates,    ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/dashboard/templates/defaults",               handle_dashboard_defaults,     ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL}, /* first */
    {"GET",    "/dashboard/templates/{}",                     handle_dashboard_template,     ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/dashboard/templates/{}/tags/groups",         handle_tag_groups,             ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/dashboard/templates/{}/tags/count",          handle_tag_count,              ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/dashboard/templates/{}/tags/exists",         handle_tag_exists,             ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/dashboard/templates/{}/tags/{}/assignments", handle_tag_assignments,        ACCESS_KEY,          BODY_NONE,     64 * KIB, 0,        NULL,          NULL},

    /* the operator */
    {"GET",    "/nodes",                                      handle_nodes,                  ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS,  NULL,          NULL},
    {"GET",    "/nodes/{}",                                   handle_node,                   ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS,  NULL,          NULL},
    {"POST",   "/nodes/{}",                                   handle_node_change,            ACCESS_ADMIN,        BODY_REQUIRED, 64 * KIB, NO_CORS,  NULL,          "node.change"},
    {"GET",    "/admin/keys",                                 handle_admin_keys_list,        ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS,  NULL,          NULL},
    {"POST",   "/admin/keys",                                 handle_admin_keys_create,      ACCESS_ADMIN,        BODY_REQUIRED, 64 * KIB, NO_CORS,  NULL,          "admin-key.create"},
    {"DELETE", "/admin/keys/{}",                              handle_admin_keys_delete,      ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS,  NULL,          "admin-key.delete"},
    {"GET",    "/admin/teams",                                handle_admin_teams_list,       ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS,  NULL,          NULL},
    {"POST",   "/admin/teams",                                handle_admin_teams_create,     ACCESS_ADMIN,        BODY_REQUIRED, 64 * KIB, NO_CORS,  NULL,          "team.create"},
    {"GET",    "/admin/teams/{}",                             handle_admin_team,             ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS | FOR_TEAM, NULL,          NULL},
    {"PATCH",  "/admin/teams/{}",                             handle_admin_team_change,      ACCESS_ADMIN,        BODY_REQUIRED, 64 * KIB, NO_CORS | FOR_TEAM, NULL,          "team.change"},
    {"GET",    "/admin/teams/{}/usage",                       handle_usage,                  ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS | FOR_TEAM, NULL,          NULL},
    {"POST",   "/admin/teams/{}/sandboxes/kill",              handle_admin_team_kill,        ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS | FOR_TEAM, NULL,          "team.kill-sandboxes"},
    {"POST",   "/admin/teams/{}/builds/cancel",               handle_admin_team_cancel,      ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS | FOR_TEAM, NULL,          "team.cancel-builds"},
    {"GET",    "/admin/teams/{}/api-keys",                    handle_keys_list,              ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS | FOR_TEAM, NULL,          NULL},
    {"POST",   "/admin/teams/{}/api-keys",                    handle_keys_create,            ACCESS_ADMIN,        BODY_REQUIRED, 64 * KIB, NO_CORS | FOR_TEAM, NULL,          "key.create"},
    {"PATCH",  "/admin/teams/{}/api-keys/{}",                 handle_keys_rename,            ACCESS_ADMIN,        BODY_REQUIRED, 64 * KIB, NO_CORS | FOR_TEAM, NULL,          "key.change"},
    {"DELETE", "/admin/teams/{}/api-keys/{}",                 handle_keys_delete,            ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS | FOR_TEAM, NULL,          "key.delete"},
    {"GET",    "/admin/sandboxes/running-counts",             handle_admin_running,          ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS,  NULL,          NULL},
    {"GET",    "/admin/audit",                                handle_audit,                  ACCESS_ADMIN,        BODY_NONE,     64 * KIB, NO_CORS | NO_STORE, stream_audit,  NULL},

    /* for atoll-tools, by the internal socket */
    {"POST",   "/internal/tool-calls",                        handle_tools_called,           ACCESS_INTERNAL,     BODY_REQUIRED, 64 * KIB, NO_CORS,  NULL,          AUDIT_BY_HANDLER}, /* tool.NAME */
    {"GET",    "/internal/variables",                         handle_tools_variables,        ACCESS_INTERNAL,     BODY_NONE,     48 * MIB, NO_CORS,  NULL,          NULL},
    {"GET",    "/internal/sandboxes/{}/keys",                 handle_tools_keys_get,         ACCESS_INTERNAL,     BODY_NONE,     48 * MIB, NO_CORS,  NULL,          NULL},
    {"PUT",    "/internal/sandboxes/{}/keys",                 handle_tools_keys_put,         ACCESS_INTERNAL,     BODY_REQUIRED, 48 * MIB, NO_CORS,  NULL,          "sandbox.keys"},
    {"GET",    "/internal/artifacts",                         handle_tools_artifacts,        ACCESS_INTERNAL,     BODY_NONE,     48 * MIB, NO_CORS,  NULL,          NULL},
    {"PUT",    "/internal/artifacts",                         handle_tools_artifact_put,     ACCESS_INTERNAL,     BODY_REQUIRED, 48 * MIB, NO_CORS,  NULL,          "artifact.save"},
    {"DELETE", "/internal/artifacts",                         handle_tools_artifact_delete,  ACCESS_INTERNAL,     BODY_NONE,     48 * MIB, NO_CORS,  NULL,          "artifact.delete"},
    {"POST",   "/internal/guard",                             handle_tools_guard,            ACCESS_INTERNAL,     BODY_REQUIRED, 48 * MIB, NO_CORS,  NULL,          AUDIT_NO_CHANGE}, /* looks at a text */

    /* the daemon itself */
    {"GET",    "/metrics",                                    handle_figures,                ACCESS_KEY,          BODY_NONE,     64 * KIB, NO_CORS,  NULL,          NULL},
    {"GET",    "/openapi.json",                               handle_openapi,                ACCESS_NONE,         BODY_NONE,     64 * KIB, 0,        NULL,          NULL},
    {"GET",    "/health",                                     handle_health,                 ACCESS_NONE,         BODY_NONE,     64 * KIB, NO_CORS,  NULL,          NULL},
    {"GET",    "/",                                           handle_about,                  ACCESS_NONE,         BODY_NONE,     64 * KIB, NO_CORS,  NULL,          NULL},
};
/* clang-format on */

size_t routes_count(void)
{
    return countof(routes);
}

const struct route *route_at(size_t i)
{
    return &routes[i];
}
