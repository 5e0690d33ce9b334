#include "serve/egress/policy.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"

struct rule {
    struct block block;
    char *text;
};

struct rules {
    struct rule *at;
    size_t n;
};

struct policy {
    struct rules allow, deny;
    char **names; /* of allowOut, lower case */
    size_t names_n;
    bool deny_all;        /* denyOut has 0.0.0.0/0, or there is to be no access */
    const char *deny_why; /* that rule */
};

/* ---- making one ---- */

static char *copy_lower(const char *text)
{
    char *copy = xstrdup(text);

    for (char *c = copy; *c; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    return copy;
}

static void deny_all(struct policy *policy, const char *why)
{
    policy->deny_all = true;
    policy->deny_why = why;
}

/* The texts are stored in arrays, where the analyzer loses sight of them. */
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* Reads a list. An entry that is no block goes to names; where names are not allowed, it denies
 * all. */
static void read_list(struct policy *policy, const json_t *list, struct rules *rules, bool names)
{
    size_t n = json_array_size(list);

    if (list && !json_is_array(list)) {
        deny_all(policy, "a list that cannot be read");
    }
    rules->at = xcalloc(n ? n : 1, sizeof(struct rule));
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        struct rule *rule = &rules->at[rules->n];

        if (text && block_parse(str_of(text), &rule->block) == 0) {
            rule->text = copy_lower(text);
            rules->n++;
        } else if (text && names) {
            policy->names[policy->names_n++] = copy_lower(text);
        } else {
            deny_all(policy, "a rule that cannot be read");
        }
    }
}

#pragma GCC diagnostic pop

static bool is_everything(const struct block *block)
{
    return block->bits == 0 && address_is_v4(&block->base);
}

struct policy *policy_new(const json_t *options)
{
    const json_t *network = json_object_get(options, "network");
    const json_t *allow = json_object_get(network, "allowOut");
    struct policy *policy = xnew(struct policy);
    size_t names_max = json_array_size(allow);

    policy->names = xcalloc(names_max ? names_max : 1, sizeof(char *));
    read_list(policy, allow, &policy->allow, true);
    read_list(policy, json_object_get(network, "denyOut"), &policy->deny, false);
    for (size_t i = 0; i < policy->deny.n; i++) {
        if (is_everything(&policy->deny.at[i].block)) {
            deny_all(policy, "denyOut 0.0.0.0/0");
        }
    }
    if (json_is_false(json_object_get(options, "allowInternetAccess"))) {
        deny_all(policy, "allow_internet_access: false");
    }
    return policy;
}

static void rules_fini(struct rules *rules)
{
    for (size_t i = 0; i < rules->n; i++) {
        free(rules->at[i].text);
    }
    free(rules->at);
}

void policy_free(struct policy *policy)
{
    if (!policy) {
        return;
    }
    rules_fini(&policy->allow);
    rules_fini(&policy->deny);
    for (size_t i = 0; i < policy->names_n; i++) {
        free(policy->names[i]);
    }
    free(policy->names);
    free(policy);
}

bool policy_opens(const struct policy *policy)
{
    return (!policy->deny_all || policy->allow.n > 0 || policy->names_n > 0);
}

/* ---- asking it ---- */

static const struct rule *rules_find(const struct rules *rules, const struct address *address)
{
    for (size_t i = 0; i < rules->n; i++) {
        if (block_has(&rules->at[i].block, address)) {
            return &rules->at[i];
        }
    }
    return NULL;
}

enum verdict policy_address(const struct policy *policy, const struct address *address,
                            char rule[POLICY_RULE_BYTES])
{
    rule[0] = '\0';
    if (rules_find(&policy->allow, address)) {
        return VERDICT_ALLOW;
    }
    const struct rule *denied = rules_find(&policy->deny, address);
    if (!denied && !policy->deny_all) {
        return VERDICT_ALLOW;
    }
    if (policy->deny_all) {
        (void)snprintf(rule, POLICY_RULE_BYTES, "%s", policy->deny_why);
    } else {
        (void)snprintf(rule, POLICY_RULE_BYTES, "denyOut %s", denied->text);
    }
    return policy->names_n > 0 ? VERDICT_BY_NAME : VERDICT_DENY;
}

static bool name_matches(const char *pattern, struct str name)
{
    if (strcmp(pattern, "*") == 0) {
        return true;
    }
    if (pattern[0] == '*') {
        struct str suffix = str_of(pattern + 1); /* with its dot: the name itself is not in it */
        return name.len > suffix.len &&
               str_ieq((struct str){name.at + name.len - suffix.len, suffix.len}, suffix);
    }
    return str_ieq(str_of(pattern), name);
}

/* The entry of allowOut that has the name, or NULL. */
static const char *pattern_find(const struct policy *policy, struct str name)
{
    if (name.len > 1 && name.at[name.len - 1] == '.') {
        name.len--; /* "example.com." is the same name, said in full */
    }
    for (size_t i = 0; name.len && i < policy->names_n; i++) {
        if (name_matches(policy->names[i], name)) {
            return policy->names[i];
        }
    }
    return NULL;
}

bool policy_name(const struct policy *policy, struct str name)
{
    return pattern_find(policy, name) != NULL;
}

void policy_allowed_by(const struct policy *policy, const struct address *address, struct str name,
                       char rule[POLICY_RULE_BYTES])
{
    const struct rule *block = address ? rules_find(&policy->allow, address) : NULL;
    const char *pattern = pattern_find(policy, name);

    rule[0] = '\0';
    if (block || pattern) {
        (void)snprintf(rule, POLICY_RULE_BYTES, "allowOut %s", block ? block->text : pattern);
    }
}

enum verdict policy_remote(const struct policy *policy, struct str name,
                           char rule[POLICY_RULE_BYTES])
{
    if (policy_resolves(policy, name)) {
        return VERDICT_ALLOW;
    }
    (void)snprintf(rule, POLICY_RULE_BYTES, "%s", policy->deny_why);
    return VERDICT_DENY;
}

bool policy_resolves(const struct policy *policy, struct str name)
{
    return !policy->deny_all || policy_name(policy, name);
}
