/* create_nextjs_sandbox and create_nextjs_bun_sandbox: a fresh application, served by its
 * development server. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"
#include "tools/catalogue/handlers.h"
#include "tools/create.h"
#include "tools/packages.h"
#include "tools/reply.h"

enum { PROGRESS_STEPS = 6, LOG_BYTES_MAX = 64 * 1024 };

#define CREATE_FLAGS                                                                               \
    " \"$TOOL_NAME\" --yes --ts --app --tailwind --eslint --src-dir --turbopack"                   \
    " --import-alias '@/*' --disable-git </dev/null"

/* The differences between the two. */
static const struct kind {
    const char *create, *shadcn, *shadcn_all, *serve, *log;
    int wait_s;
    bool bun;
} with_npm =
    {
        .create = "npx --yes create-next-app@latest" CREATE_FLAGS " --use-npm",
        .shadcn = "cd \"$TOOL_NAME\" && npx --yes shadcn@latest init --yes --defaults </dev/null",
        .shadcn_all = "cd \"$TOOL_NAME\" && npx --yes shadcn@latest add --all --yes </dev/null",
        .serve = "npx next dev",
        .log = "/tmp/nextjs-dev.log",
        .wait_s = 60,
},
  with_bun = {
      .create = "bunx create-next-app@latest" CREATE_FLAGS " --use-bun",
      .shadcn = "cd \"$TOOL_NAME\" && bunx --bun shadcn@latest init --yes --defaults </dev/null",
      .shadcn_all = "cd \"$TOOL_NAME\" && bunx --bun shadcn@latest add --all --yes </dev/null",
      .serve = "bun --bun run next dev",
      .log = "/tmp/nextjs-bun-dev.log",
      .wait_s = 90,
      .bun = true,
};

/* Its own session, so that no end of a command reaches it. The last line is its pid. */
static const char serve_script[] =
    "cd \"$TOOL_NAME\" || exit 1\n"
    "if (exec 3<>\"/dev/tcp/127.0.0.1/$TOOL_PORT\") 2>/dev/null; then\n"
    "    echo \"port $TOOL_PORT is in use already\"\n"
    "    exit 1\n"
    "fi\n"
    "setsid nohup $TOOL_SERVE --hostname 0.0.0.0 --port \"$TOOL_PORT\" </dev/null"
    " >\"$TOOL_LOG\" 2>&1 &\n"
    "echo $!";

/* The server listens before it has read the application's configuration: it is up when it answers.
 * A server that is only slow to answer counts too. */
static const char wait_script[] =
    "at=http://127.0.0.1:$TOOL_PORT/\n"
    "runs() { kill -0 \"$TOOL_PID\" 2>/dev/null; }\n"
    "while ((SECONDS < TOOL_WAIT)) && runs; do\n"
    "    curl -s -o /dev/null --max-time 15 \"$at\" && exit 0\n"
    "    sleep 0.25\n"
    "done\n"
    "runs || { echo 'the development server has ended'; exit 1; }\n"
    "(exec 3<>\"/dev/tcp/127.0.0.1/$TOOL_PORT\") 2>/dev/null && exit 0\n"
    "echo \"nothing listens on port $TOOL_PORT after $TOOL_WAIT seconds\"\n"
    "exit 1";

struct making {
    struct tool_call *call;
    const json_t *input;
    const struct kind *kind;
    struct remote_sandbox sandbox;
    struct steps steps;
    json_t *env, *reply;
};

/* ---- the name ---- */

/* A valid name of an npm package, and nothing that could be read as a path or a flag. */
static int name_check(const char *name, struct err *err)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";

    if (strspn(name, known) != strlen(name) || name[0] == '-' || name[0] == '_') {
        return err_set(err, EINVAL,
                       "project_name: must be lower-case letters, digits, - and _, and begin with"
                       " a letter or a digit");
    }
    return 0;
}

static int internet_check(const json_t *input, struct err *err)
{
    return json_is_false(json_object_get(input, "allow_internet"))
               ? err_set(err, EINVAL,
                         "allow_internet: must be true, because the application is made of"
                         " packages from the internet")
               : 0;
}

/* ---- steps ---- */

static int step(struct making *making, uint32_t n, const char *name, const char *script,
                struct err *err)
{
    call_progress(making->call, n, PROGRESS_STEPS, "%s", name);
    return steps_run(&making->steps, name, script, err);
}

/* If shadcn cannot fetch something, the application runs all the same. */
static int shadcn(struct making *making, struct err *err)
{
    bool all = json_is_true(json_object_get(making->input, "shadcn_all"));
    int r = step(making, 3, "shadcn init", making->kind->shadcn, err);

    if (r == 1 && all) {
        r = step(making, 3, "shadcn add --all", making->kind->shadcn_all, err);
    }
    if (r == 0) {
        reply_note(making->reply, "shadcn could not be set up: its step says why. The application"
                                  " runs without it.");
    }
    return r < 0 ? r : 1;
}

static int application(struct making *making, struct err *err)
{
    int r = 1;

    if (making->kind->bun) {
        call_progress(making->call, 1, PROGRESS_STEPS, "Installing Bun");
        r = packages_preset(&making->steps, "bun", err);
    }
    if (r == 1) {
        r = step(making, 2, "create-next-app", making->kind->create, err);
    }
    return r == 1 ? shadcn(making, err) : r;
}

static int log_read(struct making *making, struct err *err)
{
    scoped_remote_result result = {0};
    const struct remote_command command = {.script = "tail -c \"$TOOL_LOG_BYTES\" \"$TOOL_LOG\"",
                                           .env = making->env};
    (void)json_object_set_new(making->env, "TOOL_LOG_BYTES", json_sprintf("%d", LOG_BYTES_MAX));
    int r = remote_run(making->call, &making->sandbox, &command, &result, err);

    if (r == 0) {
        (void)json_object_set_new(making->reply, "log",
                                  json_stringn(buf_at(&result.out), buf_len(&result.out)));
    }
    return r;
}

static int serve(struct making *making, struct err *err)
{
    int r = step(making, 4, "start the development server", serve_script, err);
    long pid = r == 1 ? strtol(steps_output(&making->steps), NULL, 10) : 0;

    if (r != 1) {
        return r;
    }
    (void)json_object_set_new(making->reply, "pid", json_integer(pid));
    (void)json_object_set_new(making->env, "TOOL_PID", json_sprintf("%ld", pid));
    r = step(making, 5, "wait for its port", wait_script, err);
    if (r == 0) {
        int read = log_read(making, err);
        r = read < 0 ? read : 0;
    }
    return r;
}

/* ---- the tools ---- */

/* The port of the development server, and the others that were asked for. */
static json_t *ports_of(const json_t *input)
{
    const json_t *more = json_object_get(input, "ports");
    json_t *port = json_object_get(input, "port");
    json_t *ports = json_array();

    (void)json_array_append(ports, port);
    for (size_t i = 0; i < json_array_size(more); i++) {
        if (!json_equal(json_array_get(more, i), port)) {
            (void)json_array_append(ports, json_array_get(more, i));
        }
    }
    return ports;
}

static void describe(struct making *making, const char *name)
{
    json_t *port = json_object_get(making->input, "port");
    scoped_json *ports = ports_of(making->input);
    json_t *reply = reply_new(&making->sandbox);

    (void)json_object_set_new(reply, "template_alias", json_string("base"));
    (void)json_object_set_new(reply, "project_dir", json_sprintf("/home/user/%s", name));
    (void)json_object_set_new(reply, "port", json_integer(json_integer_value(port)));
    (void)json_object_set_new(reply, "urls", reply_urls(&making->sandbox, ports));
    (void)json_object_set_new(reply, "log_path", json_string(making->kind->log));
    making->steps.done = json_array();
    (void)json_object_set_new(reply, "steps", making->steps.done);
    making->reply = reply;
    making->env = json_pack("{ssssssss}", "TOOL_NAME", name, "TOOL_LOG", making->kind->log,
                            "TOOL_SERVE", making->kind->serve, "NEXT_TELEMETRY_DISABLED", "1");
    (void)json_object_set_new(making->env, "TOOL_PORT",
                              json_sprintf("%lld", (long long)json_integer_value(port)));
    (void)json_object_set_new(making->env, "TOOL_WAIT", json_sprintf("%d", making->kind->wait_s));
    making->steps.call = making->call;
    making->steps.sandbox = &making->sandbox;
    making->steps.env = making->env;
}

static int create(struct tool_call *call, const json_t *input, const struct kind *kind,
                  json_t **out, struct err *err)
{
    const char *name = json_string_of(input, "project_name");
    struct making making = {.call = call, .input = input, .kind = kind};
    int r = name_check(name, err);

    r = r < 0 ? r : internet_check(input, err);
    if (r == 0) {
        call_progress(call, 0, PROGRESS_STEPS, "Starting the sandbox");
        r = create_remote(call, input, "base", &making.sandbox, err);
    }
    if (r < 0) {
        return r;
    }
    describe(&making, name);
    r = application(&making, err);
    if (r == 1) {
        r = serve(&making, err);
    }
    json_decref(making.env);
    if (r < 0) {
        remote_kill(call, &making.sandbox);
        json_decref(making.reply);
        return r;
    }
    (void)json_object_set_new(making.reply, "success", json_boolean(r == 1));
    *out = making.reply;
    return 0;
}

int tool_create_nextjs_sandbox(struct tool_call *call, const json_t *input, json_t **out,
                               struct err *err)
{
    return create(call, input, &with_npm, out, err);
}

int tool_create_nextjs_bun_sandbox(struct tool_call *call, const json_t *input, json_t **out,
                                   struct err *err)
{
    return create(call, input, &with_bun, out, err);
}
