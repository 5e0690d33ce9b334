#include "lib/mcp/sse.h"

int sse_write(struct buf *out, struct str id, struct str data)
{
    int r = id.len ? buf_printf(out, "id: %.*s\n", (int)id.len, id.at) : 0;

    if (r == 0) {
        r = buf_append(out, "data: ", 6);
    }
    if (r == 0) {
        r = buf_append(out, data.at, data.len);
    }
    return r == 0 ? buf_append(out, "\n\n", 2) : r;
}

void sse_reader_init(struct sse_reader *reader, size_t max,
                     void (*event)(void *ctx, struct str data), void *ctx)
{
    *reader = (struct sse_reader){.event = event, .ctx = ctx};
    buf_init(&reader->line, max);
    buf_init(&reader->data, max);
}

void sse_reader_fini(struct sse_reader *reader)
{
    buf_fini(&reader->line);
    buf_fini(&reader->data);
}

/* Several data fields of an event are lines of one text. */
static int data_add(struct sse_reader *reader, struct str value)
{
    int r = reader->any ? buf_append(&reader->data, "\n", 1) : 0;

    reader->any = true;
    return r == 0 ? buf_append(&reader->data, value.at, value.len) : r;
}

static void event_end(struct sse_reader *reader)
{
    if (reader->any && buf_len(&reader->data) > 0) {
        reader->event(reader->ctx, buf_str(&reader->data));
    }
    reader->any = false;
    buf_clear(&reader->data);
}

static int line_end(struct sse_reader *reader)
{
    struct str line = buf_str(&reader->line);
    size_t colon = str_find(line, ':');
    int r = 0;

    if (line.len == 0) {
        event_end(reader);
    } else if (str_eq((struct str){line.at, colon}, STR("data"))) {
        struct str value = str_skip(line, colon + 1);
        r = data_add(reader, str_starts(value, STR(" ")) ? str_skip(value, 1) : value);
    }
    buf_clear(&reader->line);
    return r;
}

/* How many bytes there are before the next end of a line. */
static size_t line_rest(struct str text)
{
    size_t lf = str_find(text, '\n');

    return str_find((struct str){text.at, lf}, '\r');
}

int sse_read(struct sse_reader *reader, const void *bytes, size_t len)
{
    struct str rest = {bytes, len};

    while (rest.len) {
        if (reader->cr && rest.at[0] == '\n') {
            rest = str_skip(rest, 1);
            reader->cr = false;
            continue;
        }
        size_t n = line_rest(rest);
        int r = buf_append(&reader->line, rest.at, n);
        reader->cr = n < rest.len && rest.at[n] == '\r';
        if (r == 0 && n < rest.len) {
            r = line_end(reader);
        }
        if (r < 0) {
            return r;
        }
        rest = str_skip(rest, n + 1);
    }
    return 0;
}
