#include "lib/base/trace.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/id.h"

static const uint8_t zeros[TRACE_ID_BYTES];

static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; /* capitals are not allowed */
}

static bool read_hex(struct str text, uint8_t *out)
{
    for (size_t i = 0; i < text.len; i += 2) {
        int high = digit(text.at[i]), low = digit(text.at[i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        out[i / 2] = (uint8_t)(16 * high + low);
    }
    return true;
}

static void write_hex(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* "00-<32 hex>-<16 hex>-<2 hex>"; versions to come may add more behind another '-'. */
bool trace_parse(struct str header, struct trace_place *out)
{
    struct trace_place place = {0};
    uint8_t version = 0, flags = 0;
    const char *at = header.at;

    if (header.len < TRACE_PARENT_BYTES - 1 || at[2] != '-' || at[35] != '-' || at[52] != '-' ||
        !read_hex((struct str){at, 2}, &version) || version == 0xff ||
        !read_hex((struct str){at + 3, 32}, place.trace) ||
        !read_hex((struct str){at + 36, 16}, place.span) ||
        !read_hex((struct str){at + 53, 2}, &flags)) {
        return false;
    }
    bool longer = header.len > TRACE_PARENT_BYTES - 1;
    if ((longer && (version == 0 || at[55] != '-')) ||
        memcmp(place.trace, zeros, TRACE_ID_BYTES) == 0 ||
        memcmp(place.span, zeros, TRACE_SPAN_BYTES) == 0) {
        return false;
    }
    place.sampled = flags & 1;
    *out = place;
    return true;
}

void trace_id_hex(const struct trace_place *place, char out[TRACE_ID_HEX])
{
    write_hex(place->trace, TRACE_ID_BYTES, out);
}

void trace_write(const struct trace_place *place, char out[TRACE_PARENT_BYTES])
{
    char trace[TRACE_ID_HEX], span[TRACE_SPAN_HEX];

    trace_id_hex(place, trace);
    write_hex(place->span, TRACE_SPAN_BYTES, span);
    (void)snprintf(out, TRACE_PARENT_BYTES, "00-%s-%s-%02x", trace, span, place->sampled);
}

/* The id itself is the chance: another service with the same ratio decides the same. */
void trace_begin(struct trace_place *out, double ratio)
{
    uint64_t chance = 0;

    do {
        id_random(out->trace, sizeof(out->trace));
        id_random(out->span, sizeof(out->span));
    } while (memcmp(out->trace, zeros, TRACE_ID_BYTES) == 0 ||
             memcmp(out->span, zeros, TRACE_SPAN_BYTES) == 0);
    for (size_t i = TRACE_ID_BYTES - 7; i < TRACE_ID_BYTES; i++) {
        chance = chance << 8 | out->trace[i];
    }
    out->sampled = (double)chance < ratio * 0x1p56;
}

void trace_enter(struct trace_place *place)
{
    do {
        id_random(place->span, sizeof(place->span));
    } while (memcmp(place->span, zeros, TRACE_SPAN_BYTES) == 0);
}

void trace_step(const struct tracer *tracer, const struct trace_place *parent, const char *name,
                int64_t begun_us, int64_t ended_us, const struct trace_attribute *attributes,
                size_t attributes_n)
{
    struct trace_span span = {.place = *parent,
                              .name = name,
                              .begun_us = begun_us,
                              .ended_us = ended_us,
                              .attributes = attributes,
                              .attributes_n = attributes_n};

    if (!trace_wanted(tracer, parent)) {
        return;
    }
    memcpy(span.parent, parent->span, sizeof(span.parent));
    trace_enter(&span.place);
    tracer->span(tracer->ctx, &span);
}
