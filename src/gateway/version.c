#include "gateway/version.h"

#include "base/compiler.h"

static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

bool version_is_known(struct str name)
{
    for (size_t i = 0; i < countof(versions); i++) {
        if (str_eq(name, str_of(versions[i]))) {
            return true;
        }
    }
    return false;
}

const char *version_agree(const char *asked)
{
    return version_is_known(str_of(asked)) ? asked : versions[0];
}

json_t *version_names(void)
{
    json_t *names = json_array();

    for (size_t i = 0; i < countof(versions); i++) {
        (void)json_array_append_new(names, json_string(versions[i]));
    }
    return names;
}
