#include "serve/api/network.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/http/field_rules.h"
#include "lib/http/tls.h"
#include "serve/api/fields.h"

static const char *const known[] = {
    "allowPublicTraffic", "allowOut",        "denyOut",    "dnsServers",
    "egressProxy",        "maskRequestHost", "httpsPorts", "rules",
};

enum {
    AGENT_PORT_NUMBER = 49983, /* always plain HTTP: the daemon's own way in */
};

/* ---- addresses ---- */

static bool prefix_ok(const char *text, long max)
{
    char *end = NULL;

    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    long bits = strtol(text, &end, 10);
    return *end == '\0' && bits <= max;
}

static bool all_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* An address or a block. 0.0.0.0 alone names no host; with a prefix length it is a block. */
static bool is_address(const char *text)
{
    uint8_t bytes[sizeof(struct in6_addr)];
    char address[INET6_ADDRSTRLEN];
    size_t slash = strcspn(text, "/");
    bool block = text[slash] == '/';

    if (!str_copy(address, sizeof(address), (struct str){text, slash})) {
        return false;
    }
    if (inet_pton(AF_INET, address, bytes) == 1) {
        return block ? prefix_ok(text + slash + 1, 32) : !all_zero(bytes, sizeof(struct in_addr));
    }
    if (inet_pton(AF_INET6, address, bytes) == 1) {
        return block ? prefix_ok(text + slash + 1, 128) : !all_zero(bytes, sizeof(bytes));
    }
    return false;
}

/* A DNS name; wildcards lead it: "*.example.com". */
static bool is_domain(const char *text, bool wildcard)
{
    size_t len = strlen(text);

    if (wildcard && strncmp(text, "*.", 2) == 0) {
        text += 2;
        len -= 2;
    }
    if (len == 0 || len > NETWORK_HOST_BYTES_MAX || text[0] == '.' || text[len - 1] == '.' ||
        strstr(text, "..")) {
        return false;
    }
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == len;
}

static int strings_check(const json_t *array, const char *name, size_t max, struct err *err)
{
    if (json_array_size(array) > max) {
        return err_set(err, EINVAL, "validation error: network.%s has more than %zu entries", name,
                       max);
    }
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (!json_is_string(json_array_get(array, i))) {
            return err_set(err, EINVAL, "validation error: network.%s[%zu] must be a string", name,
                           i);
        }
    }
    return 0;
}

static int deny_check(const json_t *deny, struct err *err)
{
    int r = strings_check(deny, "denyOut", NETWORK_ADDRESSES_MAX, err);

    for (size_t i = 0; r == 0 && i < json_array_size(deny); i++) {
        const char *text = json_string_value(json_array_get(deny, i));

        if (!is_address(text)) {
            r = err_set(err, EINVAL, "invalid denied CIDR %s", text);
        }
    }
    return r;
}

static bool denies_all(const json_t *deny)
{
    for (size_t i = 0; i < json_array_size(deny); i++) {
        if (strcmp(json_string_value(json_array_get(deny, i)), "0.0.0.0/0") == 0) {
            return true;
        }
    }
    return false;
}

static int allow_check(const json_t *allow, const json_t *deny, struct err *err)
{
    bool domains = false;
    int r = strings_check(allow, "allowOut", NETWORK_ADDRESSES_MAX, err);

    for (size_t i = 0; r == 0 && i < json_array_size(allow); i++) {
        const char *text = json_string_value(json_array_get(allow, i));

        if (is_address(text)) {
            continue;
        }
        domains = true;
        if (strcmp(text, "*") != 0 && !is_domain(text, true)) {
            r = err_set(err, EINVAL, "invalid allowed address %s", text);
        }
    }
    if (r == 0 && domains && !denies_all(deny)) {
        r = err_set(err, EINVAL,
                    "When specifying allowed domains in allow out, you must include"
                    " 'ALL_TRAFFIC' in deny out to block all other traffic. It is 0.0.0.0/0.");
    }
    return r;
}

static int dns_check(const json_t *servers, struct err *err)
{
    struct in_addr address;
    int r = strings_check(servers, "dnsServers", NETWORK_DNS_SERVERS_MAX, err);

    for (size_t i = 0; r == 0 && i < json_array_size(servers); i++) {
        const char *text = json_string_value(json_array_get(servers, i));

        if (inet_pton(AF_INET, text, &address) != 1) {
            r = err_set(err, EINVAL, "validation error: network.dnsServers: %s is no IPv4 address",
                        text);
        }
    }
    return r;
}

static int ports_check(const json_t *ports, struct err *err)
{
    if (json_array_size(ports) > NETWORK_HTTPS_PORTS_MAX) {
        return err_set(err, EINVAL, "validation error: network.httpsPorts has more than %d entries",
                       NETWORK_HTTPS_PORTS_MAX);
    }
    for (size_t i = 0; i < json_array_size(ports); i++) {
        const json_t *port = json_array_get(ports, i);
        json_int_t number = json_integer_value(port);

        if (!json_is_integer(port) || number < 1 || number > 65535) {
            return err_set(err, EINVAL,
                           "validation error: network.httpsPorts[%zu] must be a port number", i);
        }
        if (number == AGENT_PORT_NUMBER) {
            return err_set(err, EINVAL, "network.httpsPorts: port %d cannot be listed",
                           AGENT_PORT_NUMBER);
        }
    }
    return 0;
}

/* ---- rules ---- */

static bool is_field_value(const char *text)
{
    for (; *text; text++) {
        if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

static int header_check(const char *domain, const char *name, const json_t *value, struct err *err)
{
    if (strlen(name) > NETWORK_HEADER_NAME_BYTES_MAX || !field_is_name(name)) {
        return err_set(err, EINVAL,
                       "Header name \"%s\" in rule for domain \"%s\" must be 1 to %d valid HTTP"
                       " token characters.",
                       name, domain, NETWORK_HEADER_NAME_BYTES_MAX);
    }
    if (field_is_framing(name)) {
        return err_set(err, EINVAL,
                       "Header \"%s\" in rule for domain \"%s\" cannot be set by a rule.", name,
                       domain);
    }
    if (!json_is_string(value) || json_string_length(value) > NETWORK_HEADER_VALUE_BYTES_MAX ||
        !is_field_value(json_string_value(value))) {
        return err_set(err, EINVAL,
                       "Value for header \"%s\" in rule for domain \"%s\" must be at most %d valid"
                       " characters.",
                       name, domain, NETWORK_HEADER_VALUE_BYTES_MAX);
    }
    return 0;
}

static int transform_check(const char *domain, const json_t *rule, struct err *err)
{
    const json_t *transform = NULL, *headers = NULL;
    int r = json_is_object(rule) ? 0 : field_refuse(err, "network.rules[]", "an array of objects");

    if (r == 0) {
        r = field_object(rule, "transform", &transform, err);
    }
    if (r == 0 && transform) {
        r = field_object(transform, "headers", &headers, err);
    }
    if (r < 0 || !headers) {
        return r;
    }
    if (json_object_size(headers) > NETWORK_RULE_HEADERS_MAX) {
        return err_set(err, EINVAL, "Domain \"%s\" can have at most %d headers per rule.", domain,
                       NETWORK_RULE_HEADERS_MAX);
    }
    json_each (headers, it) {
        r = header_check(domain, json_object_iter_key(it), json_object_iter_value(it), err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int rule_check(const char *domain, const json_t *rules, struct err *err)
{
    if (!is_domain(domain, true) || strlen(domain) > NETWORK_RULE_DOMAIN_BYTES_MAX) {
        return err_set(err, EINVAL, "Rule domain \"%s\" is not a valid domain name.", domain);
    }
    if (!json_is_array(rules)) {
        return field_refuse(err, "network.rules", "an object of arrays");
    }
    if (json_array_size(rules) > NETWORK_RULE_TRANSFORMS_MAX) {
        return err_set(err, EINVAL, "Domain \"%s\" can have at most %d transform rule.", domain,
                       NETWORK_RULE_TRANSFORMS_MAX);
    }
    for (size_t i = 0; i < json_array_size(rules); i++) {
        int r = transform_check(domain, json_array_get(rules, i), err);

        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Names are lower-cased: two that differ only in case would be one rule. */
static int rules_parse(const json_t *rules, json_t **out, struct err *err)
{
    scoped_json *lowered = json_object();

    if (json_object_size(rules) > NETWORK_RULE_DOMAINS_MAX) {
        return err_set(err, EINVAL, "Network rules can have at most %d domains.",
                       NETWORK_RULE_DOMAINS_MAX);
    }
    json_each (rules, it) {
        char domain[NETWORK_RULE_DOMAIN_BYTES_MAX + 1];
        int r = rule_check(json_object_iter_key(it), json_object_iter_value(it), err);

        if (r < 0) {
            return r;
        }
        (void)snprintf(domain, sizeof(domain), "%s", json_object_iter_key(it));
        for (char *c = domain; *c; c++) {
            *c = (char)tolower((unsigned char)*c);
        }
        (void)json_object_set(lowered, domain, json_object_iter_value(it));
    }
    *out = move_ptr(&lowered);
    return 0;
}

/* ---- the rest ---- */

/* "host:port" or "[v6]:port". */
static bool is_place(const char *text)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    bool brackets = len > 2 && text[0] == '[' && text[len - 1] == ']';

    if (len == 0 || len > NETWORK_HOST_BYTES_MAX || strspn(colon + 1, "0123456789") > 5 ||
        colon[1 + strspn(colon + 1, "0123456789")] || strtoul(colon + 1, NULL, 10) == 0 ||
        strtoul(colon + 1, NULL, 10) > UINT16_MAX) {
        return false;
    }
    for (size_t i = brackets; i < len - brackets; i++) {
        if (text[i] <= ' ' || text[i] >= 0x7f || strchr("/?#@\\[]", text[i]) ||
            (text[i] == ':' && !brackets)) {
            return false;
        }
    }
    return true;
}

/* As long as SOCKS5 can say them. */
static int login_check(const char *username, const char *password, struct err *err)
{
    if (strlen(username) > NETWORK_LOGIN_BYTES_MAX || strlen(password) > NETWORK_LOGIN_BYTES_MAX) {
        return err_set(err, EINVAL,
                       "validation error: network.egressProxy: username and password must not"
                       " exceed %d bytes",
                       NETWORK_LOGIN_BYTES_MAX);
    }
    if (!username[0] && password[0]) {
        return err_set(err, EINVAL,
                       "validation error: network.egressProxy: a password needs a username");
    }
    return 0;
}

/* A host's name or address. */
static bool is_host(const char *text)
{
    return text[0] && strlen(text) <= NETWORK_HOST_BYTES_MAX &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") ==
               strlen(text);
}

static int authorities_check(const char *pem, struct err *err)
{
    struct tls_trust *trust = NULL;

    if (tls_trust_new_pem(str_of(pem), &trust) < 0) {
        return err_set(err, EINVAL,
                       "validation error: network.egressProxy.tls.caCert must be PEM certificates"
                       " of at most %d bytes",
                       TLS_PEM_BYTES_MAX);
    }
    tls_trust_free(trust);
    return 0;
}

static int proxy_tls_check(const json_t *proxy, struct err *err)
{
    const json_t *tls = NULL;
    const char *name = NULL, *pem = NULL;
    bool enabled = false;

    if (field_object(proxy, "tls", &tls, err) < 0) {
        return field_refuse(err, "network.egressProxy.tls", "an object");
    }
    if (!tls) {
        return 0;
    }
    int r = json_is_boolean(json_object_get(tls, "enabled"))
                ? field_bool(tls, "enabled", &enabled, err)
                : field_refuse(err, "network.egressProxy.tls.enabled", "given, true or false");
    if (r == 0) {
        r = field_string(tls, "serverName", &name, err);
    }
    if (r == 0) {
        r = field_string(tls, "caCert", &pem, err);
    }
    if (r == 0 && !enabled && (name || pem)) {
        r = err_set(err, EINVAL,
                    "validation error: network.egressProxy.tls: nothing else may be set when"
                    " enabled is false");
    }
    if (r == 0 && name && !is_host(name)) {
        r = field_refuse(err, "network.egressProxy.tls.serverName", "a host's name");
    }
    return r == 0 && pem ? authorities_check(pem, err) : r;
}

static int proxy_check(const json_t *network, struct err *err)
{
    const json_t *proxy = NULL;
    const char *address = NULL, *username = NULL, *password = NULL;
    int r = field_object(network, "egressProxy", &proxy, err);

    if (r < 0 || !proxy) {
        return r;
    }
    r = field_string(proxy, "address", &address, err);
    if (r == 0) {
        r = field_string(proxy, "username", &username, err);
    }
    if (r == 0) {
        r = field_string(proxy, "password", &password, err);
    }
    if (r == 0 && (!address || !address[0])) {
        r = field_refuse(err, "network.egressProxy.address", "given");
    }
    if (r == 0 && !is_place(address)) {
        r = field_refuse(err, "network.egressProxy.address", "host:port");
    }
    if (r == 0) {
        r = proxy_tls_check(proxy, err);
    }
    return r < 0 ? r : login_check(username ? username : "", password ? password : "", err);
}

static int mask_check(const json_t *network, struct err *err)
{
    const char *host = NULL;
    int r = field_string(network, "maskRequestHost", &host, err);

    if (r < 0 || !host) {
        return r;
    }
    size_t len = strlen(host);
    bool ok = len > 0 && len <= NETWORK_HOST_BYTES_MAX;
    for (size_t i = 0; i < len; i++) {
        ok = ok && host[i] > ' ' && host[i] < 0x7f && !strchr("/?#@\\", host[i]);
    }
    return ok ? 0 : err_set(err, EINVAL, "mask request host is not valid: %s", host);
}

static int lists_check(const json_t *network, struct err *err)
{
    const json_t *allow = NULL, *deny = NULL, *dns = NULL, *ports = NULL;
    int r = field_array(network, "denyOut", &deny, err);

    if (r == 0) {
        r = field_array(network, "allowOut", &allow, err);
    }
    if (r == 0) {
        r = field_array(network, "dnsServers", &dns, err);
    }
    if (r == 0) {
        r = field_array(network, "httpsPorts", &ports, err);
    }
    if (r == 0) {
        r = deny_check(deny, err);
    }
    if (r == 0) {
        r = allow_check(allow, deny, err);
    }
    if (r == 0) {
        r = dns_check(dns, err);
    }
    return r == 0 ? ports_check(ports, err) : r;
}

int network_parse(const json_t *network, json_t **out, struct err *err)
{
    const json_t *rules = NULL;
    scoped_json *lowered = NULL;
    bool public = true;
    int r = field_bool(network, "allowPublicTraffic", &public, err);

    if (r == 0) {
        r = lists_check(network, err);
    }
    if (r == 0) {
        r = proxy_check(network, err);
    }
    if (r == 0) {
        r = mask_check(network, err);
    }
    if (r == 0) {
        r = field_object(network, "rules", &rules, err);
    }
    if (r == 0 && rules) {
        r = rules_parse(rules, &lowered, err);
    }
    if (r < 0) {
        return r;
    }

    json_t *copy = json_object();
    for (size_t i = 0; i < countof(known); i++) {
        json_t *value = json_object_get(network, known[i]);

        if (value && !json_is_null(value)) {
            (void)json_object_set(copy, known[i], value);
        }
    }
    if (lowered) {
        (void)json_object_set(copy, "rules", lowered);
    }
    *out = copy;
    return 0;
}

int network_update(const json_t *before, const json_t *body, json_t **out, struct err *err)
{
    static const char *const egress[] = {"allowOut", "denyOut", "dnsServers", "rules",
                                         "egressProxy"};
    scoped_json *merged = before ? json_deep_copy(before) : json_object();

    for (size_t i = 0; i < countof(egress); i++) {
        json_t *value = json_object_get(body, egress[i]);

        if (value) {
            (void)json_object_set(merged, egress[i], value);
        } else {
            (void)json_object_del(merged, egress[i]);
        }
    }
    return network_parse(merged, out, err);
}

bool network_is_public(const json_t *network)
{
    return !json_is_false(json_object_get(network, "allowPublicTraffic"));
}

json_t *network_shown(const json_t *network)
{
    json_t *copy = json_deep_copy(network);

    (void)json_object_del(json_object_get(copy, "egressProxy"), "password");
    return copy;
}
