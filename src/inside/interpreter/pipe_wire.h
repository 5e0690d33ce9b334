/* pipe_wire.h - the protocol between the interpreter and kernels of this project.
 *
 * A kernel that needs no Jupyter reads commands from descriptor 3, a line each, and writes events
 * to descriptor 4, a JSON object a line. A program's own output goes to descriptors 1 and 2
 * unchanged.
 *
 *   run ID CODE ENV LASTING FRESH      kernel.json may spell it otherwise (metadata.atoll.run)
 *     CODE     base64
 *     ENV      variables for this run: base64 of NAME=value, joined by commas; "-" for none
 *     LASTING  variables to set and leave, likewise
 *     FRESH    1: first draw new randomness, this may be a clone; else 0
 *
 *   {"type":"ready"}
 *   {"type":"count","count":N}
 *   {"type":"stdout","text":T}, {"type":"stderr","text":T}
 *   {"type":"result","data":{MIME:VALUE},"main":BOOLEAN}
 *   {"type":"error","name":N,"value":V,"traceback":T}
 *   {"type":"done","id":ID}             everything of the run was written before
 *
 * SIGINT interrupts a run; between runs it must do nothing.
 */
#ifndef INTERPRETER_PIPE_WIRE_H
#define INTERPRETER_PIPE_WIRE_H

#include "inside/interpreter/kernel.h"
#include "lib/base/buf.h"

enum {
    PIPE_EVENT_BYTES_MAX = 128 * 1024 * 1024,
    PIPE_COMMAND_BYTES_MAX = 64 * 1024 * 1024, /* a request's body in base64, twice over */
};

enum pipe_event_type {
    PIPE_READY,
    PIPE_COUNT,
    PIPE_STDOUT,
    PIPE_STDERR,
    PIPE_RESULT,
    PIPE_ERROR,
    PIPE_DONE,
};

struct pipe_event {
    enum pipe_event_type type;
    json_t *fields; /* the whole object */
};

/* -EBADMSG: it is no event. */
must_check int pipe_event_read(struct str line, struct pipe_event *out);
void pipe_event_fini(struct pipe_event *event);
#define scoped_event scoped(pipe_event_fini) struct pipe_event

/* Appends the command and its line's end. spelling NULL: as above. */
must_check int pipe_command_write(struct buf *out, const char *spelling, uint64_t id,
                                  const struct kernel_run *run);

#endif
