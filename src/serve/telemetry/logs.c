/* There is a stream for each sandbox that runs or is read. It does one thing at a time on the
 * thread pool: it writes pending lines, otherwise it does the oldest read. So a read sees all that
 * came before it, and no file has two users at once. Lines are gathered for a moment, so that those
 * of a short command are one write, unless somebody waits for them. */
#include "serve/telemetry/logs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/table.h"

enum {
    GATHER_MS = 1000,
    GATHERED_MAX = SANDBOX_LOG_WINDOW / 2, /* lines: the agent may send on meanwhile */
    PENDING_BYTES_MAX = (SANDBOX_LOG_WINDOW + 2) * LOGFILE_RECORD_BYTES_MAX + LOGS_OWN_BYTES,
};

enum job { JOB_NONE, JOB_LOOK, JOB_WRITE, JOB_READ };

struct read {
    struct read *prev, *next;
    struct logfile file; /* of the team that asks: a file of another's is not found */
    struct logfile_query query;
    logs_render *render;
    logs_read_done *done;
    void *ctx;
};

struct log_stream {
    struct log_stream *prev, *next; /* in logs->gathering, while lines are gathered */
    struct logs *logs;
    UT_hash_handle hh;
    struct logfile file;
    struct sandbox_watch watch; /* set while the sandbox runs */
    struct logs_watch *watches;
    struct read *reads;

    bool looked;     /* the two below are known */
    uint32_t seq;    /* of the last line that came */
    int64_t wall_ms; /* its time */
    struct buf pending;
    uint32_t pending_n; /* lines in it */
    size_t own_bytes;   /* of it: what logs_put() brought */
    bool gathering;

    /* The pool's input while `job` is not JOB_NONE. */
    uv_work_t work;
    enum job job;
    struct buf writing;
    struct read *reading;
    struct buf answer;
    struct logfile_position end;
    uint32_t found_seq, writing_seq;
    int64_t found_ms;
    int result;
    struct err err;
};

struct logs {
    uv_loop_t *loop;
    int dir_fd;
    struct log_stream *streams;
    struct log_stream *gathering;
    uv_timer_t timer;
    uv_timer_t gathered;
    uv_work_t sweep;
    bool sweeping;
    uint32_t timers_n; /* not closed yet */
    bool closed;
    struct logs_figures figures;
};

static void pump(struct log_stream *stream);

/* ---- streams ---- */

/* The team of a stream is unknown until its sandbox is known: a reader names its own team. */
static struct log_stream *stream_of(struct logs *logs, struct str id)
{
    struct log_stream *stream = NULL;

    HASH_FIND(hh, logs->streams, id.at, id.len, stream);
    if (stream) {
        return stream;
    }
    stream = xnew(struct log_stream);
    stream->logs = logs;
    stream->file.dir_fd = logs->dir_fd;
    if (!str_copy(stream->file.id, sizeof(stream->file.id), id)) {
        free(stream);
        return NULL;
    }
    buf_init(&stream->pending, PENDING_BYTES_MAX);
    buf_init(&stream->writing, PENDING_BYTES_MAX);
    buf_init(&stream->answer, LOGS_ANSWER_BYTES_MAX);
    HASH_ADD_KEYPTR(hh, logs->streams, stream->file.id, strlen(stream->file.id), stream);
    return stream;
}

static void gather_end(struct log_stream *stream)
{
    if (stream->gathering) {
        DL_DELETE(stream->logs->gathering, stream);
        stream->gathering = false;
    }
}

static void stream_free(struct log_stream *stream)
{
    gather_end(stream);
    HASH_DEL(stream->logs->streams, stream);
    sandbox_watch_unset(&stream->watch);
    buf_fini(&stream->pending);
    buf_fini(&stream->writing);
    buf_fini(&stream->answer);
    free(stream);
}

static void watches_tell(struct log_stream *stream, bool ended)
{
    struct logs_watch *watch = NULL, *next = NULL;

    DL_FOREACH_SAFE (stream->watches, watch, next) {
        watch->ended = watch->ended || ended;
        watch->more(watch);
    }
}

/* ---- the pool ---- */

static void read_run(struct log_stream *stream)
{
    struct logfile_page page;

    stream->result =
        logfile_read(&stream->reading->file, &stream->reading->query, &page, &stream->err);
    if (stream->result < 0) {
        return;
    }
    stream->end = page.end;
    if (stream->reading->render(&page, &stream->answer) < 0) {
        stream->result = err_set(&stream->err, EMSGSIZE, "the lines do not fit one answer");
    }
    logfile_page_fini(&page);
}

static void job_run(uv_work_t *work)
{
    struct log_stream *stream = container_of(work, struct log_stream, work);

    stream->result = 0;
    if (stream->job == JOB_LOOK) {
        logfile_last(&stream->file, &stream->found_seq, &stream->found_ms);
    } else if (stream->job == JOB_WRITE) {
        stream->result = logfile_append(&stream->file, buf_str(&stream->writing), &stream->err);
    } else {
        read_run(stream);
    }
}

/* ---- back on the loop ---- */

/* The agent may forget what is on record, and send as many more. */
static void credit_give(struct log_stream *stream, uint32_t seq)
{
    if (stream->watch.sandbox && stream->looked) {
        sandbox_log_credit(stream->watch.sandbox, seq);
    }
}

/* Gives credit for all that came, when none of it is on its way to the disk. */
static void credit_settle(struct log_stream *stream)
{
    if (buf_len(&stream->pending) == 0 && stream->job != JOB_WRITE) {
        credit_give(stream, stream->seq);
    }
}

static void look_done(struct log_stream *stream)
{
    stream->looked = true;
    stream->seq = stream->found_seq;
    stream->wall_ms = stream->found_ms;
    credit_settle(stream);
}

/* Lines that cannot be written are lost, and the agent goes on: a full disk must not stop a
 * sandbox. */
static void write_done(struct log_stream *stream)
{
    if (stream->result < 0) {
        log_warn("%s", stream->err.msg);
        stream->logs->figures.lost++;
    }
    buf_fini(&stream->writing); /* an idle sandbox holds no memory here */
    buf_init(&stream->writing, PENDING_BYTES_MAX);
    credit_give(stream, buf_len(&stream->pending) > 0 ? stream->writing_seq : stream->seq);
    watches_tell(stream, false);
}

static void read_done(struct log_stream *stream)
{
    struct read *read = move_ptr(&stream->reading);

    read->done(read->ctx, stream->result, &stream->err, buf_str(&stream->answer), stream->end);
    buf_fini(&stream->answer);
    buf_init(&stream->answer, LOGS_ANSWER_BYTES_MAX);
    free(read);
}

static void job_done(uv_work_t *work, int status)
{
    struct log_stream *stream = container_of(work, struct log_stream, work);
    enum job job = stream->job;

    assert(status == 0); /* nobody cancels */
    stream->job = JOB_NONE;
    if (job == JOB_LOOK) {
        look_done(stream);
    } else if (job == JOB_WRITE) {
        write_done(stream);
    } else {
        read_done(stream);
    }
    pump(stream);
}

static void job_start(struct log_stream *stream, enum job job)
{
    stream->job = job;
    if (uv_queue_work(stream->logs->loop, &stream->work, job_run, job_done) < 0) {
        abort(); /* only without a callback */
    }
}

static void write_start(struct log_stream *stream)
{
    struct buf empty = stream->writing;

    gather_end(stream);
    stream->writing = stream->pending;
    stream->pending = empty;
    stream->pending_n = 0;
    stream->own_bytes = 0;
    stream->writing_seq = stream->seq;
    job_start(stream, JOB_WRITE);
}

/* More lines may come soon, and nobody waits for those that are here. */
static bool may_gather(const struct log_stream *stream)
{
    return stream->gathering && stream->watch.sandbox && !stream->reads && !stream->watches &&
           stream->pending_n < GATHERED_MAX && !stream->logs->closed;
}

/* Starts the next job. May free the stream. */
static void pump(struct log_stream *stream)
{
    if (stream->job != JOB_NONE) {
        return;
    }
    if (!stream->looked && stream->watch.sandbox) {
        job_start(stream, JOB_LOOK);
    } else if (buf_len(&stream->pending) > 0) {
        if (!may_gather(stream)) {
            write_start(stream);
        }
    } else if (stream->reads) {
        stream->reading = stream->reads;
        DL_DELETE(stream->reads, stream->reading);
        job_start(stream, JOB_READ);
    } else if (!stream->watch.sandbox && !stream->watches) {
        stream_free(stream);
    }
}

static void on_gathered(uv_timer_t *timer)
{
    struct logs *logs = timer->data;
    struct log_stream *stream = NULL, *next = NULL;

    DL_FOREACH_SAFE (logs->gathering, stream, next) {
        gather_end(stream);
        pump(stream);
    }
}

/* A line is pending. */
static void gather(struct log_stream *stream)
{
    struct logs *logs = stream->logs;

    if (stream->pending_n++ == 0) {
        stream->gathering = true;
        DL_APPEND(logs->gathering, stream);
    }
    if (!uv_is_active((uv_handle_t *)&logs->gathered)) {
        (void)uv_timer_start(&logs->gathered, on_gathered, GATHER_MS, 0);
    }
    pump(stream);
}

/* ---- the sink ---- */

static void on_sandbox_gone(struct sandbox_watch *watch)
{
    struct log_stream *stream = container_of(watch, struct log_stream, watch);

    watches_tell(stream, true);
    pump(stream);
}

/* A new sandbox has no lines on record, and they are asked for at once: one that is killed in its
 * first moments has told all by then. */
static void on_attached(void *ctx, struct sandbox *sb)
{
    struct sandbox_info info = sandbox_info(sb);
    struct log_stream *stream = stream_of(ctx, str_of(info.id));

    if (!stream || !str_copy(stream->file.team, sizeof(stream->file.team), str_of(info.team_id))) {
        return;
    }
    if (!stream->watch.sandbox) {
        stream->watch.gone = on_sandbox_gone;
        sandbox_watch_set(&stream->watch, sb);
        stream->looked = stream->looked || info.state == SANDBOX_STARTING;
    }
    credit_settle(stream);
    pump(stream);
}

/* Strict, because others will parse what is kept: one object, on one line. */
static bool line_ok(struct str line)
{
    for (size_t i = 0; i < line.len; i++) {
        if ((unsigned char)line.at[i] < ' ') {
            return false;
        }
    }
    json_t *json = json_loadb(line.at, line.len, 0, NULL);
    bool ok = json_is_object(json);

    json_decref(json);
    return ok;
}

/* Times of an agent are believed as far as they keep the order. */
static int64_t time_of(const struct log_stream *stream, int64_t claimed_ms)
{
    int64_t now_ms = clock_wall_ms();
    int64_t at_ms = claimed_ms < now_ms ? claimed_ms : now_ms;

    return at_ms > stream->wall_ms ? at_ms : stream->wall_ms;
}

static void on_line(void *ctx, struct sandbox *sb, const struct sandbox_log *log)
{
    struct logs *logs = ctx;
    struct log_stream *stream = NULL;
    const char *id = sandbox_info(sb).id;

    HASH_FIND_STR(logs->streams, id, stream);
    if (!stream || !stream->looked || log->seq <= stream->seq) {
        return; /* it came twice: the channel broke before the agent knew that it is on record */
    }
    logs->figures.lost += log->lost;
    stream->seq = log->seq;
    stream->wall_ms = time_of(stream, log->wall_ms);
    if (!line_ok(log->line)) {
        logs->figures.refused++;
        credit_settle(stream); /* or the good ones after many bad ones would not come */
    } else if (logfile_record(&stream->pending, stream->wall_ms, log->seq, log->level, log->line) <
               0) {
        logs->figures.lost++;
    } else {
        logs->figures.lines++;
        gather(stream);
    }
}

/* It has the number of the agent's last line, so that the agent's next one is still the next. */
void logs_put(struct logs *logs, const char *sandbox_id, enum log_level level, struct str line)
{
    struct log_stream *stream = NULL;

    HASH_FIND_STR(logs->streams, sandbox_id, stream);
    size_t before = stream ? buf_len(&stream->pending) : 0;
    if (!stream || !stream->looked || stream->own_bytes + line.len > LOGS_OWN_BYTES) {
        logs->figures.lost++;
        return;
    }
    stream->wall_ms = time_of(stream, clock_wall_ms());
    if (!line_ok(line) ||
        logfile_record(&stream->pending, stream->wall_ms, stream->seq, level, line) < 0) {
        logs->figures.lost++;
        return;
    }
    stream->own_bytes += buf_len(&stream->pending) - before;
    logs->figures.lines++;
    gather(stream);
}

struct sandbox_log_sink logs_sink(struct logs *logs)
{
    return (struct sandbox_log_sink){.attached = on_attached, .line = on_line, .ctx = logs};
}

/* ---- readers ---- */

static void refuse_later(struct logs *logs, struct read *read);

void logs_read(struct logs *logs, struct str sandbox_id, const char *team_id,
               const struct logfile_query *query, logs_render *render, logs_read_done *done,
               void *ctx)
{
    struct read *read = xnew(struct read);
    struct log_stream *stream = NULL;

    *read = (struct read){.query = *query, .render = render, .done = done, .ctx = ctx};
    read->file.dir_fd = logs->dir_fd;
    if (sandbox_id.len > 0 && str_copy(read->file.id, sizeof(read->file.id), sandbox_id) &&
        str_copy(read->file.team, sizeof(read->file.team), str_of(team_id))) {
        stream = stream_of(logs, sandbox_id);
    }
    if (!stream) {
        refuse_later(logs, read);
        return;
    }
    DL_APPEND(stream->reads, read);
    pump(stream);
}

/* An id that cannot be one: told from the loop like every answer. */
struct refusal {
    uv_timer_t timer;
    struct read *read;
};

static void on_refusal_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_refusal(uv_timer_t *timer)
{
    struct refusal *refusal = timer->data;
    struct err err;

    (void)err_set(&err, ENOENT, "there is no such log");
    refusal->read->done(refusal->read->ctx, -ENOENT, &err, STR(""), (struct logfile_position){0});
    free(refusal->read);
    uv_close((uv_handle_t *)timer, on_refusal_closed);
}

static void refuse_later(struct logs *logs, struct read *read)
{
    struct refusal *refusal = xnew(struct refusal);

    refusal->read = read;
    (void)uv_timer_init(logs->loop, &refusal->timer);
    refusal->timer.data = refusal;
    (void)uv_timer_start(&refusal->timer, on_refusal, 0, 0);
}

void logs_watch_set(struct logs *logs, struct logs_watch *watch, struct sandbox *sb)
{
    struct log_stream *stream = sb ? stream_of(logs, str_of(sandbox_info(sb).id)) : NULL;

    watch->ended = !stream || !stream->watch.sandbox;
    watch->stream = stream;
    if (stream) {
        DL_APPEND(stream->watches, watch);
        pump(stream);
    }
}

void logs_watch_unset(struct logs_watch *watch)
{
    struct log_stream *stream = move_ptr(&watch->stream);

    if (stream) {
        DL_DELETE(stream->watches, watch);
        pump(stream);
    }
}

struct logs_figures logs_figures(const struct logs *logs)
{
    return logs->figures;
}

/* ---- old files ---- */

static void sweep_run(uv_work_t *work)
{
    struct logs *logs = container_of(work, struct logs, sweep);

    logfile_sweep(logs->dir_fd, clock_wall_ms() - LOGS_KEPT_MS, LOGS_BYTES_MAX);
}

static void sweep_done(uv_work_t *work, int status)
{
    struct logs *logs = container_of(work, struct logs, sweep);

    (void)status;
    logs->sweeping = false;
}

static void on_timer(uv_timer_t *timer)
{
    struct logs *logs = timer->data;

    if (!logs->sweeping) {
        logs->sweeping = uv_queue_work(logs->loop, &logs->sweep, sweep_run, sweep_done) == 0;
    }
}

/* ---- life ---- */

int logs_new(uv_loop_t *loop, const char *path, struct logs **out, struct err *err)
{
    scoped_fd fd = -1;

    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        return err_sys(err, "make %s", path);
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return err_sys(err, "open %s", path);
    }
    struct logs *logs = xnew(struct logs);
    logs->loop = loop;
    logs->dir_fd = move_fd(&fd);
    logs->timers_n = 2;
    if (uv_timer_init(loop, &logs->timer) < 0 || uv_timer_init(loop, &logs->gathered) < 0 ||
        uv_timer_start(&logs->timer, on_timer, 0, LOGS_SWEEP_MS) < 0) {
        abort();
    }
    logs->timer.data = logs->gathered.data = logs;
    *out = logs;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct logs *logs = handle->data;

    logs->timers_n--;
}

static bool is_busy(const struct logs *logs)
{
    for (const struct log_stream *stream = logs->streams; stream; stream = stream->hh.next) {
        if (stream->job != JOB_NONE || buf_len(&stream->pending) > 0 || stream->reads) {
            return true;
        }
    }
    return logs->sweeping || logs->timers_n > 0;
}

void logs_free(struct logs *logs)
{
    if (!logs) {
        return;
    }
    logs->closed = true;
    on_gathered(&logs->gathered);
    uv_close((uv_handle_t *)&logs->gathered, on_timer_closed);
    uv_close((uv_handle_t *)&logs->timer, on_timer_closed);
    while (is_busy(logs)) {
        (void)uv_run(logs->loop, UV_RUN_ONCE);
    }
    while (logs->streams) {
        stream_free(logs->streams);
    }
    (void)close(logs->dir_fd);
    free(logs);
}
