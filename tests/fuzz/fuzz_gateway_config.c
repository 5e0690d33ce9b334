/* fuzz_gateway_config.c - configurations of the MCP gateway, with a small catalogue.
 *
 * What is accepted can be run: names are no paths out of their directory, arguments and variables
 * are strings, and nothing that was filled in is left with a field that was absent.
 */
#include <stdint.h>
#include <stdlib.h>

#include "inside/gateway/names.h"
#include "inside/gateway/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void plan_check(const struct plan *plan)
{
    const json_t *arg;
    json_t *value;
    const char *name;
    size_t i;

    check(*plan->name && !strchr("/.", plan->name[0]) && !strstr(plan->name, "/."));
    check((plan->kind == PLAN_COMMAND) == !plan->source);
    check(!plan->source || plan_package(plan).len <= strlen(plan->source));
    check(json_is_array(plan->args) && json_is_object(plan->env));
    json_array_foreach (plan->args, i, arg) {
        check(json_is_string(arg));
    }
    json_object_foreach (plan->env, name, value) {
        check(*name && !strchr(name, '=') && json_is_string(value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct catalogue catalogue;
    scoped_plans plans = {.n = 0};
    struct err err;

    if (!catalogue.servers) {
        catalogue.servers = json_loads(
            "{\"a\": {\"npm\": \"@s/p@1\", \"fields\": {\"s\": \"string\", \"i\": \"integer?\","
            " \"b\": \"boolean?\", \"l\": \"strings?\"}, \"args\": [\"{s}-{i}\", [\"-b\", \"{b}\"],"
            " \"{l}\"], \"env\": {\"S\": \"{s}\", \"L\": \"{l}\"}}}",
            0, NULL);
    }
    if (plans_read((struct str){(const char *)data, size}, &catalogue, &plans, &err) < 0) {
        check(err.msg[0] != '\0');
        return 0;
    }
    check(plans.n > 0);
    for (size_t i = 0; i < plans.n; i++) {
        plan_check(&plans.all[i]);
        check(names_match(plans.all[i].name, plans.all[i].name) || strchr(plans.all[i].name, '{'));
    }
    return 0;
}
