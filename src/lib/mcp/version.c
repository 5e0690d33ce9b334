#include "lib/mcp/version.h"

#include "lib/base/compiler.h"

static const char *const names[MCP_VERSIONS_N] = {
    [MCP_2024_11_05] = "2024-11-05", [MCP_2025_03_26] = "2025-03-26",
    [MCP_2025_06_18] = "2025-06-18", [MCP_2025_11_25] = "2025-11-25",
    [MCP_2026_07_28] = "2026-07-28",
};

const char *version_name(enum mcp_version version)
{
    return names[version];
}

bool version_find(struct str name, enum mcp_version *out)
{
    for (size_t i = 0; i < countof(names); i++) {
        if (str_eq(name, str_of(names[i]))) {
            *out = (enum mcp_version)i;
            return true;
        }
    }
    return false;
}

enum mcp_version version_negotiate(const char *asked)
{
    enum mcp_version found;

    if (version_find(str_of(asked), &found) && !version_is_stateless(found)) {
        return found;
    }
    return MCP_2025_11_25;
}

json_t *version_names(void)
{
    json_t *list = json_array();

    for (size_t i = countof(names); i-- > 0;) {
        (void)json_array_append_new(list, json_string(names[i]));
    }
    return list;
}

json_t *version_error_data(struct str requested)
{
    json_t *data = json_object();
    json_t *text = json_stringn(requested.at, requested.len);

    (void)json_object_set_new(data, "supported", version_names());
    (void)json_object_set_new(data, "requested", text ? text : json_string(""));
    return data;
}
