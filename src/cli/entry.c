#include "cli/entry.h"

#include <stdio.h>
#include <string.h>

#include "cli/terminal_text.h"
#include "lib/base/id.h"
#include "lib/base/json.h"

bool entry_id_ok(const char *id)
{
    size_t len = strlen(id);

    return len > 0 && len <= ID_SANDBOX_LEN &&
           strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") == len;
}

void entry_put(const char *text)
{
    while (text && *text) {
        size_t n = terminal_control_len(text);

        (void)putchar(n > 0 ? '?' : *text);
        text += n > 0 ? n : 1;
    }
}

/* Fields that the message repeats, or that only programs need. */
static bool is_plain(const char *name)
{
    return strcmp(name, "logger") == 0 || strcmp(name, "event_type") == 0 ||
           strcmp(name, "pid") == 0 || strcmp(name, "path") == 0;
}

void entry_print(const json_t *entry)
{
    json_t *fields = json_object_get(entry, "fields");
    const char *name;
    json_t *value;

    printf("%s %-5s ", json_text_of(entry, "timestamp"), json_text_of(entry, "level"));
    entry_put(json_text_of(entry, "message"));
    json_object_foreach (fields, name, value) {
        if (!is_plain(name)) {
            (void)putchar(' ');
            entry_put(name);
            (void)fputs("=\"", stdout);
            entry_put(json_string_value(value));
            (void)putchar('"');
        }
    }
    (void)putchar('\n');
}

void entry_print_message(const json_t *entry)
{
    entry_put(json_text_of(entry, "message"));
    (void)putchar('\n');
}
