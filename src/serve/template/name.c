#include "serve/template/name.h"

#include <ctype.h>
#include <errno.h>

static bool part_copy(char out[TEMPLATE_NAME_MAX + 1], struct str part, bool dots)
{
    if (part.len == 0 || part.len > TEMPLATE_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < part.len; i++) {
        char c = part.at[i];

        if (c >= 'A' && c <= 'Z') {
            c = (char)(c - 'A' + 'a');
        }
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
              (c == '.' && dots))) {
            return false;
        }
        out[i] = c;
    }
    out[part.len] = '\0';
    return true;
}

bool template_tag_is_build(struct str tag)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

    if (tag.len != sizeof(form) - 1) {
        return false;
    }
    for (size_t i = 0; i < tag.len; i++) {
        if (form[i] == '-' ? tag.at[i] != '-' : !isxdigit((unsigned char)tag.at[i])) {
            return false;
        }
    }
    return true;
}

bool template_tag_parse(struct str text, char out[TEMPLATE_NAME_MAX + 1])
{
    return part_copy(out, text, true) && !template_tag_is_build(text);
}

int template_name_parse(struct str text, struct template_name *out)
{
    struct str name = str_trim(text);
    size_t colon = str_find(name, ':');
    struct str tag = colon < name.len ? str_skip(name, colon + 1) : STR(TEMPLATE_TAG_DEFAULT);
    struct str alias = {name.at, colon};
    size_t slash = str_find(alias, '/');

    *out = (struct template_name){0};
    if (slash < alias.len) {
        if (!part_copy(out->space, (struct str){alias.at, slash}, false)) {
            return -EINVAL;
        }
        alias = str_skip(alias, slash + 1);
    }
    return part_copy(out->alias, alias, false) && part_copy(out->tag, tag, true) ? 0 : -EINVAL;
}
