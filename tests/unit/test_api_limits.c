#include <errno.h>

#include "check.h"
#include "lib/base/json.h"
#include "serve/api/limits.h"

static int result; /* of the last parse */

static struct limits parsed(const char *text)
{
    struct limits limits = limits_none();
    scoped_json *object = json_loads(text, 0, NULL);
    struct err err;

    result = limits_parse(object, &limits, &err);
    return limits;
}

static void limits_are_read_by_name(void)
{
    struct limits limits = parsed("{\"cpus\":4,\"diskMB\":0,\"builds\":null}");

    CHECK_INT(result, 0);
    CHECK_INT(limits.most[LIMIT_CPUS], 4);
    CHECK_INT(limits.most[LIMIT_DISK_MB], 0);
    CHECK_INT(limits.most[LIMIT_BUILDS], LIMIT_NONE);
    CHECK_INT(limits.most[LIMIT_SANDBOXES], LIMIT_NONE);
    CHECK(limits_any(&limits));
    limits = limits_none();
    CHECK(!limits_any(&limits));
}

static void a_wrong_limit_changes_none(void)
{
    static const char *const wrong[] = {
        "{\"cpus\":1,\"cats\":1}", "{\"cpus\":1,\"builds\":-1}", "{\"cpus\":1,\"builds\":\"2\"}",
        "{\"cpus\":1,\"builds\":1.5}", "{\"cpus\":1,\"builds\":1000000001}"};

    for (size_t i = 0; i < countof(wrong); i++) {
        struct limits limits = parsed(wrong[i]);

        CHECK_INT(result, -EINVAL);
        CHECK(!limits_any(&limits));
    }
}

static void the_store_gives_back_what_it_was_given(void)
{
    struct limits limits = parsed("{\"sandboxes\":1000000000,\"cpus\":1000000000,"
                                  "\"memoryMB\":1000000000,\"diskMB\":1000000000,"
                                  "\"builds\":1000000000}");
    char text[LIMITS_TEXT_BYTES];

    limits_write(&limits, text);
    struct limits again = limits_read(text);
    CHECK(memcmp(&again, &limits, sizeof(limits)) == 0);
    limits = limits_none();
    limits_write(&limits, text);
    CHECK_STR(text, "{}");
    limits = limits_read("{\"cpus\":");
    CHECK(!limits_any(&limits));
    limits = limits_read(NULL);
    CHECK(!limits_any(&limits));
}

static void a_limit_is_passed_by_the_sum(void)
{
    struct limits limits = parsed("{\"cpus\":4,\"builds\":0}");
    struct amounts used = {.of = {[LIMIT_CPUS] = 3, [LIMIT_SANDBOXES] = 1000}};
    struct amounts one = {.of = {[LIMIT_CPUS] = 1, [LIMIT_SANDBOXES] = 1}};
    struct amounts two = {.of = {[LIMIT_CPUS] = 2}};
    struct amounts build = {.of = {[LIMIT_BUILDS] = 1}};

    CHECK_INT(limits_passed(&limits, &used, &one), -1);
    CHECK_INT(limits_passed(&limits, &used, &two), LIMIT_CPUS);
    CHECK_INT(limits_passed(&limits, &used, &build), LIMIT_BUILDS);
    used.of[LIMIT_CPUS] = 9; /* a limit was lowered: what needs none of it is not refused */
    used.of[LIMIT_BUILDS] = 0;
    CHECK_INT(limits_passed(&limits, &used, &(struct amounts){.of = {[LIMIT_SANDBOXES] = 1}}), -1);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"limits are read by name", limits_are_read_by_name},
        {"a wrong limit changes none", a_wrong_limit_changes_none},
        {"the store gives back what it was given", the_store_gives_back_what_it_was_given},
        {"a limit is passed by the sum", a_limit_is_passed_by_the_sum},
    };

    return check_run(tests, countof(tests));
}
