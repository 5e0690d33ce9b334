/* Host routing from arbitrary bytes. Lines of the input: Host, E2b-Sandbox-Id, E2b-Sandbox-Port,
 * the domain. What the router calls ours must be a target that is safe to pass on. The same bytes
 * are a name that is served or not, and the Origin of a page: one without a domain is not served
 * for a site on the internet. */
#include <stdint.h>
#include <stdlib.h>

#include "lib/http/browser.h"
#include "lib/http/hosts.h"
#include "serve/edge/edge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_target(const struct edge_target *target)
{
    check(target->port != 0);
    check(target->id.len > 0);
    for (size_t i = 0; i < target->id.len; i++) {
        char c = target->id.at[i];
        check((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'));
    }
}

static void check_names(struct str authority, struct str origin, const char *domain)
{
    static const struct hosts nothing = {.domain = "", .allowed = "", .issuer = "", .machine = ""};
    const struct hosts some = {
        .domain = domain, .allowed = domain, .issuer = domain, .machine = ""};
    const struct http_header header = {STR("origin"), origin};
    struct http_request req = {.method = STR("POST"),
                               .scheme = STR("http"),
                               .authority = authority,
                               .headers = &header,
                               .headers_n = 1};

    struct str name = hosts_name(authority);
    check(!str_ends(name, STR(".test")) || !hosts_serve(&nothing, authority));
    (void)hosts_serve(&some, authority);
    (void)hosts_list_ok(origin);
    (void)browser_is_foreign(&req);
    check(!browser_asked_first(&req));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, lines[4] = {0};
    struct http_header headers[2];
    struct http_request req = {.headers = headers};
    struct edge_target target;
    char domain[256] = "";

    for (size_t i = 0; i < countof(lines) && str_split(&rest, '\n', &lines[i]); i++) {
    }
    req.authority = lines[0];
    if (lines[1].len) {
        headers[req.headers_n++] = (struct http_header){STR("e2b-sandbox-id"), lines[1]};
    }
    if (lines[2].len) {
        headers[req.headers_n++] = (struct http_header){STR("e2b-sandbox-port"), lines[2]};
    }
    (void)str_copy(domain, sizeof(domain), lines[3]);
    check_names(lines[0], lines[1], domain);
    enum edge_verdict verdict = edge_route(&req, domain, &target);
    if (verdict == EDGE_OURS) {
        check_target(&target);
    } else if (verdict == EDGE_BAD) {
        check(target.reason != NULL);
    }
    return 0;
}
