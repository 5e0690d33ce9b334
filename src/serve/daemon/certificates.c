#include "serve/daemon/certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/pki/pki.h"
#include "serve/secrets/key.h"

enum { NAMES_MAX = 8, NAME_ID_BYTES = 4 };

struct certificates {
    const struct config *config;
    struct tls_context *tls;
    struct pki authority; /* of our own */
    struct pki named;     /* for the name that was asked for last */
    uv_timer_t renewal;
    uv_fs_poll_t looks[2]; /* at the operator's certificate and key */
    unsigned handles;
};

static void on_closed(uv_handle_t *handle)
{
    struct certificates *certificates = handle->data;

    if (--certificates->handles == 0) {
        tls_context_free(certificates->tls);
        pki_fini(&certificates->authority);
        pki_fini(&certificates->named);
        free(certificates);
    }
}

/* ---- the operator's files ---- */

/* Certificate and key are written one after the other: while they do not fit each other, the
 * previous pair stays in use. */
static void on_change(uv_fs_poll_t *look, int status, const uv_stat_t *before,
                      const uv_stat_t *after)
{
    struct certificates *certificates = look->data;
    const struct config *config = certificates->config;
    struct err err;

    (void)before, (void)after;
    if (status < 0) {
        return; /* the file is gone for a moment, or for good: the loaded pair stays */
    }
    if (tls_context_load(certificates->tls, config->tls_cert, config->tls_key, &err) < 0) {
        log_warn("the certificate has changed and cannot be used: %s", err.msg);
    } else {
        log_info("the certificate has changed: new connections get the new one");
    }
}

static int files_open(struct certificates *certificates, uv_loop_t *loop, struct err *err)
{
    const struct config *config = certificates->config;
    const char *const paths[] = {config->tls_cert, config->tls_key};
    int r = tls_context_new(config->tls_cert, config->tls_key, true, &certificates->tls, err);

    for (size_t i = 0; r == 0 && i < countof(paths); i++) {
        (void)uv_fs_poll_init(loop, &certificates->looks[i]);
        certificates->looks[i].data = certificates;
        certificates->handles++;
        (void)uv_fs_poll_start(&certificates->looks[i], on_change, paths[i], CERTIFICATES_LOOK_MS);
    }
    return r;
}

/* ---- our own ---- */

/* The names by which clients on this machine may call us, and the domain. */
struct own_names {
    char domain[CONFIG_TEXT_BYTES];
    char host[CONFIG_TEXT_BYTES];
    const char *list[NAMES_MAX];
    size_t n;
};

static void name_add(struct own_names *names, const char *name)
{
    bool known = !name[0];

    for (size_t i = 0; i < names->n && !known; i++) {
        known = strcmp(names->list[i], name) == 0;
    }
    if (!known) {
        names->list[names->n++] = name;
    }
}

static void names_collect(const struct config *config, struct own_names *out)
{
    struct str listen = str_of(config->tls_listen), own = str_of(config->domain);
    const char *colon = listen.len ? memrchr(listen.at, ':', listen.len) : NULL;

    *out = (struct own_names){.n = 0};
    (void)str_copy(out->domain, sizeof(out->domain),
                   own.len ? (struct str){own.at, str_find(own, ':')} : STR("localhost"));
    listen.len = colon ? (size_t)(colon - listen.at) : listen.len;
    if (listen.len > 2 && listen.at[0] == '[') {
        listen = (struct str){listen.at + 1, listen.len - 2};
    }
    if (!str_eq(listen, STR("0.0.0.0")) && !str_eq(listen, STR("::"))) {
        (void)str_copy(out->host, sizeof(out->host), listen);
    }
    name_add(out, out->domain);
    name_add(out, "localhost");
    name_add(out, "127.0.0.1");
    name_add(out, "::1");
    name_add(out, out->host);
}

/* With all names below the domain. */
static int leaf_make(struct certificates *certificates, struct pki *leaf)
{
    struct own_names names;
    char wildcard[CONFIG_TEXT_BYTES + 2];

    names_collect(certificates->config, &names);
    (void)snprintf(wildcard, sizeof(wildcard), "*.%s", names.domain);
    names.list[names.n++] = wildcard;
    pki_key_new(leaf);
    return pki_certify(leaf, &certificates->authority, names.list, names.n);
}

/* Clients accept no wildcard below a single label: each name below such a domain gets its own
 * certificate. */
static bool on_choose(void *ctx, const char *name, struct x509_st **cert, struct evp_pkey_st **key)
{
    struct certificates *certificates = ctx;
    const char *dot = strchr(name, '.');
    struct str domain = str_of(certificates->config->domain);

    domain.len = str_find(domain, ':');
    if (!dot || strchr(dot + 1, '.') ||
        !(str_ieq(str_of(dot + 1), STR("localhost")) || str_ieq(str_of(dot + 1), domain)) ||
        pki_certify(&certificates->named, &certificates->authority, &name, 1) < 0) {
        return false;
    }
    *cert = certificates->named.cert;
    *key = certificates->named.key;
    return true;
}

static void on_renewal(uv_timer_t *timer)
{
    struct certificates *certificates = timer->data;
    struct pki leaf = {0};

    if (leaf_make(certificates, &leaf) == 0) {
        tls_context_use(certificates->tls, leaf.cert, leaf.key);
    }
    pki_fini(&leaf);
}

/* Written as a whole or not at all: a client may be copying it. */
static int authority_write(const struct pki *authority, const char *path, struct err *err)
{
    char beside[DATA_PATH_BYTES + 8];
    char *pem = pki_cert_pem(authority);
    size_t len = strlen(pem);

    (void)snprintf(beside, sizeof(beside), "%s.new", path);
    scoped_fd fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    bool written = fd >= 0 && write(fd, pem, len) == (ssize_t)len && rename(beside, path) == 0;
    free(pem);
    return written ? 0 : err_sys(err, "write %s", path);
}

/* It is limited to our own names, so that a client that trusts it risks nothing else. */
static int authority_make(struct certificates *certificates, const struct paths *paths,
                          const char *name, struct err *err)
{
    struct own_names names;

    names_collect(certificates->config, &names);
    if (pki_certify_ca_for(&certificates->authority, name, names.list, names.n) < 0) {
        return err_set(err, EINVAL, "no certificate can be made for the domain %s",
                       certificates->config->domain);
    }
    return authority_write(&certificates->authority, paths->ca, err);
}

static int own_open(struct certificates *certificates, uv_loop_t *loop, const struct paths *paths,
                    struct err *err)
{
    uint8_t key[SECRET_KEY_BYTES], id[SECRET_KEY_BYTES];
    char name[32], hex[2 * NAME_ID_BYTES + 1];
    struct pki leaf = {0};
    int r = key_load(paths->secret_key, key, err);

    if (r < 0) {
        return r;
    }
    pki_key_derive(key, "edge authority", &certificates->authority);
    key_derive(key, "edge authority name", id);
    explicit_bzero(key, sizeof(key));
    hex_encode(hex, id, NAME_ID_BYTES);
    (void)snprintf(name, sizeof(name), "atoll %s", hex);
    r = authority_make(certificates, paths, name, err);
    if (r == 0 && leaf_make(certificates, &leaf) < 0) {
        r = err_set(err, EINVAL, "no certificate can be made for the domain %s",
                    certificates->config->domain);
    }
    if (r == 0) {
        certificates->tls = tls_context_new_with(leaf.cert, leaf.key, true);
        pki_key_new(&certificates->named);
        tls_context_prefer(certificates->tls, on_choose, certificates);
        (void)uv_timer_init(loop, &certificates->renewal);
        certificates->renewal.data = certificates;
        certificates->handles++;
        (void)uv_timer_start(&certificates->renewal, on_renewal, CERTIFICATES_RENEW_MS,
                             CERTIFICATES_RENEW_MS);
    }
    pki_fini(&leaf);
    return r;
}

/* ---- either ---- */

void certificates_disown(const struct paths *paths)
{
    (void)unlink(paths->ca);
}

int certificates_open(uv_loop_t *loop, const struct config *config, const struct paths *paths,
                      struct certificates **out, struct err *err)
{
    struct certificates *certificates = xnew(struct certificates);

    certificates->config = config;
    if (config->tls_cert[0]) {
        certificates_disown(paths);
    }
    int r = config->tls_cert[0] ? files_open(certificates, loop, err)
                                : own_open(certificates, loop, paths, err);
    if (r < 0) {
        pki_fini(&certificates->authority);
        free(certificates);
        return r;
    }
    *out = certificates;
    return 0;
}

struct tls_context *certificates_tls(const struct certificates *certificates)
{
    return certificates->tls;
}

void certificates_close(struct certificates *certificates)
{
    if (!certificates) {
        return;
    }
    if (certificates->renewal.data) {
        uv_close((uv_handle_t *)&certificates->renewal, on_closed);
        return;
    }
    uv_close((uv_handle_t *)&certificates->looks[0], on_closed);
    uv_close((uv_handle_t *)&certificates->looks[1], on_closed);
}
