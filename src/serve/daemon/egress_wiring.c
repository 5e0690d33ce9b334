#include "serve/daemon/egress_wiring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/daemon/host_trust.h"

static struct sandbox *find(const struct egress_wiring *wiring, const char *sandbox_id)
{
    return wiring->sandboxes ? sandboxes_find(wiring->sandboxes, str_of(sandbox_id)) : NULL;
}

/* ---- values of placeholders ---- */

static int fill_token(const struct egress_wiring *wiring, const struct sandbox_info *info,
                      struct str name, struct buf *out, struct err *err)
{
    const json_t *tokens = json_object_get(json_object_get(info->options, "iam"), "tokens");
    char key[CONFIG_TEXT_BYTES];
    const json_t *token = str_copy(key, sizeof(key), name) ? json_object_get(tokens, key) : NULL;
    const struct identity_subject subject = {
        .sandbox_id = info->id,
        .team_id = info->team_id,
        .template_id = info->template_id,
        .audience = json_string_value(json_object_get(token, "audience")),
    };

    if (!subject.audience) {
        return err_set(err, ENOENT, "there is no workload token \"%.*s\"", (int)name.len, name.at);
    }
    return identity_token(wiring->identity, &subject, out) < 0
               ? err_set(err, ENOBUFS, "workload token \"%.*s\" is too long", (int)name.len,
                         name.at)
               : 0;
}

static int on_fill(void *ctx, const char *sandbox_id, struct str what, struct buf *out,
                   struct err *err)
{
    static const struct str secret = {"e2b.secrets.", sizeof("e2b.secrets.") - 1};
    static const struct str token = {"e2b.identity.tokens.", sizeof("e2b.identity.tokens.") - 1};
    struct egress_wiring *wiring = ctx;
    struct sandbox *sb = find(wiring, sandbox_id);

    if (!sb) {
        return err_set(err, ENOENT, "the sandbox is not there any more");
    }
    const struct sandbox_info info = sandbox_info(sb);
    if (str_starts(what, secret)) {
        return secret_value(wiring->secrets, info.team_id, str_skip(what, secret.len), out, err);
    }
    if (str_starts(what, STR(SHELL_SEALED))) {
        return shells_value(wiring->shells, info.team_id, str_skip(what, strlen(SHELL_SEALED)), out,
                            err);
    }
    return fill_token(wiring, &info, str_skip(what, token.len), out, err);
}

/* ---- API shells ---- */

static const struct shell *on_shell(void *ctx, const char *sandbox_id, struct str name)
{
    const struct egress_wiring *wiring = ctx;
    const struct sandbox *sb = find(wiring, sandbox_id);

    return sb ? shells_find(wiring->shells, sandbox_info(sb).team_id, name) : NULL;
}

static void on_shell_called(void *ctx, const char *sandbox_id, const json_t *call)
{
    struct sandbox *sb = find(ctx, sandbox_id);

    if (sb) {
        sandbox_tell(sb, "sandbox.shell.called", call);
    }
}

static void on_log(void *ctx, const char *sandbox_id, enum log_level level, struct str line)
{
    const struct egress_wiring *wiring = ctx;

    if (wiring->logs) {
        logs_put(wiring->logs, sandbox_id, level, line);
    }
}

/* ---- life ---- */

static struct egress_options options_of(const struct config *config)
{
    return (struct egress_options){
        .allow = config->egress_allow,
        .map = config->egress_map,
        .dns = config->egress_dns,
        .ca = config->egress_ca,
        .http_proxy = config->http_proxy,
        .https_proxy = config->https_proxy,
        .no_proxy = config->no_proxy,
        .fill = on_fill,
        .log = on_log,
        .shell = on_shell,
        .shell_called = on_shell_called,
    };
}

int egress_wiring_check(const struct config *config, struct err *err)
{
    const struct egress_options options = options_of(config);

    return egress_check(&options, err);
}

int egress_wiring_open(struct egress_wiring *wiring, uv_loop_t *loop, struct store *store,
                       const char *key_path, const struct config *config, struct egress **egress,
                       struct err *err)
{
    uint8_t key[SECRET_KEY_BYTES];
    char *trusted = host_trust_read(config->egress_ca);
    struct egress_options options = options_of(config);
    int r = key_load(key_path, key, err);

    options.loop = loop;
    options.trusted = trusted;
    options.ctx = wiring;
    if (r == 0) {
        wiring->identity = identity_new(key);
        key_derive(key, "authorities", options.secret);
        r = secrets_new(store, key, &wiring->secrets, err);
        r = r < 0 ? r : shells_new(store, wiring->secrets, &wiring->shells, err);
    }
    r = r < 0 ? r : egress_new(&options, egress, err);
    free(trusted);
    explicit_bzero(key, sizeof(key));
    explicit_bzero(options.secret, sizeof(options.secret));
    return r;
}

void egress_wiring_name_issuer(struct egress_wiring *wiring, const struct config *config,
                               const char *url)
{
    char issuer[CONFIG_TEXT_BYTES + sizeof("https://api.")];

    if (config->identity_issuer[0]) {
        (void)snprintf(issuer, sizeof(issuer), "%s", config->identity_issuer);
    } else if (config->domain[0]) {
        (void)snprintf(issuer, sizeof(issuer), "https://api.%s", config->domain);
    } else {
        (void)snprintf(issuer, sizeof(issuer), "%s", url);
    }
    size_t len = strlen(issuer);
    if (len > 0 && issuer[len - 1] == '/') {
        issuer[len - 1] = '\0';
    }
    identity_name(wiring->identity, issuer);
}

void egress_wiring_close(struct egress_wiring *wiring)
{
    shells_free(wiring->shells);
    secrets_free(wiring->secrets);
    identity_free(wiring->identity);
}
