#include "tools/sandbox_timeout.h"

#include <errno.h>
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "tools/front_end.h"

enum { TIMEOUT_LEAST_MS = 1000, TARGET_BYTES = ID_SANDBOX_LEN + 32 };

int64_t timeout_left_ms(const struct remote_sandbox *sandbox)
{
    int64_t left = sandbox->expires_ms - clock_wall_ms() - (int64_t)TIMEOUT_MARGIN_S * 1000;

    return left > TIMEOUT_LEAST_MS ? left : TIMEOUT_LEAST_MS;
}

int64_t timeout_limit_ms(const struct remote_sandbox *sandbox, int64_t limit_s)
{
    int64_t left = timeout_left_ms(sandbox);

    return limit_s > 0 && limit_s < left / 1000 ? limit_s * 1000 : left;
}

static int end_read(struct tool_call *call, struct remote_sandbox *sandbox, struct err *err)
{
    char target[TARGET_BYTES];
    scoped_json *detail = NULL;

    (void)snprintf(target, sizeof(target), "/sandboxes/%s", sandbox->id);
    int r = call_api(call, "GET", target, NULL, &detail, err);
    const char *end = json_string_of(detail, "endAt");
    if (r == 0 && (!end || clock_parse(str_of(end), &sandbox->expires_ms) < 0)) {
        r = err_set(err, EIO, "the end of sandbox %s cannot be read", sandbox->id);
    }
    return r;
}

/* A connect only ever extends. */
int timeout_extend(struct tool_call *call, struct remote_sandbox *sandbox, int64_t until_ms,
                   struct err *err)
{
    int64_t most = tools_options(call_tools(call))->sandbox_s_max;
    int64_t seconds = (until_ms - clock_wall_ms() + 999) / 1000;
    scoped_json *body = NULL;
    char target[TARGET_BYTES];

    if (seconds < 1) {
        return 0;
    }
    seconds = seconds < most ? seconds : most;
    body = json_pack("{sI}", "timeout", (json_int_t)seconds);
    (void)snprintf(target, sizeof(target), "/sandboxes/%s/connect", sandbox->id);
    int r = call_api(call, "POST", target, body, NULL, err);
    return r < 0 ? r : end_read(call, sandbox, err);
}
