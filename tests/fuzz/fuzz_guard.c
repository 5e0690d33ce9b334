/* A text past the guard, whole and in pieces: the first line is the secret, the first byte of the
 * second how long the pieces are. Both find the secret or both do not. Occurrences that overlap are
 * one place in the whole; in pieces they may be two, because a stream does not hold back the first
 * characters of a secret. No secret goes out of the whole. */
#include <stdint.h>
#include <stdlib.h>

#include "lib/guard/formats.h"
#include "lib/guard/guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t in_pieces(const struct guard *guard, struct str text, size_t piece, struct buf *out)
{
    struct guard_stream *stream = guard_stream_new(guard);

    while (text.len > 0) {
        size_t n = text.len < piece ? text.len : piece;
        if (guard_stream_put(stream, (struct str){text.at, n}, out) < 0) {
            abort();
        }
        text = str_skip(text, n);
    }
    if (guard_stream_end(stream, out) < 0) {
        abort();
    }
    size_t count = guard_stream_count(stream);
    guard_stream_free(stream);
    return count;
}

/* What is found lies in the text. */
static void on_format(void *ctx, struct str place, struct str key, const char *kind)
{
    const struct str *text = ctx;

    if (place.len == 0 || key.len == 0 || !kind[0] || place.at < text->at ||
        place.at + place.len > text->at + text->len) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str all = {(const char *)data, size};
    struct str rest = {(const char *)data, size}, secret = {0};
    struct guard *guard = guard_new();
    size_t count = 0;
    struct err err;
    scoped_buf(whole, 64 * 1024 * 1024);
    scoped_buf(pieces, 64 * 1024 * 1024);

    if (str_split(&rest, '\n', &secret) && rest.len > 1 && secret.len > 0 &&
        guard_add(guard, secret, &err) == 0) {
        guard_ready(guard);
        struct str text = str_skip(rest, 1);
        size_t piece = 1 + (unsigned char)rest.at[0] % 32;
        if (guard_redact(guard, text, &whole, &count) < 0) {
            abort();
        }
        size_t count_pieces = in_pieces(guard, text, piece, &pieces);
        if (count_pieces < count || (count == 0) != (count_pieces == 0)) {
            abort();
        }
        /* A mark may itself hold a short secret. */
        if (secret.len > sizeof(GUARD_MARK) && buf_len(&whole) > 0 &&
            memmem(buf_at(&whole), buf_len(&whole), secret.at, secret.len) && count == 0) {
            abort();
        }
    }
    guard_formats_each(all, on_format, &all);
    guard_free(guard);
    return 0;
}
