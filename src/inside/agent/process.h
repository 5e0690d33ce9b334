/* process.h - the processes that clients have started, and the readers of their output.
 *
 * Owns:     each process from its start until its end has been reported and kept for late
 *           readers (PROCESS_KEPT_MS); its pipes or terminal; its readers.
 * Blocks:   while a program is being executed (spawn.h), nowhere else.
 * Threads:  the loop's.
 *
 * All output goes through process_pump(): it takes the next piece, first from the ring, then from
 * the pipes, and gives it to all readers at once. It does so only while every reader can take it,
 * so a reader that stops slows the process and nothing is lost. While there is no reader, pieces go
 * to the ring and the oldest are dropped: such a process never stalls.
 *
 * Life:  RUNNING --reaped--> DRAINING --what was in the pipes is read--> ENDED --kept--> freed
 *
 * A descendant may hold the pipes when the process is gone. The output in them at that moment is
 * read, then the end is reported; the pipes stay open and are emptied without a reader, because
 * closing them would kill a server that logs to its standard error.
 */
#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

#include "inside/agent/internal.h"
#include "inside/agent/ring.h"
#include "inside/agent/spawn.h"
#include "lib/base/table.h"
#include "process.pb-c.h"

enum {
    PROCESS_PIPE_CHUNK = 32 * 1024, /* of one record of the ring */
    PROCESS_PTY_CHUNK = 16 * 1024,
    PROCESS_READ_BYTES = 128 * 1024, /* of a pipe, at a time: one message for its readers */
    PROCESS_PIPE_BYTES = 256 * 1024, /* of a pipe that was found full */
    PROCESS_PIPES_GROWN_MAX = 64,    /* the kernel counts pipes of a user: programs need some too */
    PROCESS_KEPT_MS = 30 * 1000,
    PROCESS_AWAIT_MS = 10 * 1000,               /* longer would stall what nobody reads any more */
    PROCESS_INPUT_BYTES_MAX = 32 * 1024 * 1024, /* waiting for one process to read them */
    PROCESS_OUTPUT_KEPT_DEFAULT = 1024 * 1024,
    PROCESS_STATUS_BYTES = 96,
    PROCESS_ERROR_BYTES = 192, /* the status and why */
};

enum process_state { PROCESS_RUNNING, PROCESS_DRAINING, PROCESS_ENDED };
enum output_kind { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_PTY };

struct process;
struct reader;  /* process_stream.c */
struct killing; /* process_kill.c */

struct output {
    uv_poll_t poll;
    struct process *process;
    int fd; /* -1: closed, or never there */
    enum output_kind kind;
    bool polling;
    bool grown;         /* to PROCESS_PIPE_BYTES */
    bool until_closed;  /* DRAINING: a terminal is read until the kernel says it is over */
    size_t drain_bytes; /* DRAINING: what is still to be read */
};

struct input_write; /* process_input.c */

struct input {
    uv_poll_t poll;
    struct process *process;
    int fd; /* -1: closed, or never there */
    bool polling;
    bool close_after; /* the queue is the last there will be */
    struct input_write *queue;
    size_t queued_bytes;
};

struct process_end {
    int32_t exit_code; /* -1: died of a signal */
    bool exited;
    char status[PROCESS_STATUS_BYTES];
    char error[PROCESS_ERROR_BYTES]; /* empty: it went well */
};

struct process {
    struct processes *table;
    enum process_state state;
    pid_t pid;
    char *tag; /* NULL: none */
    Process__ProcessConfig *config;
    bool pty;
    bool killed_by_us; /* its SIGKILL needs no explanation */

    struct output outputs[2];
    struct input input;
    struct ring ring;
    struct reader *readers;
    struct killing *killings;
    bool awaits;       /* a pause took its reader, who will be back: its output waits in the pipe */
    uint32_t rejoined; /* readers that the daemon has brought back since (wire/rejoin.h) */
    bool keeps_again;  /* what they are given is also kept, for the first who connects besides */
    struct ring again;

    int64_t started_ms;       /* by the monotonic clock */
    uint64_t output_bytes[2]; /* of each output, so far */

    int wait_status; /* from DRAINING on */
    bool asking;     /* whether the memory limit killed it: the end waits for the answer */
    struct process_end end;
    bool told; /* a reader has been told of its end */

    uv_timer_t timer; /* RUNNING: the deadline. DRAINING: a terminal's patience. ENDED: keeping. */
    unsigned handles; /* libuv's hold on this memory */
    bool expired;     /* freed when the last handle is closed */

    UT_hash_handle hh;           /* in table->running */
    struct process *prev, *next; /* in table->past */
};

struct processes {
    struct agent *agent;
    struct process *running; /* by pid */
    struct process *past;    /* DRAINING and ENDED, the oldest first: their pids may be others' */
    size_t kept_bytes;       /* in all rings */
    size_t outputs_n;        /* open */
    size_t grown_n;          /* of them with a larger pipe */
    char *chunk;             /* PROCESS_READ_BYTES, read into by one output at a time */
    size_t lingering;        /* past processes whose pipes a descendant still holds */
    uv_signal_t sigchld;
    bool held;           /* readers are given nothing: the jail is about to be saved */
    uv_timer_t patience; /* after a pause: for the readers that there were */
};

must_check int processes_new(struct agent *agent, struct processes **out, struct err *err);

/* Starts it and takes its place in the table. The config is copied. timeout_ms 0: no deadline. */
must_check int process_start(struct processes *table, const struct spawn_plan *plan,
                             const Process__ProcessConfig *config, const char *tag,
                             int64_t timeout_ms, struct process **out, struct err *err);

/* Before the jail is saved: nothing is given to readers until processes_go_on(), so that no byte is
 * under way. `ends` says that the readers will be taken away; what their processes write meanwhile
 * is kept in the pipe, not in the ring, until they are back or PROCESS_AWAIT_MS have passed since
 * the jail goes on. */
void processes_hold(struct processes *table, bool ends);
void processes_go_on(struct processes *table);

/* The running one, or NULL. */
struct process *process_by_pid(struct processes *table, uint32_t pid);
struct process *process_by_tag(struct processes *table, const char *tag);
/* The latest that has gone and is still kept, or NULL. */
struct process *process_past(struct processes *table, const Process__ProcessSelector *selector);

must_check int process_signal(struct process *p, int sig, struct err *err);
must_check int process_resize(struct process *p, uint16_t cols, uint16_t rows, struct err *err);

/* Moves on whatever can be moved: call it when a reader came, went, or can take more. */
void process_pump(struct process *p);

/* Tells how a wait status reads: "exit status 3", "signal: killed". */
void process_end_describe(int wait_status, bool out_of_memory, struct process_end *out);

/* libuv lets go of one of the process's handles. */
void process_handle_closed(struct process *p);

/* ---- process_input.c ---- */

void input_open(struct process *p, int fd);

/* Writes to the process's standard input or terminal. 1: all is written. 0: the rest is queued, and
 * done is called once, with 0 or -errno. -EPIPE: there is no input, or nobody reads it any more.
 * -ENOBUFS: too much is waiting. *handle (when 0) is for input_forget(). */
must_check int input_write(struct process *p, const void *data, size_t len,
                           void (*done)(void *ctx, int error), void *ctx,
                           struct input_write **handle);

/* The caller is gone: the bytes are still written, done is not called. */
void input_forget(struct input_write *write);

/* Closes once all that is queued is written. */
void input_finish(struct process *p);

/* Closes now; what is queued fails with -EPIPE. */
void input_close(struct process *p);

/* ---- process_stream.c ---- */

/* A call of Start or Connect becomes a reader of the process until either ends. */
void reader_attach(struct process *p, struct rpc_call *call, bool is_start, bool replay);

/* A call of Start that wants the pid and no output: it ends, and the output is kept for others. */
void reader_decline(struct process *p, struct rpc_call *call);

bool readers_ready(const struct process *p); /* all can take a piece; true when there is none */
void readers_data(struct process *p, enum output_kind kind, struct str piece, bool from_ring);
void readers_end(struct process *p);    /* tells all of the end and lets them go */
void readers_forget(struct process *p); /* that any was brought back */

/* ---- process_kill.c ---- */

/* A call of SendSignal that has killed the process is answered when the process has been reaped, so
 * that no client that has the answer finds it alive. */
void killing_await(struct process *p, struct rpc_call *call);
void killings_end(struct process *p);

#endif
