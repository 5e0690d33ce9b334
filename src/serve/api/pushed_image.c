/* pushed_image.c - calls of the API that this server does not offer: the oldest way to build a
 * template, from an image that the client pushed. A 404 would be read as "no such template". A
 * wrong request is told what is wrong with it first, as by a server that could do it. */
#include <errno.h>

#include "serve/api/internal.h"
#include "serve/template/name.h"

static void refuse(struct call *call)
{
    call_fail(call, 501,
              "Building a template from a pushed image is not available on this server "
              "yet: use the SDK's Template, or `atoll template build`");
}

static int size_check(const json_t *body, struct err *err)
{
    int64_t cpus = BUILD_CPU_DEFAULT, memory_mb = BUILD_MEMORY_MB_DEFAULT;
    int r = field_int(body, "cpuCount", (struct int_range){1, BUILD_CPU_MAX}, &cpus, err);

    return r < 0 ? r
                 : field_int(body, "memoryMB",
                             (struct int_range){BUILD_MEMORY_MB_MIN, BUILD_MEMORY_MB_MAX},
                             &memory_mb, err);
}

static int request_check(const struct call *call, const json_t *body, struct err *err)
{
    static const char *const texts[] = {"alias", "dockerfile", "teamID", "startCmd", "readyCmd"};
    const char *text[countof(texts)] = {0};
    struct template_name name;
    int r = 0;

    for (size_t i = 0; r == 0 && i < countof(texts); i++) {
        r = field_string(body, texts[i], &text[i], err);
    }
    if (r == 0 && !text[1]) {
        r = err_set(err, EINVAL, "validation error: dockerfile is required");
    }
    if (r == 0 && text[0] && template_name_parse(str_of(text[0]), &name) < 0) {
        r = err_set(err, EINVAL, "Invalid alias: '%.128s' is not of a-z 0-9 - _", text[0]);
    }
    if (r == 0 && text[2] && strcmp(text[2], call->team->id) != 0) {
        r = err_set(err, EINVAL, "Team ID param mismatch with the API key");
    }
    return r == 0 ? size_check(body, err) : r;
}

void handle_pushed_request(struct call *call, const json_t *body)
{
    struct err err;
    int r = request_check(call, body, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        refuse(call);
    }
}

/* The template exists. */
void handle_pushed_rebuild(struct call *call, const json_t *body)
{
    struct err err;
    int r = request_check(call, body, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
    } else if (call_own_template(call, call->param)) {
        refuse(call);
    }
}

void handle_pushed_start(struct call *call, const json_t *body)
{
    (void)body;
    if (!id_uuid_ok(str_of(call->param))) {
        call_fail(call, 400, "Invalid build ID: %.64s", call->param);
    } else if (call_own_template(call, call->first)) {
        refuse(call);
    }
}
