#include "serve/daemon/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/http/note.h"
#include "wire/channel.h"

enum { NAME_BYTES = ACCESS_LOG_TEXT_BYTES + 32, STATUS_FAILED = 500 };

/* A request under way. */
struct observed {
    struct http_note note;
    struct observer *observer;
    int64_t begun_ms, begun_us;
};

/* ---- the span of a request ---- */

/* "POST /sandboxes", or the agent's procedure: never a path that has ids in it. */
static void span_name(const struct observed *observed, const struct http_request *req,
                      const char *path, char out[NAME_BYTES])
{
    bool is_call = observed->note.port == AGENT_PORT && strchr(path, '.');

    if (observed->note.route) {
        (void)snprintf(out, NAME_BYTES, "%.*s %s", (int)req->method.len, req->method.at,
                       observed->note.route);
    } else if (is_call) {
        (void)snprintf(out, NAME_BYTES, "%.*s", ACCESS_LOG_TEXT_BYTES, path + 1);
    } else {
        (void)snprintf(out, NAME_BYTES, "%.*s%s", (int)req->method.len, req->method.at,
                       observed->note.port > 0 ? " sandbox" : "");
    }
}

struct texts {
    char path[ACCESS_LOG_TEXT_BYTES], method[32], agent[ACCESS_LOG_TEXT_BYTES], peer[64];
};

static void copy_cut(char *out, size_t size, struct str text)
{
    text.len = text.len < size ? text.len : size - 1;
    (void)str_copy(out, size, text);
}

static size_t attributes_fill(const struct observed *observed, const struct texts *texts,
                              const struct http_carried *carried,
                              struct trace_attribute out[TRACE_ATTRIBUTES_MAX])
{
    const struct http_note *note = &observed->note;
    const struct trace_attribute all[] = {
        {"http.request.method", texts->method, 0},
        {"url.path", texts->path, 0},
        {"http.route", note->route ? note->route : "", 0},
        {"http.response.status_code", NULL, carried->status},
        {"http.request.body.size", NULL, (int64_t)carried->bytes_in},
        {"http.response.body.size", NULL, (int64_t)carried->bytes_out},
        {"client.address", texts->peer, 0},
        {"user_agent.original", texts->agent, 0},
        {"atoll.team.id", note->team, 0},
        {"atoll.key.id", note->key, 0},
        {"sandbox.id", note->sandbox, 0},
        {"atoll.sandbox.port", NULL, note->port},
    };
    _Static_assert(countof(all) <= TRACE_ATTRIBUTES_MAX, "there is room");
    size_t n = countof(all) - (note->port == 0);

    memcpy(out, all, n * sizeof(all[0]));
    return n;
}

static void span_report(const struct observed *observed, const struct http_request *req,
                        const struct http_carried *carried)
{
    const struct tracer tracer = observer_tracer(observed->observer);
    struct trace_attribute attributes[TRACE_ATTRIBUTES_MAX];
    struct texts texts = {.path = ""};
    char name[NAME_BYTES];
    bool failed = carried->status >= STATUS_FAILED || carried->status == 0;
    struct trace_span span = {.place = observed->note.trace,
                              .name = name,
                              .is_server = true,
                              .begun_us = observed->begun_us,
                              .ended_us = clock_mono_us(),
                              .attributes = attributes};

    if (!trace_wanted(&tracer, &observed->note.trace)) {
        return;
    }
    access_log_path(req->path, texts.path);
    copy_cut(texts.method, sizeof(texts.method), req->method);
    copy_cut(texts.agent, sizeof(texts.agent), http_header_get(req, "user-agent"));
    copy_cut(texts.peer, sizeof(texts.peer), req->peer);
    span_name(observed, req, texts.path, name);
    span.attributes_n = attributes_fill(observed, &texts, carried, attributes);
    if (observed->note.traced) {
        memcpy(span.parent, observed->note.parent, sizeof(span.parent));
        span.state = http_header_get(req, "tracestate");
    }
    span.error = !failed ? NULL : carried->status ? http_reason(carried->status) : "no answer";
    tracer.span(tracer.ctx, &span);
}

/* ---- a request ---- */

static void on_ended(struct http_note *note, const struct http_request *req,
                     const struct http_carried *carried)
{
    struct observed *observed = container_of(note, struct observed, note);
    const struct access_entry entry = {
        .req = req,
        .note = note,
        .carried = carried,
        .begun_ms = observed->begun_ms,
        .took_us = clock_mono_us() - observed->begun_us,
    };

    if (observed->observer->log) {
        access_log_put(observed->observer->log, &entry);
    }
    span_report(observed, req, carried);
    free(observed);
}

void observer_request(struct observer *observer, struct http_exchange *ex)
{
    struct str parent = http_header_get(http_request(ex), "traceparent");

    if (!observer->log && !observer->otlp) {
        return;
    }
    struct observed *observed = xnew(struct observed);
    observed->observer = observer;
    observed->begun_ms = clock_wall_ms();
    observed->begun_us = clock_mono_us();
    if (observer->otlp || parent.at) {
        otlp_place(observer->otlp, parent, &observed->note.trace, &observed->note.traced,
                   observed->note.parent);
    }
    http_watch(ex, &observed->note, on_ended);
}

struct tracer observer_tracer(const struct observer *observer)
{
    return otlp_tracer(observer->otlp);
}

/* ---- lines of sandboxes ---- */

static void on_attached(void *ctx, struct sandbox *sb)
{
    struct observer *observer = ctx;

    observer->sink.attached(observer->sink.ctx, sb);
}

static void on_line(void *ctx, struct sandbox *sb, const struct sandbox_log *log)
{
    struct observer *observer = ctx;

    otlp_log_line(observer->otlp, sb, log);
    observer->sink.line(observer->sink.ctx, sb, log);
}

struct sandbox_log_sink observer_sink(struct observer *observer, struct sandbox_log_sink sink)
{
    if (!observer->otlp || !observer->logs_wanted) {
        return sink;
    }
    observer->sink = sink;
    return (struct sandbox_log_sink){.attached = on_attached, .line = on_line, .ctx = observer};
}

/* ---- figures ---- */

void observer_show(const struct observer *observer, struct prometheus *page)
{
    struct otlp_figures figures[OTLP_SIGNALS];
    static const char sent[] = "atoll_otlp_sent_total", dropped[] = "atoll_otlp_dropped_total";
    char labels[PROMETHEUS_LABELS_BYTES];

    prometheus_one(page, "atoll_access_log_lines_total", "counter", "Lines of the access log.",
                   (double)access_log_lines(observer->log));
    prometheus_one(page, "atoll_access_log_dropped_total", "counter",
                   "Lines of the access log that there was no room for.",
                   (double)access_log_dropped(observer->log));
    otlp_figures(observer->otlp, figures);
    prometheus_family(page, sent, "counter", "Spans, metrics and lines that a collector took.");
    for (size_t i = 0; i < OTLP_SIGNALS; i++) {
        prometheus_label(labels, "signal", figures[i].signal);
        prometheus_value(page, sent, labels, (double)figures[i].sent);
    }
    prometheus_family(page, dropped, "counter", "Those that no collector took.");
    for (size_t i = 0; i < OTLP_SIGNALS; i++) {
        prometheus_label(labels, "signal", figures[i].signal);
        prometheus_value(page, dropped, labels, (double)figures[i].dropped);
    }
}

/* ---- the whole ---- */

static int otlp_open(struct observer *observer, uv_loop_t *loop, const struct config *config,
                     struct err *err)
{
    struct otlp_options options = {
        .loop = loop,
        .endpoint = config->otlp_endpoint,
        .headers = config->otlp_headers,
        .version = ATOLL_VERSION,
        .instance = "",
    };
    int r = otlp_sample_parse(config->otlp_sample, &options.sample, err);

    if (r < 0) {
        return err_wrap(err, "otlp_sample");
    }
    return config->otlp_endpoint[0] ? otlp_new(&options, &observer->otlp, err) : 0;
}

int observer_open(struct observer *observer, uv_loop_t *loop, const struct config *config,
                  struct err *err)
{
    int r = config->access_log[0] ? access_log_open(config->access_log, &observer->log, err) : 0;

    observer->loop = loop;
    observer->metrics_wanted = config->otlp_metrics;
    observer->logs_wanted = config->otlp_logs;
    return r == 0 ? otlp_open(observer, loop, config, err) : r;
}

void observer_export(struct observer *observer, struct sandboxes *sandboxes,
                     struct metrics *metrics,
                     void (*figures)(void *ctx, const char *team_id, struct prometheus *page),
                     void *ctx)
{
    const struct otlp_metrics_options options = {
        .loop = observer->loop,
        .otlp = observer->otlp,
        .sandboxes = sandboxes,
        .metrics = metrics,
        .figures = figures,
        .figures_ctx = ctx,
    };

    if (observer->otlp && observer->metrics_wanted) {
        observer->metrics = otlp_metrics_new(&options);
    }
}

void observer_stop(struct observer *observer)
{
    otlp_metrics_free(move_ptr(&observer->metrics));
}

void observer_close(struct observer *observer)
{
    otlp_free(move_ptr(&observer->otlp));
    access_log_close(move_ptr(&observer->log));
}
