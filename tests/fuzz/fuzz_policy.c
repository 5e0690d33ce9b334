/* A policy from arbitrary JSON, asked about an address and a name: the first two lines of the
 * input. Where everything is denied, only what is allowed by name or address gets through. */
#include <stdint.h>
#include <stdlib.h>

#include "serve/egress/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, address_text = {0}, name = {0};
    char rule[POLICY_RULE_BYTES];
    struct address address;
    struct block block;

    if (!str_split(&rest, '\n', &address_text) || !str_split(&rest, '\n', &name)) {
        return 0;
    }
    if (address_parse(address_text, &address) < 0) {
        address = (struct address){{0}};
    }
    (void)!block_parse(address_text, &block);
    (void)address_reserved(&address);
    json_t *options = json_loadb(rest.at ? rest.at : "", rest.len, 0, NULL);
    struct policy *policy = policy_new(options);

    enum verdict verdict = policy_address(policy, &address, rule);
    check(verdict == VERDICT_ALLOW ? rule[0] == '\0' : rule[0] != '\0');
    check(verdict == VERDICT_DENY || policy_opens(policy));
    if (policy_name(policy, name)) {
        check(policy_resolves(policy, name) && policy_opens(policy));
    }
    policy_free(policy);
    json_decref(options);
    return 0;
}
