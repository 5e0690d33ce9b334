/* trace.h - spans: where the time of a request went, under the trace of its caller.
 *
 * A place is handed along with the work: which trace it belongs to, and which span is the parent of
 * new ones. Whoever does a step of the work reports it when the step is over. The ids and headers
 * are those of W3C Trace Context; serve/telemetry/otlp.h sends the spans away.
 *
 * Pure but for the randomness of new ids. */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum {
    TRACE_ID_BYTES = 16,
    TRACE_SPAN_BYTES = 8,
    TRACE_ID_HEX = 2 * TRACE_ID_BYTES + 1,     /* with its NUL */
    TRACE_SPAN_HEX = 2 * TRACE_SPAN_BYTES + 1, /* likewise */
    TRACE_PARENT_BYTES = 56,                   /* a traceparent header, and its NUL */
    TRACE_ATTRIBUTES_MAX = 16,                 /* of one span */
};

struct trace_place { /* all zero: there is no trace */
    uint8_t trace[TRACE_ID_BYTES];
    uint8_t span[TRACE_SPAN_BYTES];
    bool sampled; /* its spans are wanted */
};

struct trace_attribute {
    const char *name; /* of OpenTelemetry's semantic conventions, where there is one */
    const char *text; /* NULL: it is the number */
    int64_t number;
};

struct trace_span {           /* borrowed during the call */
    struct trace_place place; /* its own id */
    uint8_t parent[TRACE_SPAN_BYTES];
    const char *name;
    bool is_server;
    int64_t begun_us, ended_us; /* of the monotonic clock */
    const struct trace_attribute *attributes;
    size_t attributes_n;
    const char *error; /* NULL: it went well */
    struct str state;  /* tracestate of the caller; empty: none */
};

/* Takes spans. A NULL `span` takes none. */
struct tracer {
    void (*span)(void *ctx, const struct trace_span *span);
    void *ctx;
};

/* Reads a traceparent. False: it is none, as the specification says. */
bool trace_parse(struct str header, struct trace_place *out);

/* 55 characters and a NUL. */
void trace_write(const struct trace_place *place, char out[TRACE_PARENT_BYTES]);
void trace_id_hex(const struct trace_place *place, char out[TRACE_ID_HEX]);

/* A new trace; `ratio` of them, 0 to 1, are sampled. */
void trace_begin(struct trace_place *out, double ratio);

/* Replaces the span's id by a new one of the same trace. */
void trace_enter(struct trace_place *place);

static inline bool trace_wanted(const struct tracer *tracer, const struct trace_place *parent)
{
    return tracer && tracer->span && parent->sampled;
}

/* Reports a step of the work under `parent`. Does nothing when nobody wants it. */
void trace_step(const struct tracer *tracer, const struct trace_place *parent, const char *name,
                int64_t begun_us, int64_t ended_us, const struct trace_attribute *attributes,
                size_t attributes_n);

#endif
