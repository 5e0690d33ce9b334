/* stream.c - runs the automaton over a text that comes in pieces.
 *
 * The text is read in several spellings at once (views), each with a state of its own; for every
 * character of a view it is known where in the text it began. Matches are ranges of the text,
 * ordered by their ends; ranges that overlap are merged.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/guard/internal.h"

enum view_kind {
    VIEW_PLAIN,   /* as it is */
    VIEW_LINES,   /* without ends of lines: base64 is often broken into some */
    VIEW_PERCENT, /* %XX are bytes */
    VIEW_FORM,    /* and a plus is a space */
    VIEWS,
};

enum { LINE_END_BYTES_MAX = 2, PENDING_BYTES_MAX = GUARD_TEXT_BYTES_MAX + 1024 * 1024 };

struct view {
    enum view_kind kind;
    int32_t at;
    uint64_t n;         /* characters so far */
    uint64_t *starts;   /* of the last ones in the text, by their number modulo the ring's size */
    bool tail;          /* the next character shares bits with what has just been found */
    uint16_t tag;       /* of what has just been found */
    unsigned line_ends; /* VIEW_LINES: left out in a row */
    unsigned percent;   /* of a %XX: characters that are there */
    unsigned char digit;
    uint64_t percent_at;
};

struct range {
    uint64_t start, end;
    bool joined; /* goes on where the one before, which is out already, ended */
    uint16_t tag;
};

struct guard_stream {
    const struct guard *guard;
    struct view views[VIEWS];
    size_t views_n, ring;
    struct buf pending; /* from `out` on */
    uint64_t out, in;   /* bytes that have gone out, that have come in */
    bool out_is_mark;   /* what went out last was a secret's place */
    struct range *found;
    size_t found_first, found_n, found_cap;
    size_t count;
    guard_tag_found *each; /* NULL: nobody asks which */
    void *ctx;
};

/* ---- what was found ---- */

static void range_push(struct guard_stream *stream, struct range range)
{
    if (stream->found_n == stream->found_cap) {
        size_t cap = stream->found_cap ? 2 * stream->found_cap : 16;
        struct range *found = xcalloc(cap, sizeof(*found)); /* bounded by the text's limit */

        if (stream->found_n > 0) {
            memcpy(found, stream->found, stream->found_n * sizeof(*found));
        }
        free(stream->found);
        stream->found = found;
        stream->found_cap = cap;
    }
    stream->found[stream->found_n++] = range;
}

static void range_add(struct guard_stream *stream, uint64_t start, uint64_t end, uint16_t tag)
{
    struct range range = {.start = start, .end = end, .tag = tag};

    while (stream->found_n > stream->found_first &&
           stream->found[stream->found_n - 1].end > range.start) {
        const struct range *last = &stream->found[--stream->found_n];
        range.start = last->start < range.start ? last->start : range.start;
        range.end = last->end > range.end ? last->end : range.end;
        range.joined = range.joined || last->joined;
    }
    if (range.start < stream->out) {
        range.joined = range.joined || stream->out_is_mark;
        range.start = stream->out;
    }
    if (range.start < range.end) {
        range_push(stream, range);
    }
}

/* ---- views ---- */

static bool is_base64(unsigned char c)
{
    return isalnum(c) || c == '+' || c == '/' || c == '-' || c == '_';
}

/* Where the i-th character before the next one began. */
static uint64_t start_of(const struct guard_stream *stream, const struct view *view, uint64_t i)
{
    return view->starts[(view->n - i) % stream->ring];
}

/* The byte at a place that has not gone out. */
static bool shares_bits(const struct guard_stream *stream, uint64_t place)
{
    return place >= stream->out &&
           is_base64((unsigned char)buf_at(&stream->pending)[place - stream->out]);
}

static void on_found(struct guard_stream *stream, struct view *view, const struct ending *ending,
                     uint64_t end)
{
    uint64_t start = start_of(stream, view, ending->len);

    if (ending->lead && view->n > ending->len) {
        uint64_t before = start_of(stream, view, (uint64_t)ending->len + 1);
        start = shares_bits(stream, before) ? before : start;
    }
    view->tail = ending->tail;
    view->tag = ending->tag;
    if (stream->each) {
        stream->each(stream->ctx, ending->tag);
    }
    range_add(stream, start, end, ending->tag);
}

static void view_take(struct guard_stream *stream, struct view *view, unsigned char c,
                      uint64_t start, uint64_t end)
{
    if (view->tail && is_base64(c)) {
        range_add(stream, start_of(stream, view, 1), end, view->tag);
    }
    view->tail = false;
    view->starts[view->n++ % stream->ring] = start;
    view->at = guard_step(stream->guard, view->at, c);
    const struct state *state = &stream->guard->states[view->at];
    const struct ending *ending = view->kind == VIEW_PLAIN ? &state->longest : &state->encoded;
    if (ending->len > 0) {
        on_found(stream, view, ending, end);
    }
}

/* At most two bytes of a line's end are skipped: the held-back text stays short. */
static void take_lines(struct guard_stream *stream, struct view *view, unsigned char c,
                       uint64_t place)
{
    if (c != '\r' && c != '\n') {
        view->line_ends = 0;
        view_take(stream, view, c, place, place + 1);
    } else if (++view->line_ends > LINE_END_BYTES_MAX) {
        view->at = 0;
        view->tail = false;
    }
}

static void take_plain_or_plus(struct guard_stream *stream, struct view *view, unsigned char c,
                               uint64_t place)
{
    bool space = c == '+' && view->kind == VIEW_FORM;

    view_take(stream, view, space ? ' ' : c, place, place + 1);
}

static unsigned char hex_value(unsigned char c)
{
    return (unsigned char)(isdigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* A % that is no %XX is what it is. */
static void percent_break(struct guard_stream *stream, struct view *view)
{
    unsigned there = view->percent;

    view->percent = 0;
    if (there > 0) {
        view_take(stream, view, '%', view->percent_at, view->percent_at + 1);
    }
    if (there > 1) {
        view_take(stream, view, view->digit, view->percent_at + 1, view->percent_at + 2);
    }
}

static void take_percent(struct guard_stream *stream, struct view *view, unsigned char c,
                         uint64_t place)
{
    if (view->percent > 0 && isxdigit(c)) {
        if (view->percent++ == 1) {
            view->digit = c;
            return;
        }
        view->percent = 0;
        view_take(stream, view, (unsigned char)(hex_value(view->digit) << 4 | hex_value(c)),
                  view->percent_at, place + 1);
        return;
    }
    percent_break(stream, view);
    if (c == '%') {
        view->percent = 1;
        view->percent_at = place;
    } else {
        take_plain_or_plus(stream, view, c, place);
    }
}

static void take(struct guard_stream *stream, struct view *view, unsigned char c, uint64_t place)
{
    switch (view->kind) {
    case VIEW_PLAIN:
        view_take(stream, view, c, place, place + 1);
        return;
    case VIEW_LINES:
        take_lines(stream, view, c, place);
        return;
    case VIEW_PERCENT:
    case VIEW_FORM:
        take_percent(stream, view, c, place);
        return;
    case VIEWS:
        abort();
    }
}

/* ---- what goes out ---- */

static int out_plain(struct guard_stream *stream, uint64_t until, struct buf *out)
{
    size_t n = until > stream->out ? (size_t)(until - stream->out) : 0;
    int r = n > 0 ? buf_append(out, buf_at(&stream->pending), n) : 0;

    if (r == 0 && n > 0) {
        buf_consume(&stream->pending, n);
        stream->out = until;
        stream->out_is_mark = false;
    }
    return r;
}

static int out_mark(struct guard_stream *stream, const struct range *range, struct buf *out)
{
    int r = range->joined ? 0 : buf_append(out, GUARD_MARK, sizeof(GUARD_MARK) - 1);

    if (r == 0) {
        stream->count += !range->joined;
        buf_consume(&stream->pending, (size_t)(range->end - stream->out));
        stream->out = range->end;
        stream->out_is_mark = true;
    }
    return r;
}

/* All that lies before `safe`, and each found range that begins there. */
static int out_until(struct guard_stream *stream, uint64_t safe, struct buf *out)
{
    int r = 0;

    while (r == 0 && stream->found_first < stream->found_n &&
           stream->found[stream->found_first].start < safe) {
        const struct range *range = &stream->found[stream->found_first];

        r = out_plain(stream, range->start, out);
        r = r < 0 ? r : out_mark(stream, range, out);
        stream->found_first += r == 0;
    }
    if (stream->found_first == stream->found_n) {
        stream->found_first = stream->found_n = 0;
    }
    return r < 0 ? r : out_plain(stream, safe, out);
}

/* No unfinished secret begins before this position. */
static uint64_t safe_place(const struct guard_stream *stream)
{
    uint64_t safe = stream->in;

    for (size_t i = 0; i < stream->views_n; i++) {
        const struct view *view = &stream->views[i];
        uint32_t held = stream->guard->states[view->at].held;
        uint64_t start = held > 0 ? start_of(stream, view, held) : stream->in;

        safe = start < safe ? start : safe;
    }
    return safe;
}

/* ---- life ---- */

struct guard_stream *guard_stream_new(const struct guard *guard)
{
    struct guard_stream *stream = xnew(struct guard_stream);

    stream->guard = guard;
    stream->ring = guard->longest + 2;
    stream->views_n = guard->spaces ? VIEWS : VIEW_FORM;
    for (size_t i = 0; i < stream->views_n; i++) {
        stream->views[i].kind = (enum view_kind)i;
        stream->views[i].starts = xcalloc(stream->ring, sizeof(uint64_t));
    }
    buf_init(&stream->pending, PENDING_BYTES_MAX);
    return stream;
}

void guard_stream_free(struct guard_stream *stream)
{
    if (!stream) {
        return;
    }
    for (size_t i = 0; i < stream->views_n; i++) {
        free(stream->views[i].starts);
    }
    if (stream->pending.data) {
        explicit_bzero(stream->pending.data, stream->pending.cap);
    }
    buf_fini(&stream->pending);
    free(stream->found);
    free(stream);
}

static int stream_scan(struct guard_stream *stream, struct str data)
{
    int r = buf_append(&stream->pending, data.at, data.len);

    for (size_t i = 0; r == 0 && i < data.len; i++) {
        for (size_t j = 0; j < stream->views_n; j++) {
            take(stream, &stream->views[j], (unsigned char)data.at[i], stream->in);
        }
        stream->in++;
    }
    return r;
}

int guard_stream_put(struct guard_stream *stream, struct str data, struct buf *out)
{
    int r = stream_scan(stream, data);

    return r < 0 ? r : out_until(stream, safe_place(stream), out);
}

int guard_stream_end(struct guard_stream *stream, struct buf *out)
{
    return out_until(stream, stream->in, out);
}

size_t guard_stream_count(const struct guard_stream *stream)
{
    return stream->count;
}

int guard_redact(const struct guard *guard, struct str text, struct buf *out, size_t *count)
{
    return guard_redact_tagged(guard, text, out, count, NULL, NULL);
}

int guard_find(const struct guard *guard, struct str text, struct str *place, uint16_t *tag)
{
    if (text.len > GUARD_TEXT_BYTES_MAX) {
        return -EMSGSIZE;
    }
    struct guard_stream *stream = guard_stream_new(guard);
    int r = stream_scan(stream, text);
    if (r == 0 && stream->found_n > 0) {
        const struct range *first = &stream->found[0];

        *place = (struct str){text.at + first->start, (size_t)(first->end - first->start)};
        *tag = first->tag;
        r = 1;
    }
    guard_stream_free(stream);
    return r;
}

int guard_redact_tagged(const struct guard *guard, struct str text, struct buf *out, size_t *count,
                        guard_tag_found *each, void *ctx)
{
    if (text.len > GUARD_TEXT_BYTES_MAX) {
        return -EMSGSIZE;
    }
    struct guard_stream *stream = guard_stream_new(guard);
    stream->each = each;
    stream->ctx = ctx;
    int r = stream_scan(stream, text);
    r = r < 0 ? r : guard_stream_end(stream, out);
    *count = stream->count;
    guard_stream_free(stream);
    return r;
}
