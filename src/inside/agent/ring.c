#include "inside/agent/ring.h"

#include <assert.h>
#include <stdint.h>

struct record {
    uint32_t len;
    int32_t kind;
};

enum {
    /* A new piece may exceed the limit before the oldest are dropped, and every piece has a head
     * that may be larger than the piece. */
    SLACK_FACTOR = 4,
    SLACK_BYTES = 256 * 1024,
};

void ring_init(struct ring *ring, size_t limit)
{
    *ring = (struct ring){.limit = limit};
    buf_init(&ring->records, SLACK_FACTOR * limit + SLACK_BYTES);
}

void ring_fini(struct ring *ring)
{
    buf_fini(&ring->records);
    ring->bytes = ring->last_len = 0;
}

static struct record record_at(const char *at)
{
    struct record record;

    memcpy(&record, at, sizeof(record));
    return record;
}

/* Lengthens the newest record; false when it is of another kind or long enough. */
static bool extend(struct ring *ring, int kind, struct str piece, size_t piece_max)
{
    size_t len = ring->last_len + piece.len;

    if (ring->last_len == 0 || ring->last_kind != kind || len > piece_max ||
        buf_append(&ring->records, piece.at, piece.len) < 0) {
        return false;
    }
    struct record record = {.len = (uint32_t)len, .kind = kind};
    memcpy(ring->records.data + ring->records.end - len - sizeof(record), &record, sizeof(record));
    ring->last_len = len;
    return true;
}

static void append(struct ring *ring, int kind, struct str piece)
{
    struct record record = {.len = (uint32_t)piece.len, .kind = kind};
    char *at;

    int r = buf_reserve(&ring->records, sizeof(record) + piece.len, &at);
    assert(r == 0); /* the slack is larger than any piece */
    (void)r;
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), piece.at, piece.len);
    buf_commit(&ring->records, sizeof(record) + piece.len);
    ring->last_len = piece.len;
    ring->last_kind = kind;
}

static void push_one(struct ring *ring, int kind, struct str piece, size_t piece_max)
{
    if (!extend(ring, kind, piece, piece_max)) {
        append(ring, kind, piece);
    }
    ring->bytes += piece.len;
    /* Heads count as well: a million pieces of one byte are more than a megabyte. */
    while (ring->bytes > ring->limit || buf_len(&ring->records) > 2 * ring->limit + SLACK_BYTES) {
        ring_drop(ring);
    }
}

void ring_push(struct ring *ring, int kind, struct str bytes, size_t piece_max)
{
    assert(piece_max > 0 && piece_max < SLACK_BYTES / 2);
    while (bytes.len > 0) {
        size_t n = bytes.len < piece_max ? bytes.len : piece_max;
        push_one(ring, kind, (struct str){bytes.at, n}, piece_max);
        bytes = str_skip(bytes, n);
    }
}

bool ring_next(const struct ring *ring, size_t *at, int *kind, struct str *piece)
{
    if (*at >= buf_len(&ring->records)) {
        return false;
    }
    const char *here = buf_at(&ring->records) + *at;
    struct record record = record_at(here);
    *kind = record.kind;
    *piece = (struct str){here + sizeof(record), record.len};
    *at += sizeof(record) + record.len;
    return true;
}

bool ring_peek(const struct ring *ring, int *kind, struct str *piece)
{
    size_t first = 0;

    return ring_next(ring, &first, kind, piece);
}

void ring_drop(struct ring *ring)
{
    struct record record = record_at(buf_at(&ring->records));

    ring->bytes -= record.len;
    buf_consume(&ring->records, sizeof(record) + record.len);
    if (buf_len(&ring->records) == 0) {
        ring_fini(ring); /* an idle process keeps nothing */
    }
}
