#include "serve/telemetry/otlp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "serve/telemetry/post.h"

enum {
    URL_BYTES = OTLP_TEXT_BYTES + 64,
    HEADER_BYTES = OTLP_TEXT_BYTES + 64,
    KIND_INTERNAL = 1, /* SpanKind */
    KIND_SERVER = 2,
    STATUS_ERROR = 2, /* Status.StatusCode */
    FRAME_BYTES_MAX = 64 * 1024,
};

static const char *const signals[OTLP_SIGNALS] = {"traces", "metrics", "logs"};

struct queue { /* of one signal */
    struct otlp *otlp;
    const char *name;
    char url[URL_BYTES];
    char *head, *tail; /* of a post's body, around its items */
    char **items;      /* a ring of OTLP_QUEUE_MAX texts of JSON */
    size_t first, n, bytes;
    uv_timer_t timer; /* the next post, or the next try */
    char *batch;      /* the body that is sent; NULL: none */
    size_t batch_n;
    uint32_t tries;
    struct post *post; /* under way */
    int64_t told_ms;
    uint64_t sent, dropped, posts_failed;
};

struct otlp {
    struct otlp_options options;
    char *headers[OTLP_HEADERS_MAX]; /* "Name: value" */
    size_t headers_n;
    char *version, *instance;
    struct poster *poster;
    struct queue queues[OTLP_SIGNALS];
    uint32_t timers; /* that libuv has not closed yet */
};

/* ---- pieces of JSON ---- */

void otlp_attribute_text(json_t *attributes, const char *name, const char *text)
{
    (void)json_array_append_new(attributes, json_pack("{s:s, s:{s:o}}", "key", name, "value",
                                                      "stringValue", json_sentence(text)));
}

void otlp_attribute_int(json_t *attributes, const char *name, int64_t number)
{
    (void)json_array_append_new(attributes,
                                json_pack("{s:s, s:{s:o}}", "key", name, "value", "intValue",
                                          json_sprintf("%" PRId64, number)));
}

json_t *otlp_time(int64_t wall_us)
{
    return json_sprintf("%" PRId64 "000", wall_us);
}

json_t *otlp_resource(const struct otlp *otlp)
{
    json_t *attributes = json_array();

    otlp_attribute_text(attributes, "service.name", "atoll");
    otlp_attribute_text(attributes, "service.version", otlp->version);
    if (otlp->instance[0]) {
        otlp_attribute_text(attributes, "service.instance.id", otlp->instance);
    }
    return json_pack("{s:o}", "attributes", attributes);
}

/* ---- posts ---- */

static void queue_flush(struct queue *queue);

static void on_timer(uv_timer_t *timer)
{
    queue_flush(timer->data);
}

static void flush_in(struct queue *queue, uint64_t ms)
{
    (void)uv_timer_start(&queue->timer, on_timer, ms, 0);
}

static void batch_end(struct queue *queue)
{
    free(move_ptr(&queue->batch));
    queue->batch_n = 0;
    queue->tries = 0;
    if (queue->n > 0) {
        flush_in(queue, queue->n >= OTLP_BATCH_MAX ? 0 : OTLP_FLUSH_MS);
    }
}

/* As the specification of OTLP has it: other answers mean that the same batch never passes. */
static bool is_for_the_moment(int status)
{
    return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

static uint64_t retry_ms(uint32_t tries)
{
    uint64_t ms = (uint64_t)OTLP_RETRY_MS << (tries - 1);

    return ms < OTLP_RETRY_MS_MAX ? ms : OTLP_RETRY_MS_MAX;
}

static void on_posted(void *ctx, const struct post_result *result)
{
    struct queue *queue = ctx;

    queue->post = NULL;
    if (!result->error) {
        queue->sent += queue->batch_n;
        batch_end(queue);
        return;
    }
    queue->posts_failed++;
    if (log_turn(&queue->told_ms)) {
        log_warn("otlp: %zu items of %s could not be sent: %s", queue->batch_n, queue->name,
                 result->error);
    }
    if (is_for_the_moment(result->status) && queue->tries < OTLP_TRIES_MAX) {
        flush_in(queue, retry_ms(queue->tries));
    } else {
        queue->dropped += queue->batch_n;
        batch_end(queue);
    }
}

static void batch_send(struct queue *queue)
{
    struct otlp *otlp = queue->otlp;
    struct post_request request = {.url = queue->url, .body = queue->batch};

    for (size_t i = 0; i < otlp->headers_n; i++) {
        request.headers[i] = otlp->headers[i];
    }
    queue->tries++;
    queue->post = post_send(otlp->poster, &request, on_posted, queue);
}

static char *item_take(struct queue *queue)
{
    char *item = queue->items[queue->first];

    queue->first = (queue->first + 1) % OTLP_QUEUE_MAX;
    queue->n--;
    queue->bytes -= strlen(item);
    return item;
}

static void batch_make(struct queue *queue)
{
    struct buf body;

    buf_init(&body, OTLP_QUEUE_BYTES_MAX + FRAME_BYTES_MAX);
    int r = buf_printf(&body, "%s", queue->head);
    for (; queue->n > 0 && queue->batch_n < OTLP_BATCH_MAX; queue->batch_n++) {
        char *item = item_take(queue);

        r = r < 0 ? r : buf_printf(&body, "%s%s", queue->batch_n > 0 ? "," : "", item);
        free(item);
    }
    r = r < 0 ? r : buf_printf(&body, "%s", queue->tail);
    if (r < 0 || buf_append(&body, "", 1) < 0) {
        abort(); /* the queue holds less than the buffer takes */
    }
    queue->batch = xstrdup(buf_at(&body));
    buf_fini(&body);
}

static void queue_flush(struct queue *queue)
{
    if (queue->post) {
        return; /* its end goes on */
    }
    if (!queue->batch && queue->n > 0) {
        batch_make(queue);
    }
    if (queue->batch) {
        batch_send(queue);
    }
}

static void queue_add(struct queue *queue, char *item)
{
    size_t len = item ? strlen(item) : 0;

    if (!item || queue->n >= OTLP_QUEUE_MAX ||
        queue->bytes + len + queue->n > OTLP_QUEUE_BYTES_MAX) {
        queue->dropped++;
        free(item);
        return;
    }
    queue->items[(queue->first + queue->n++) % OTLP_QUEUE_MAX] = item;
    queue->bytes += len;
    if (!queue->batch && (queue->n == OTLP_BATCH_MAX || queue->n == 1)) {
        flush_in(queue, queue->n == OTLP_BATCH_MAX ? 0 : OTLP_FLUSH_MS);
    }
}

void otlp_put(struct otlp *otlp, enum otlp_signal signal, json_t *element)
{
    queue_add(&otlp->queues[signal], element ? json_dumps(element, JSON_COMPACT) : NULL);
    json_decref(element);
}

/* ---- spans ---- */

static json_t *attributes_json(const struct trace_span *span)
{
    json_t *list = json_array();

    for (size_t i = 0; i < span->attributes_n && i < TRACE_ATTRIBUTES_MAX; i++) {
        const struct trace_attribute *attribute = &span->attributes[i];

        if (attribute->text && attribute->text[0]) {
            otlp_attribute_text(list, attribute->name, attribute->text);
        } else if (!attribute->text) {
            otlp_attribute_int(list, attribute->name, attribute->number);
        }
    }
    return list;
}

static void set_hex(json_t *span, const char *name, const uint8_t *bytes, size_t n)
{
    char hex[TRACE_ID_HEX];

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    }
    (void)json_object_set_new(span, name, json_string(hex));
}

static json_t *span_json(const struct trace_span *span)
{
    static const uint8_t none[TRACE_SPAN_BYTES];
    int64_t wall_us = clock_wall_us(), mono_us = clock_mono_us();
    json_t *out = json_object();

    set_hex(out, "traceId", span->place.trace, TRACE_ID_BYTES);
    set_hex(out, "spanId", span->place.span, TRACE_SPAN_BYTES);
    if (memcmp(span->parent, none, sizeof(none)) != 0) {
        set_hex(out, "parentSpanId", span->parent, TRACE_SPAN_BYTES);
    }
    if (span->state.len > 0 && span->state.len <= OTLP_TEXT_BYTES) {
        (void)json_object_set_new(out, "traceState", json_stringn(span->state.at, span->state.len));
    }
    (void)json_object_set_new(out, "name", json_sentence(span->name));
    (void)json_object_set_new(out, "kind",
                              json_integer(span->is_server ? KIND_SERVER : KIND_INTERNAL));
    (void)json_object_set_new(out, "startTimeUnixNano",
                              otlp_time(wall_us - (mono_us - span->begun_us)));
    (void)json_object_set_new(out, "endTimeUnixNano",
                              otlp_time(wall_us - (mono_us - span->ended_us)));
    (void)json_object_set_new(out, "attributes", attributes_json(span));
    if (span->error) {
        (void)json_object_set_new(
            out, "status",
            json_pack("{s:i, s:o}", "code", STATUS_ERROR, "message", json_sentence(span->error)));
    }
    return out;
}

static void on_span(void *ctx, const struct trace_span *span)
{
    if (span->place.sampled) {
        otlp_put(ctx, OTLP_TRACES, span_json(span));
    }
}

struct tracer otlp_tracer(struct otlp *otlp)
{
    return (struct tracer){otlp ? on_span : NULL, otlp};
}

void otlp_place(const struct otlp *otlp, struct str traceparent, struct trace_place *out,
                bool *traced, uint8_t parent[TRACE_SPAN_BYTES])
{
    *traced = traceparent.at && trace_parse(traceparent, out);
    if (*traced) {
        memcpy(parent, out->span, TRACE_SPAN_BYTES);
        trace_enter(out);
    } else {
        trace_begin(out, otlp ? otlp->options.sample : 0);
    }
}

/* ---- the whole ---- */

int otlp_sample_parse(const char *text, double *out, struct err *err)
{
    char *end = NULL;
    double ratio = strtod(text, &end);

    if (end == text || *end != '\0' || !(ratio >= 0 && ratio <= 1)) {
        return err_set(err, EINVAL, "'%.32s' is not a number from 0 to 1", text);
    }
    *out = ratio;
    return 0;
}

/* "Name=value": the value may be percent-encoded, as in OTEL_EXPORTER_OTLP_HEADERS. */
static int header_add(struct otlp *otlp, struct str pair, struct err *err)
{
    size_t equals = str_find(pair, '=');
    struct str name = str_trim((struct str){pair.at, equals});
    scoped_buf(value, HEADER_BYTES);
    char *line = NULL;

    if (equals == pair.len || name.len == 0 || otlp->headers_n == OTLP_HEADERS_MAX ||
        percent_decode(&value, str_trim(str_skip(pair, equals + 1)), false) < 0 ||
        memchr(buf_at(&value), '\n', buf_len(&value)) ||
        memchr(buf_at(&value), '\r', buf_len(&value))) {
        return err_set(err, EINVAL,
                       "otlp_headers is not a list of at most %d pairs Name=value, separated by "
                       "commas",
                       OTLP_HEADERS_MAX);
    }
    if (asprintf(&line, "%.*s: %.*s", (int)name.len, name.at, (int)buf_len(&value),
                 buf_at(&value)) < 0) {
        abort();
    }
    otlp->headers[otlp->headers_n++] = line;
    return 0;
}

static int headers_parse(struct otlp *otlp, const char *text, struct err *err)
{
    struct str rest = str_of(text), pair;
    int r = 0;

    while (text[0] && r == 0 && str_split(&rest, ',', &pair)) {
        r = str_trim(pair).len > 0 ? header_add(otlp, pair, err) : 0;
    }
    return r;
}

static char *spans_head(const struct otlp *otlp)
{
    json_t *resource = otlp_resource(otlp);
    char *text = json_dumps(resource, JSON_COMPACT), *head = NULL;

    if (!text || asprintf(&head,
                          "{\"resourceSpans\":[{\"resource\":%s,\"scopeSpans\":[{\"scope\":"
                          "{\"name\":\"atoll\"},\"spans\":[",
                          text) < 0) {
        abort();
    }
    free(text);
    json_decref(resource);
    return head;
}

static void queues_init(struct otlp *otlp)
{
    const char *endpoint = otlp->options.endpoint;
    size_t len = strlen(endpoint);

    while (len > 0 && endpoint[len - 1] == '/') {
        len--;
    }
    for (size_t i = 0; i < OTLP_SIGNALS; i++) {
        struct queue *queue = &otlp->queues[i];

        queue->otlp = otlp;
        queue->name = signals[i];
        queue->items = xcalloc(OTLP_QUEUE_MAX, sizeof(char *));
        queue->timer.data = queue;
        (void)uv_timer_init(otlp->options.loop, &queue->timer);
        uv_unref((uv_handle_t *)&queue->timer);
        (void)snprintf(queue->url, sizeof(queue->url), "%.*s/v1/%s", (int)len, endpoint,
                       signals[i]);
    }
    otlp->queues[OTLP_TRACES].head = spans_head(otlp);
    otlp->queues[OTLP_TRACES].tail = xstrdup("]}]}]}");
    otlp->queues[OTLP_METRICS].head = xstrdup("{\"resourceMetrics\":[");
    otlp->queues[OTLP_METRICS].tail = xstrdup("]}");
    otlp->queues[OTLP_LOGS].head = xstrdup("{\"resourceLogs\":[");
    otlp->queues[OTLP_LOGS].tail = xstrdup("]}");
}

static void otlp_destroy(struct otlp *otlp)
{
    for (size_t i = 0; i < otlp->headers_n; i++) {
        explicit_bzero(otlp->headers[i], strlen(otlp->headers[i]));
        free(otlp->headers[i]);
    }
    free(otlp->version);
    free(otlp->instance);
    free(otlp);
}

int otlp_new(const struct otlp_options *options, struct otlp **out, struct err *err)
{
    struct otlp *otlp = xnew(struct otlp);
    int r = post_check_url(options->endpoint, true, err);

    otlp->options = *options;
    otlp->version = xstrdup(options->version);
    otlp->instance = xstrdup(options->instance);
    if (r < 0) {
        (void)err_wrap(err, "otlp_endpoint");
    } else {
        r = headers_parse(otlp, options->headers, err);
    }
    if (r < 0) {
        otlp_destroy(otlp);
        return r;
    }
    queues_init(otlp);
    otlp->poster = poster_new(options->loop, true);
    *out = otlp;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct queue *queue = handle->data;
    struct otlp *otlp = queue->otlp;

    while (queue->n > 0) {
        free(item_take(queue));
    }
    free(queue->items);
    free(queue->batch);
    free(queue->head);
    free(queue->tail);
    if (--otlp->timers == 0) {
        otlp_destroy(otlp);
    }
}

void otlp_free(struct otlp *otlp)
{
    if (!otlp) {
        return;
    }
    poster_free(otlp->poster);
    otlp->timers = OTLP_SIGNALS;
    for (size_t i = 0; i < OTLP_SIGNALS; i++) {
        uv_close((uv_handle_t *)&otlp->queues[i].timer, on_timer_closed);
    }
}

void otlp_figures(const struct otlp *otlp, struct otlp_figures out[OTLP_SIGNALS])
{
    for (size_t i = 0; i < OTLP_SIGNALS; i++) {
        const struct queue *queue = otlp ? &otlp->queues[i] : NULL;

        out[i] = (struct otlp_figures){.signal = signals[i]};
        if (!queue) {
            continue;
        }
        out[i] = (struct otlp_figures){queue->name, queue->sent, queue->dropped,
                                       queue->posts_failed, queue->n + queue->batch_n};
    }
}
