#include "serve/egress/egress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/http/tls.h"
#include "serve/egress/authority.h"
#include "serve/egress/intercept.h"
#include "serve/egress/internal.h"

enum { FILES_PER_CONNECTION = 2, FILES_FALLBACK = 1024 };

/* ---- settings ---- */

/* Calls each for every entry of a list; an entry that it refuses is named in the error, with the
 * form that is expected. */
static int list_each(const char *setting, const char *form, const char *list,
                     int (*each)(void *ctx, struct str entry), void *ctx, struct err *err)
{
    struct str rest = str_of(list), entry;

    while (list[0] && str_split(&rest, ',', &entry)) {
        entry = str_trim(entry);
        int r = entry.len ? each(ctx, entry) : 0;
        if (r == -ENOSPC) {
            return err_set(err, EINVAL, "%s has more than %d entries", setting, EGRESS_LIST_MAX);
        }
        if (r < 0) {
            return err_set(err, EINVAL, "%s: '%.*s' is not of the form %s", setting, (int)entry.len,
                           entry.at, form);
        }
    }
    return 0;
}

static int allow_add(void *ctx, struct str entry)
{
    struct egress *egress = ctx;

    if (egress->allow_n == EGRESS_LIST_MAX) {
        return -ENOSPC;
    }
    return block_parse(entry, &egress->allow[egress->allow_n]) < 0 ? -EINVAL
                                                                   : (egress->allow_n++, 0);
}

static int map_add(void *ctx, struct str entry)
{
    struct egress *egress = ctx;
    struct mapping *mapping = &egress->map[egress->map_n];
    size_t equals = str_find(entry, '=');

    if (egress->map_n == EGRESS_LIST_MAX) {
        return -ENOSPC;
    }
    if (equals == entry.len ||
        endpoint_parse(str_trim((struct str){entry.at, equals}), &mapping->from) < 0 ||
        endpoint_parse(str_trim(str_skip(entry, equals + 1)), &mapping->to) < 0 ||
        mapping->to.port == 0) {
        return -EINVAL;
    }
    egress->map_n++;
    return 0;
}

static int proxy_read(const char *setting, const char *url, struct proxy *out, struct err *err)
{
    return proxy_parse_url(str_of(url ? url : ""), out) < 0
               ? err_set(err, EINVAL, "%s is no http:// or socks5:// address of a proxy", setting)
               : 0;
}

static int proxies_read(struct egress *egress, const struct egress_options *options,
                        struct err *err)
{
    int r = proxy_read("http_proxy", options->http_proxy, &egress->http_proxy, err);

    if (r == 0) {
        r = proxy_read("https_proxy", options->https_proxy, &egress->https_proxy, err);
    }
    if (r == 0 && options->no_proxy &&
        !str_copy(egress->no_proxy, sizeof(egress->no_proxy), str_of(options->no_proxy))) {
        r = err_set(err, EINVAL, "no_proxy is longer than %d bytes", EGRESS_NO_PROXY_BYTES - 1);
    }
    return r;
}

static int settings_read(struct egress *egress, const struct egress_options *options,
                         struct err *err)
{
    int r = list_each("egress_allow", "ADDRESS or ADDRESS/BITS", options->allow, allow_add, egress,
                      err);

    if (r == 0) {
        r = list_each("egress_map", "ADDRESS[:PORT]=ADDRESS:PORT", options->map, map_add, egress,
                      err);
    }
    return r == 0 ? proxies_read(egress, options, err) : r;
}

int egress_check(const struct egress_options *options, struct err *err)
{
    struct egress *scratch = xnew(struct egress);
    int r = settings_read(scratch, options, err);

    explicit_bzero(scratch, sizeof(*scratch)); /* a proxy's password */
    free(scratch);
    return r;
}

/* ---- the guard ---- */

const struct endpoint *map_find(const struct egress *egress, const struct endpoint *from)
{
    for (size_t i = 0; i < egress->map_n; i++) {
        const struct mapping *mapping = &egress->map[i];
        if (address_eq(&mapping->from.address, &from->address) &&
            (mapping->from.port == 0 || mapping->from.port == from->port)) {
            return &mapping->to;
        }
    }
    return NULL;
}

static bool is_own_port(const struct egress *egress, uint16_t port)
{
    for (size_t i = 0; i < egress->own_ports_n; i++) {
        if (egress->own_ports[i] == port) {
            return true;
        }
    }
    return false;
}

const char *guard_check(const struct egress *egress, const struct endpoint *to)
{
    const bool host = route_of(egress->route_fd, &to->address) == ROUTE_HOST;

    if (host && is_own_port(egress, to->port)) {
        return "the daemon's own port";
    }
    for (size_t i = 0; i < egress->allow_n; i++) {
        if (block_has(&egress->allow[i], &to->address)) {
            return NULL;
        }
    }
    return host ? "the host's own address" : address_reserved(&to->address);
}

/* ---- the whole ---- */

static uint32_t connections_limit(void)
{
    struct rlimit files;
    rlim_t n = getrlimit(RLIMIT_NOFILE, &files) < 0 ? FILES_FALLBACK : files.rlim_cur;

    n = n / EGRESS_FILES_SHARE / FILES_PER_CONNECTION;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

int egress_new(const struct egress_options *options, struct egress **out, struct err *err)
{
    struct egress *egress = xnew(struct egress);

    egress->loop = options->loop;
    memcpy(egress->secret, options->secret, sizeof(egress->secret));
    egress->trusted = xstrdup(options->trusted ? options->trusted : "");
    egress->fill = options->fill;
    egress->log = options->log;
    egress->shell = options->shell;
    egress->shell_called = options->shell_called;
    egress->ctx = options->ctx;
    egress->route_fd = -1;
    shares_init(&egress->shares, connections_limit());
    int r = settings_read(egress, options, err);
    if (r == 0) {
        r = egress->route_fd = route_open(err);
    }
    if (r >= 0) {
        r = resolver_new(options->loop, options->dns, &egress->resolver, err);
    }
    if (r >= 0) {
        r = intercept_open(egress, options->ca ? options->ca : "", err);
    }
    if (r < 0) {
        egress_free(egress);
        return r;
    }
    *out = egress;
    return 0;
}

void egress_guard_port(struct egress *egress, uint16_t port)
{
    if (egress->own_ports_n < EGRESS_LIST_MAX) {
        egress->own_ports[egress->own_ports_n++] = port;
    }
}

void egress_destroy(struct egress *egress)
{
    tls_trust_free(egress->trust);
    free(egress->trusted);
    fd_closep(&egress->route_fd);
    explicit_bzero(egress->secret, sizeof(egress->secret));
    free(egress);
}

void egress_free(struct egress *egress)
{
    if (egress) {
        resolver_free(move_ptr(&egress->resolver));
        intercept_stop(egress);
    }
}

char *egress_authority(const struct egress *egress, const char *id, const json_t *options,
                       char hash[EGRESS_HASH_BYTES])
{
    struct transforms *transforms = transforms_new(options);
    char *own = transforms_any(transforms) ? authority_pem(egress->secret, id, hash) : NULL;
    char *pem = NULL;

    transforms_free(transforms);
    if (!own && !egress->trusted[0]) {
        return NULL;
    }
    if (!own) {
        hash[0] = '\0';
    }
    if (asprintf(&pem, "%s%s", own ? own : "", egress->trusted) < 0) {
        abort();
    }
    free(own);
    return pem;
}

bool egress_wanted(const json_t *options)
{
    struct policy *policy = policy_new(options);
    bool wanted = policy_opens(policy) || json_array_size(json_object_get(options, "shells")) > 0;

    policy_free(policy);
    return wanted;
}
