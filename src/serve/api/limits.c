#include "serve/api/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/str.h"

static const char *const names[LIMITS] = {
    [LIMIT_SANDBOXES] = "sandboxes", [LIMIT_CPUS] = "cpus",     [LIMIT_MEMORY_MB] = "memoryMB",
    [LIMIT_DISK_MB] = "diskMB",      [LIMIT_BUILDS] = "builds",
};

const char *limit_name(enum limit limit)
{
    return names[limit];
}

struct limits limits_none(void)
{
    struct limits limits;

    for (int i = 0; i < LIMITS; i++) {
        limits.most[i] = LIMIT_NONE;
    }
    return limits;
}

bool limits_any(const struct limits *limits)
{
    for (int i = 0; i < LIMITS; i++) {
        if (limits->most[i] != LIMIT_NONE) {
            return true;
        }
    }
    return false;
}

static int find(const char *name)
{
    for (int i = 0; i < LIMITS; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

int limits_parse(const json_t *object, struct limits *out, struct err *err)
{
    struct limits limits = *out;

    json_each (object, it) {
        const char *name = json_object_iter_key(it);
        const json_t *value = json_object_iter_value(it);
        int i = find(name);

        if (i < 0) {
            return err_set(err, EINVAL,
                           "validation error: limits has no '%.32s': there are sandboxes, cpus, "
                           "memoryMB, diskMB and builds",
                           name);
        }
        bool number = json_is_integer(value) && json_integer_value(value) >= 0 &&
                      json_integer_value(value) <= LIMIT_MAX;
        if (!number && !json_is_null(value)) {
            return err_set(err, EINVAL,
                           "validation error: limits.%s must be a whole number from 0 to %d, or "
                           "null for no limit",
                           name, LIMIT_MAX);
        }
        limits.most[i] = number ? json_integer_value(value) : LIMIT_NONE;
    }
    *out = limits;
    return 0;
}

json_t *limits_json(const struct limits *limits)
{
    json_t *out = json_object();

    for (int i = 0; i < LIMITS; i++) {
        bool none = limits->most[i] == LIMIT_NONE;
        (void)json_object_set_new(out, names[i],
                                  none ? json_null() : json_integer(limits->most[i]));
    }
    return out;
}

json_t *amounts_json(const struct amounts *amounts)
{
    json_t *out = json_object();

    for (int i = 0; i < LIMITS; i++) {
        (void)json_object_set_new(out, names[i], json_integer(amounts->of[i]));
    }
    return out;
}

void limits_write(const struct limits *limits, char out[LIMITS_TEXT_BYTES])
{
    size_t len = 0;

    for (int i = 0; i < LIMITS; i++) {
        if (limits->most[i] != LIMIT_NONE) {
            len += (size_t)snprintf(out + len, LIMITS_TEXT_BYTES - len, "%s\"%s\":%lld",
                                    len ? "," : "{", names[i], (long long)limits->most[i]);
        }
    }
    (void)snprintf(out + len, LIMITS_TEXT_BYTES - len, len ? "}" : "{}");
}

struct limits limits_read(const char *text)
{
    struct limits limits = limits_none();
    scoped_json *object = json_loads(text ? text : "{}", 0, NULL);
    struct err ignored;

    return limits_parse(object, &limits, &ignored) == 0 ? limits : limits_none();
}

int limits_passed(const struct limits *limits, const struct amounts *used,
                  const struct amounts *more)
{
    for (int i = 0; i < LIMITS; i++) {
        if (limits->most[i] != LIMIT_NONE && more->of[i] > 0 &&
            used->of[i] + more->of[i] > limits->most[i]) {
            return i;
        }
    }
    return -1;
}
