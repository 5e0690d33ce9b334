/* policy.h - the targets that one sandbox may reach. Pure.
 *
 *   allow_internet_access: false   is denyOut ["0.0.0.0/0"]
 *   network.allowOut               addresses, blocks, names, "*.name", "*"
 *   network.denyOut                addresses and blocks; 0.0.0.0/0 is everything
 *
 * A target in allowOut is allowed even if denyOut has it; the rest is allowed unless denied. The
 * name of a connection is in its first bytes (peek.h), so where the address does not decide and
 * allowOut has names, the caller must ask again with the name.
 *
 * The fields were checked when they came in (serve/api/network.h); what cannot be understood here
 * allows nothing.
 */
#ifndef EGRESS_POLICY_H
#define EGRESS_POLICY_H

#include <jansson.h>
#include <stdbool.h>

#include "serve/egress/address.h"

enum { POLICY_NAME_BYTES = 254, POLICY_RULE_BYTES = 64 };

struct policy;

/* options: what a sandbox's row stores, with "network" and "allowInternetAccess". Never NULL. */
struct policy *policy_new(const json_t *options);
void policy_free(struct policy *policy);

/* Whether there is anything it may reach. */
bool policy_opens(const struct policy *policy);

enum verdict { VERDICT_ALLOW, VERDICT_DENY, VERDICT_BY_NAME };

/* `rule`: what denied it, as the user wrote it. */
enum verdict policy_address(const struct policy *policy, const struct address *address,
                            char rule[POLICY_RULE_BYTES]);

/* The same for a name whose address only a proxy knows: blocks of denyOut do not apply to it,
 * unless they are 0.0.0.0/0. */
enum verdict policy_remote(const struct policy *policy, struct str name,
                           char rule[POLICY_RULE_BYTES]);

/* Whether allowOut has that name. */
bool policy_name(const struct policy *policy, struct str name);

/* The rule that allows a target, as the user wrote it; "": nothing denies it. address NULL: only a
 * proxy knows it. */
void policy_allowed_by(const struct policy *policy, const struct address *address, struct str name,
                       char rule[POLICY_RULE_BYTES]);

/* Whether that name may be resolved: where everything is denied, only if allowOut has it. */
bool policy_resolves(const struct policy *policy, struct str name);

#endif
