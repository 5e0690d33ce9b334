/* api.h - the control plane: one table of routes, a file per resource. */
#ifndef API_API_H
#define API_API_H

#include "lib/http/http.h"
#include "serve/keeper/client.h"
#include "serve/sandbox/sandbox.h"
#include "serve/secrets/identity.h"
#include "serve/secrets/secret.h"
#include "serve/secrets/shell/shells.h"
#include "serve/store/store.h"
#include "serve/telemetry/logs.h"
#include "serve/telemetry/metrics.h"
#include "serve/telemetry/prometheus.h"
#include "serve/telemetry/webhooks.h"
#include "serve/template/build/build.h"
#include "serve/template/template.h"
#include "serve/volume/volume.h"
#include "serve/web/files.h"

struct api;

struct api_options {
    uv_loop_t *loop;
    struct store *store;
    struct keeper_client *keeper;
    struct sandboxes *sandboxes;
    struct templates *templates;
    struct builds *builds;
    struct webhooks *webhooks;
    struct secrets *secrets;
    struct shells *shells;
    struct identity *identity;
    struct volumes *volumes;
    struct metrics *metrics;
    struct logs *logs;
    /* Adds more figures to GET /metrics. Figures of single sandboxes are added only for the team's
     * own. */
    void (*figures)(void *ctx, const char *team_id, struct prometheus *page);
    void *figures_ctx;
    const char *domain;          /* reported to clients when set by the operator, else NULL */
    uint32_t team_sandboxes_max; /* that a team may have at one time */
    int64_t sandbox_s_max;       /* that a sandbox may live */
    int64_t audit_days;          /* that a row of the audit log is kept; 0: the default */
    const char *data;            /* the data directory, whose disk GET /nodes shows */
    const char *pool;            /* the file system of sandboxes' disks */
    const char *findings;        /* a file: what this machine lacks, as of the start */
    struct shares *shares;       /* requests under way, by team: outlives every exchange */
    /* Takes the exchange of a WebSocket of the dashboard to a port of a sandbox. */
    void (*stream)(void *ctx, struct http_exchange *ex, const char *team_id, const char *id,
                   uint16_t port, const char *target);
    void *stream_ctx;
    const struct web_file *web_files; /* of the dashboard; NULL: none is served */
    size_t web_files_n;
};

/* Owns:     the teams and keys in memory, and the calls under way.
 * Needs:    all of the options, for as long as it lives.
 * Blocks:   api_new() and api_prepare_default_key(), which belong to start-up: they read the store,
 *           and run the loop until what they wrote is on disk. The rest never.
 * Threads:  the loop's. */
must_check int api_new(const struct api_options *options, struct api **out, struct err *err);
void api_free(struct api *api);

/* Charges an exchange, of the API or of another handler, to the team of its key, or to the account
 * of all callers without a key. False: that account has its share of requests under way, and the
 * exchange was answered. */
bool api_admit(struct api *api, struct http_exchange *ex);

/* Pure: the request has an API key, and the method and path of a call that needs one. The key need
 * not be valid: a wrong one is answered 401 by the API. */
bool api_is_call(const struct http_request *req);

/* Takes every exchange; answers 404 itself. */
void api_handle(struct api *api, struct http_exchange *ex);

/* The same for an exchange that came by the internal socket, which only the daemon's own programs
 * can reach: the routes below /internal exist for it as well. */
void api_handle_internal(struct api *api, struct http_exchange *ex);

/* Finds the caller: the team's id, valid as long as the API, the text with which the caller's
 * rights are used over the internal socket, valid during the exchange's first call, and whether
 * these rights are to look alone. -EACCES with the sentence of a 401, -EPERM of a 403. */
must_check int api_authenticate(struct api *api, const struct http_request *req,
                                const char **team_id, struct str *key, bool *read_only,
                                struct err *err);

/* The SHA-256, in hex, of each API key of a team: a text that looks like a key can be compared with
 * them. The texts of keys are not stored. */
void api_key_hashes_each(const struct api *api, const char *team_id,
                         void (*each)(void *ctx, const char *hash), void *ctx);

/* All of GET /metrics, for a team; "": nothing of single sandboxes. */
void api_figures(const struct api *api, const char *team_id, struct prometheus *page);

/* First start: a team "default" with a key, whose text is written to key_path (0600). Does nothing
 * when a team exists and the file holds a key that works; makes a new key when it does not. From
 * then on a DELETE of that key puts a new one in its place. */
must_check int api_prepare_default_key(struct api *api, const char *key_path, struct err *err);

/* Writes an admin key to a file (0600). It is valid until this daemon ends: whoever can read the
 * file is the operator, and makes keys for others with it. */
void api_prepare_admin_token(struct api *api, const char *path);

/* Whether quotas allow the sandbox: sandboxes_options.admit. */
must_check int api_admit_sandbox(struct api *api, const struct sandbox_wanted *wanted,
                                 struct err *err);

#endif
