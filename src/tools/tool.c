#include "tools/tool.h"

/* Dashes and underscores are the same: some builders name their tools with dashes. */
static bool is_named(const struct tool *tool, struct str name)
{
    size_t i = 0;

    while (i < name.len && tool->name[i] &&
           (name.at[i] == '-' ? '_' : name.at[i]) == tool->name[i]) {
        i++;
    }
    return i == name.len && !tool->name[i];
}

const struct tool *tool_find(struct str name)
{
    for (size_t i = 0; i < tools_catalogue_n; i++) {
        if (is_named(&tools_catalogue[i], name)) {
            return &tools_catalogue[i];
        }
    }
    return NULL;
}
