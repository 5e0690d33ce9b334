/* Host routing from arbitrary bytes. Lines of the input: Host, E2b-Sandbox-Id, E2b-Sandbox-Port,
 * the domain. What the router calls ours must be a target that is safe to pass on. */
#include <stdint.h>
#include <stdlib.h>

#include "edge/edge.h"

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
    enum edge_verdict verdict = edge_route(&req, domain, &target);
    if (verdict == EDGE_OURS) {
        check_target(&target);
    } else if (verdict == EDGE_BAD) {
        check(target.reason != NULL);
    }
    return 0;
}
