/* process_stream.c - the readers of a process: calls of Start and Connect under way.
 *
 * After a pause the daemon may bring back the readers that there were (wire/rejoin.h). They go on
 * together: output waits until all are there, so that none misses a byte. A client that connects by
 * itself wants the output from the pause on as well. So what the others have been given since is
 * kept for it, for as long as output would have waited for a reader.
 */
#include <stdlib.h>
#include <utlist.h>

#include "inside/agent/call.h"
#include "inside/agent/process.h"
#include "lib/base/alloc.h"
#include "wire/rejoin.h"

struct reader {
    struct process *process; /* NULL once detached */
    struct rpc_call *call;
    bool is_start;
    size_t skip_bytes; /* of the ring's content: output from before, which it does not want */
    uv_timer_t keepalive;
    uv_timer_t deadline;
    unsigned handles;
    struct reader *prev, *next;
};

static void reader_send(struct reader *reader, Process__ProcessEvent *event)
{
    if (reader->is_start) {
        Process__StartResponse response;
        process__start_response__init(&response);
        response.event = event;
        rpc_send(reader->call, &response.base);
    } else {
        Process__ConnectResponse response;
        process__connect_response__init(&response);
        response.event = event;
        rpc_send(reader->call, &response.base);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct reader *reader = handle->data;

    if (--reader->handles == 0) {
        free(reader);
    }
}

static void reader_detach(struct reader *reader)
{
    DL_DELETE(reader->process->readers, reader);
    reader->process = NULL;
    uv_close((uv_handle_t *)&reader->keepalive, on_timer_closed);
    uv_close((uv_handle_t *)&reader->deadline, on_timer_closed);
}

static void send_start(struct reader *reader)
{
    Process__ProcessEvent__StartEvent start;
    Process__ProcessEvent event;

    process__process_event__start_event__init(&start);
    process__process_event__init(&event);
    start.has_pid = 1;
    start.pid = (uint32_t)reader->process->pid;
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_START;
    event.start = &start;
    reader_send(reader, &event);
}

static void data_fill(Process__ProcessEvent__DataEvent *data, enum output_kind kind,
                      struct str piece)
{
    ProtobufCBinaryData bytes = {piece.len, (uint8_t *)(uintptr_t)piece.at}; /* only read */

    switch (kind) {
    case OUTPUT_STDOUT:
        data->output_case = PROCESS__PROCESS_EVENT__DATA_EVENT__OUTPUT_STDOUT;
        data->stdout = bytes;
        break;
    case OUTPUT_STDERR:
        data->output_case = PROCESS__PROCESS_EVENT__DATA_EVENT__OUTPUT_STDERR;
        data->stderr = bytes;
        break;
    case OUTPUT_PTY:
        data->output_case = PROCESS__PROCESS_EVENT__DATA_EVENT__OUTPUT_PTY;
        data->pty = bytes;
        break;
    }
}

bool readers_ready(const struct process *p)
{
    const struct reader *reader;

    if ((p->table->held || p->awaits) && p->readers) {
        return false;
    }
    DL_FOREACH (p->readers, reader) {
        if (rpc_writable(reader->call) == 0) {
            return false;
        }
    }
    return true;
}

void readers_data(struct process *p, enum output_kind kind, struct str piece, bool from_ring)
{
    Process__ProcessEvent__DataEvent data;
    Process__ProcessEvent event;
    struct reader *reader;

    process__process_event__data_event__init(&data);
    process__process_event__init(&event);
    data_fill(&data, kind, piece);
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_DATA;
    event.data = &data;
    if (p->keeps_again) {
        ring_push(&p->again, (int)kind, piece,
                  kind == OUTPUT_PTY ? PROCESS_PTY_CHUNK : PROCESS_PIPE_CHUNK);
    }
    DL_FOREACH (p->readers, reader) {
        if (from_ring && reader->skip_bytes >= piece.len) {
            reader->skip_bytes -= piece.len;
            continue;
        }
        reader_send(reader, &event);
        (void)uv_timer_again(&reader->keepalive);
    }
}

void readers_end(struct process *p)
{
    Process__ProcessEvent__EndEvent end;
    Process__ProcessEvent event;
    struct reader *reader, *next;

    process__process_event__end_event__init(&end);
    process__process_event__init(&event);
    end.has_exit_code = end.has_exited = 1;
    end.exit_code = p->end.exit_code;
    end.exited = p->end.exited;
    end.status = p->end.status;
    end.error = p->end.error[0] ? p->end.error : NULL;
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_END;
    event.end = &end;
    DL_FOREACH_SAFE (p->readers, reader, next) {
        reader_send(reader, &event);
        p->told = true;
        rpc_finish(reader->call);
        reader_detach(reader);
    }
}

static void on_keepalive(uv_timer_t *timer)
{
    struct reader *reader = timer->data;
    Process__ProcessEvent__KeepAlive keepalive;
    Process__ProcessEvent event;

    if (rpc_writable(reader->call) == 0) {
        return; /* bytes are on their way: the client hears enough */
    }
    process__process_event__keep_alive__init(&keepalive);
    process__process_event__init(&event);
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_KEEPALIVE;
    event.keepalive = &keepalive;
    reader_send(reader, &event);
}

static void on_deadline(uv_timer_t *timer)
{
    struct reader *reader = timer->data;
    struct process *p = reader->process;

    rpc_fail(reader->call, RPC_DEADLINE_EXCEEDED, "the timeout of %lld ms has passed",
             (long long)rpc_timeout_ms(reader->call));
    reader_detach(reader);
    process_pump(p);
}

static void on_credit(void *ctx)
{
    struct reader *reader = ctx;

    process_pump(reader->process);
}

static void on_gone(void *ctx)
{
    struct reader *reader = ctx;
    struct process *p = reader->process;

    reader_detach(reader);
    process_pump(p);
}

static const struct rpc_watch reader_watch = {.credit = on_credit, .gone = on_gone};

static void timers_start(struct reader *reader, uv_loop_t *loop)
{
    uint64_t interval_ms = call_keepalive_ms(reader->call);
    int64_t timeout_ms = rpc_timeout_ms(reader->call);

    (void)uv_timer_init(loop, &reader->keepalive);
    (void)uv_timer_init(loop, &reader->deadline);
    reader->keepalive.data = reader->deadline.data = reader;
    reader->handles = 2;
    (void)uv_timer_start(&reader->keepalive, on_keepalive, interval_ms, interval_ms);
    if (timeout_ms > 0) {
        (void)uv_timer_start(&reader->deadline, on_deadline, (uint64_t)timeout_ms, 0);
    }
}

/* ---- after a pause ---- */

void readers_forget(struct process *p)
{
    p->rejoined = 0;
    p->keeps_again = false;
    ring_fini(&p->again);
}

/* How many readers of the process the daemon brings back with this one; 0: it brings none. */
static uint32_t rejoins(const struct process *p, const struct rpc_call *call)
{
    struct str text = http_header_get(rpc_request(call), REJOIN_HEADER);
    uint32_t n = 0;

    if (!uv_is_active((const uv_handle_t *)&p->table->patience)) {
        return 0; /* the pause is long over */
    }
    for (size_t i = 0; i < text.len && n <= REJOIN_MAX; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return 0;
        }
        n = n * 10 + (uint32_t)(text.at[i] - '0');
    }
    return n <= REJOIN_MAX ? n : 0;
}

/* The limit is that of the ring, and the memory is given back within PROCESS_AWAIT_MS. */
static void reader_rejoined(struct process *p, uint32_t together)
{
    if (p->rejoined == 0) {
        ring_fini(&p->again);
        ring_init(&p->again, p->table->agent->output_kept_bytes);
        p->keeps_again = p->table->agent->output_kept_bytes > 0;
    }
    p->rejoined++;
    p->awaits = p->awaits && p->rejoined < together;
}

/* Gives the reader what the others have had since the pause, once for all readers. */
static void send_again(struct reader *reader)
{
    struct process *p = reader->process;
    Process__ProcessEvent__DataEvent data;
    Process__ProcessEvent event;
    struct str piece;
    size_t at = 0;
    int kind;

    while (ring_next(&p->again, &at, &kind, &piece)) {
        process__process_event__data_event__init(&data);
        process__process_event__init(&event);
        data_fill(&data, (enum output_kind)kind, piece);
        event.event_case = PROCESS__PROCESS_EVENT__EVENT_DATA;
        event.data = &data;
        reader_send(reader, &event);
    }
    p->keeps_again = false;
    ring_fini(&p->again);
}

void reader_decline(struct process *p, struct rpc_call *call)
{
    struct reader reader = {.process = p, .call = call, .is_start = true};

    send_start(&reader);
    rpc_finish(call);
    process_pump(p);
}

void reader_attach(struct process *p, struct rpc_call *call, bool is_start, bool replay)
{
    struct reader *reader = xnew(struct reader);

    reader->process = p;
    reader->call = call;
    reader->is_start = is_start;
    reader->skip_bytes = replay ? 0 : p->ring.bytes;
    timers_start(reader, p->table->agent->loop);
    rpc_watch(call, &reader_watch, reader);
    DL_APPEND(p->readers, reader);
    uint32_t together = is_start ? 0 : rejoins(p, call);
    if (together > 0) {
        reader_rejoined(p, together);
    } else if (p->rejoined == 0) {
        p->awaits = false;
    }
    send_start(reader);
    if (together == 0 && p->keeps_again && replay) {
        send_again(reader);
    }
    process_pump(p);
}
