/* fuzz_kernel_lines.c - lines that a pipe kernel writes, and text in pieces of any size.
 *
 * Every event that is read has a type; what is made of it is JSON. Text that is cut where a
 * character is unfinished must be, put together again, what it was.
 */
#include <stdlib.h>

#include "inside/interpreter/json_read.h"
#include "inside/interpreter/pipe_wire.h"
#include "inside/interpreter/result.h"
#include "lib/base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void event_check(struct str line)
{
    scoped_event event = {.fields = NULL};

    if (pipe_event_read(line, &event) < 0) {
        return;
    }
    check(event.type <= PIPE_DONE && json_is_object(event.fields));
    json_t *bundle = json_object_get(event.fields, "data");
    if (event.type == PIPE_RESULT && json_is_object(bundle)) {
        json_auto_t *result = result_make(bundle, false);
        check(json_is_object(result));
    }
    json_auto_t *error = error_make(str_of(json_text(event.fields, "name")), line, STR(""));
    check(json_is_object(error));
}

/* Cutting off what is unfinished never makes a good text bad. */
static void cut_check(struct str text)
{
    size_t tail = utf8_unfinished(text);

    check(tail <= 3 && tail <= text.len);
    if (utf8_valid(text)) {
        check(tail == 0);
    }
    for (size_t n = 0; n < text.len && n < 8 && utf8_valid(text); n++) {
        struct str head = {text.at, n};
        head.len -= utf8_unfinished(head);
        check(utf8_valid(head));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, line;

    cut_check(rest);
    while (str_split(&rest, '\n', &line)) {
        event_check(line);
    }
    return 0;
}
