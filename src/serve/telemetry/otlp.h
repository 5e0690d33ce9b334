/* otlp.h - spans, metrics and log lines for an OpenTelemetry collector, by OTLP over HTTP as JSON.
 *
 * Owns:     a bounded queue for each signal, and the posts under way (post.h).
 * Needs:    a loop.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * Nothing waits for the collector: what comes while a queue is full is dropped and counted. Each
 * signal has one post under way. A post that fails for the moment is repeated, later and later. */
#ifndef TELEMETRY_OTLP_H
#define TELEMETRY_OTLP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/trace.h"

enum {
    OTLP_QUEUE_MAX = 4096,                   /* items of a signal */
    OTLP_QUEUE_BYTES_MAX = 16 * 1024 * 1024, /* of a signal */
    OTLP_BATCH_MAX = 512,                    /* items in one post */
    OTLP_FLUSH_MS = 1000,                    /* an item waits that long for others */
    OTLP_RETRY_MS = 1000,                    /* doubled with each try */
    OTLP_RETRY_MS_MAX = 60 * 1000,
    OTLP_TRIES_MAX = 6,
    OTLP_HEADERS_MAX = 8,
    OTLP_TEXT_BYTES = 1024,
};

enum otlp_signal { OTLP_TRACES, OTLP_METRICS, OTLP_LOGS, OTLP_SIGNALS };

struct otlp;

struct otlp_options {
    uv_loop_t *loop;
    const char *endpoint; /* "http://127.0.0.1:4318": the path of the signal is added */
    const char *headers;  /* "Name=value,Name=value"; "": none */
    double sample;        /* of traces that begin here, 0 to 1 */
    const char *version;
    const char *instance; /* service.instance.id; "": none */
};

must_check int otlp_new(const struct otlp_options *options, struct otlp **out, struct err *err);

/* Drops what waits. The loop must run once more. NULL is fine. */
void otlp_free(struct otlp *otlp);

/* A share of traces, "0.25"; -EINVAL when it is not from 0 to 1. Pure. */
must_check int otlp_sample_parse(const char *text, double *out, struct err *err);

/* The place of a new request: under the caller's, or of a new trace. */
void otlp_place(const struct otlp *otlp, struct str traceparent, struct trace_place *out,
                bool *traced, uint8_t parent[TRACE_SPAN_BYTES]);

/* Takes the spans that are sampled. */
struct tracer otlp_tracer(struct otlp *otlp);

/* Adds an element of resourceMetrics or resourceLogs. Steals it. */
void otlp_put(struct otlp *otlp, enum otlp_signal signal, json_t *element);

/* {"attributes": [...]} of the daemon; NULL attributes: none are added. */
json_t *otlp_resource(const struct otlp *otlp);
void otlp_attribute_text(json_t *attributes, const char *name, const char *text);
void otlp_attribute_int(json_t *attributes, const char *name, int64_t number);

/* Unix time in nanoseconds, as OTLP's JSON has it: a text. */
json_t *otlp_time(int64_t wall_us);

struct otlp_figures {
    const char *signal;
    uint64_t sent, dropped, posts_failed;
    uint64_t waiting;
};
/* All 0 for NULL. */
void otlp_figures(const struct otlp *otlp, struct otlp_figures out[OTLP_SIGNALS]);

#endif
