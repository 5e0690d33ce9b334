#include "inside/interpreter/pipe_wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "inside/interpreter/command.h"
#include "inside/interpreter/json_read.h"
#include "lib/base/buf.h"
#include "lib/base/encode.h"

enum {
    ID_BYTES_MAX = 24,
};

#define COMMAND "run {id} {code} {env} {lasting} {fresh}"

static const char *const type_names[] = {
    [PIPE_READY] = "ready",   [PIPE_COUNT] = "count",   [PIPE_STDOUT] = "stdout",
    [PIPE_STDERR] = "stderr", [PIPE_RESULT] = "result", [PIPE_ERROR] = "error",
    [PIPE_DONE] = "done",
};

int pipe_event_read(struct str line, struct pipe_event *out)
{
    json_t *fields = json_read(line);
    const char *name = json_text(fields, "type");

    for (size_t i = 0; i < countof(type_names); i++) {
        if (strcmp(name, type_names[i]) == 0) {
            *out = (struct pipe_event){.type = (enum pipe_event_type)i, .fields = fields};
            return 0;
        }
    }
    json_decref(fields);
    return -EBADMSG;
}

void pipe_event_fini(struct pipe_event *event)
{
    json_decref(event->fields);
    event->fields = NULL;
}

static int variable_write(struct buf *out, const char *name, const char *value)
{
    scoped_buf(pair, PIPE_COMMAND_BYTES_MAX);

    int r = buf_printf(&pair, "%s=%s", name, value);
    return r < 0 ? r : base64_encode(out, buf_at(&pair), buf_len(&pair), BASE64_STD);
}

static int variables_write(struct buf *out, json_t *map)
{
    int r = json_object_size(map) ? 0 : buf_append(out, "-", 1);

    for (void *at = json_object_iter(map); at && r == 0; at = json_object_iter_next(map, at)) {
        r = buf_len(out) ? buf_append(out, ",", 1) : 0;
        if (r == 0) {
            r = variable_write(out, json_object_iter_key(at),
                               json_string_value(json_object_iter_value(at)));
        }
    }
    return r;
}

int pipe_command_write(struct buf *out, const char *spelling, uint64_t id,
                       const struct kernel_run *run)
{
    scoped_buf(code, PIPE_COMMAND_BYTES_MAX);
    scoped_buf(env, PIPE_COMMAND_BYTES_MAX);
    scoped_buf(lasting, PIPE_COMMAND_BYTES_MAX);
    char number[ID_BYTES_MAX];

    (void)snprintf(number, sizeof(number), "%" PRIu64, id);
    int r = base64_encode(&code, run->code.at, run->code.len, BASE64_STD);
    if (r == 0) {
        r = variables_write(&env, run->env);
    }
    if (r == 0) {
        r = variables_write(&lasting, run->lasting);
    }
    const struct command_place places[] = {
        {"{id}", str_of(number)},
        {"{code}", buf_len(&code) ? buf_str(&code) : STR("-")},
        {"{env}", buf_str(&env)},
        {"{lasting}", buf_str(&lasting)},
        {"{fresh}", run->fresh ? STR("1") : STR("0")},
    };
    if (r == 0) {
        r = command_fill(out, spelling ? spelling : COMMAND, places, countof(places));
    }
    return r < 0 ? r : buf_append(out, "\n", 1);
}
