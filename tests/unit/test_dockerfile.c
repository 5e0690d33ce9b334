/* Dockerfiles as the steps of a build; what a .dockerignore leaves out. */
#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "cli/context.h"
#include "cli/dockerfile.h"
#include "lib/base/compiler.h"

static struct dockerfile file;
static struct err err;

static int parse(const char *text)
{
    dockerfile_fini(&file);
    return dockerfile_parse(str_of(text), NULL, &file, &err);
}

/* "TYPE arg|arg" of one step; the two that every file begins with are not counted. */
static const char *step(size_t index)
{
    static char out[512];
    const json_t *one = json_array_get(file.steps, index + 2), *arg;
    size_t i, n = (size_t)snprintf(out, sizeof(out), "%s",
                                   json_string_value(json_object_get(one, "type")));

    json_array_foreach (json_object_get(one, "args"), i, arg) {
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%c%s", i ? '|' : ' ',
                              json_string_value(arg));
    }
    return out;
}

static void a_file_becomes_steps(void)
{
    CHECK_INT(parse("# syntax\nfrom debian:12 AS x\nRUN a && \\\n  b\nWORKDIR /app\n"
                    "COPY --chown=u:g --chmod=644 a b /c/\nADD d /e\nENV A=1 B='2 3'\nUSER me\n"
                    "CMD [\"run\", \"it's\"]\n"),
              0);
    CHECK_STR(file.from, "debian:12");
    CHECK_STR(step(0), "RUN a &&   b");
    CHECK_STR(step(1), "WORKDIR /app");
    CHECK_STR(step(2), "COPY a|/c/|u:g|644");
    CHECK_STR(step(3), "COPY b|/c/|u:g|644");
    CHECK_STR(step(4), "COPY d|/e||");
    CHECK_STR(step(5), "ENV A|1|B|2 3");
    CHECK_STR(step(6), "USER me");
    CHECK_STR(file.start, "run 'it'\\''s'");
    CHECK_INT(json_array_size(file.steps), 9);
}

static void users_and_directories_are_the_clients(void)
{
    CHECK_INT(parse("FROM a"), 0);
    CHECK_INT(json_array_size(file.steps), 4);
    CHECK_STR(step(-2UL), "USER root");
    CHECK_STR(step(-1UL), "WORKDIR /");
    CHECK_STR(step(0), "USER user");
    CHECK_STR(step(1), "WORKDIR /home/user");
    CHECK(!file.start);
}

static void variables_are_put_in_where_docker_does(void)
{
    CHECK_INT(
        parse("ARG V=9\nFROM x:${V}\nARG N=m U\nENV P=$N:$PATH Q=${N:-z} R=${NONE:-z} S='$N'\n"
              "WORKDIR /$N/${NONE}x\nENV old $N is kept\nRUN echo $N\n"),
        0);
    CHECK_STR(file.from, "x:9");
    CHECK_STR(step(0), "ARG N|m");
    CHECK_STR(step(1), "ARG U|");
    CHECK_STR(step(2), "ENV P|m:$PATH|Q|m|R|z|S|$N");
    CHECK_STR(step(3), "WORKDIR /m/x");
    CHECK_STR(step(4), "ENV old|m is kept");
    CHECK_STR(step(5), "RUN echo $N");
}

static void build_args_win(void)
{
    json_t *args = json_pack("{ss}", "V", "7");

    dockerfile_fini(&file);
    CHECK_INT(dockerfile_parse(STR("ARG V=9\nFROM x:$V"), args, &file, &err), 0);
    CHECK_STR(file.from, "x:7");
    json_decref(args);
}

static void entrypoint_takes_cmd(void)
{
    CHECK_INT(parse("FROM a\nENTRYPOINT [\"e\"]\nCMD [\"c\", \"d\"]"), 0);
    CHECK_STR(file.start, "e c d");
    CHECK_INT(parse("FROM a\nENTRYPOINT e $X\nCMD [\"c\"]"), 0);
    CHECK_STR(file.start, "e $X");
    CHECK_INT(parse("FROM a\nCMD exec x"), 0);
    CHECK_STR(file.start, "exec x");
    CHECK(!file.ready);
    CHECK_INT(parse("FROM a\nHEALTHCHECK --interval=5s CMD curl -f localhost\nCMD x"), 0);
    CHECK_STR(file.ready, "curl -f localhost");
    CHECK_INT(parse("FROM a\nHEALTHCHECK CMD [\"a\", \"b c\"]"), 0);
    CHECK_STR(file.ready, "a 'b c'");
}

/* "name number from copies base" of a stage before the last. */
static const char *stage(size_t index)
{
    static char out[256];
    const json_t *one = json_array_get(file.stages, index), *source;
    size_t i, n = (size_t)snprintf(out, sizeof(out), "%s %lld %s",
                                   json_string_value(json_object_get(one, "name")),
                                   json_integer_value(json_object_get(one, "number")),
                                   json_string_value(json_object_get(one, "from")));

    json_array_foreach (json_object_get(one, "copies"), i, source) {
        n += (size_t)snprintf(out + n, sizeof(out) - n, " %s", json_string_value(source));
    }
    (void)snprintf(out + n, sizeof(out) - n, "%s",
                   json_is_true(json_object_get(one, "base")) ? " base" : "");
    return out;
}

static void stages_are_kept_apart(void)
{
    CHECK_INT(parse("ARG V=13\nFROM debian:$V AS build\nENV A=1\nRUN make\nCMD a\n"
                    "FROM build as test\nRUN check\n"
                    "FROM debian:$V\nCOPY --from=build --chown=u /out/app /out/*.so /app/\n"
                    "COPY --from=1 log /log\nCOPY --from=busybox:1 /bin/sh /x"),
              0);
    CHECK_INT(json_array_size(file.stages), 3);
    CHECK_STR(stage(0), "build 0 debian:13 out/app out/*.so base");
    CHECK_STR(stage(1), "test 1 stage:0 log");
    CHECK_STR(stage(2), "busybox:1 -1 busybox:1 bin/sh");
    CHECK_STR(file.from, "debian:13");
    CHECK_STR(step(0), "COPY out/app|/app/|u|");
    CHECK_STR(step(2), "COPY log|/log||");
    CHECK_INT(json_integer_value(json_object_get(json_array_get(file.steps, 4), "stage")), 1);
    CHECK_INT(json_integer_value(json_object_get(json_array_get(file.steps, 3), "copy")), 1);
    CHECK(!file.start);
}

static void what_means_nothing_is_noted(void)
{
    CHECK_INT(parse("FROM a\nEXPOSE 80\nLABEL a=b\nVOLUME /x"), 0);
    CHECK_INT(json_array_size(file.notes), 3);
    CHECK_STR(json_string_value(json_array_get(file.notes, 0)),
              "line 2: EXPOSE has no effect on a template and is ignored");
}

static void what_cannot_be_built_is_refused_by_line(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "the Dockerfile is empty, too long, or not UTF-8"},
        {"# nothing", "the Dockerfile has no FROM"},
        {"RUN x", "line 1: FROM must come first"},
        {"FROM a b", "line 1: FROM takes an image and, optionally, AS with a name"},
        {"FROM a AS x\nFROM b\nCOPY --from=x / /y",
         "line 3: COPY --from of a whole root is not supported: name directories"},
        {"FROM", "line 1: FROM names no image"},
        {"FROM a\n\nCOPY --from= /x /y", "line 3: --from names no stage"},
        {"FROM a\nCOPY x", "line 2: COPY needs a source and a target"},
        {"FROM a\nADD http://x /y", "line 2: ADD of a URL is not supported: use RUN with curl"},
        {"FROM a\nADD x.tar.gz /y",
         "line 2: ADD does not unpack archives here: use COPY, and RUN with tar"},
        {"FROM a\nRUN --mount=type=cache x",
         "line 2: RUN with --mount and the like is not supported"},
        {"FROM a\nRUN", "line 2: RUN names no command"},
        {"FROM a\nENV x", "line 2: ENV needs a name and a value"},
        {"FROM a\nENV x=1 y", "line 2: ENV needs pairs of the form name=value"},
        {"FROM a\nENV x=\"1", "line 2: ENV needs pairs of the form name=value"},
        {"FROM a\nUSER", "line 2: USER needs one word"},
        {"FROM a\nWORKDIR a b", "line 2: WORKDIR needs one word"},
        {"FROM a\nHEALTHCHECK curl", "line 2: HEALTHCHECK needs CMD or NONE"},
        {"FROM a\nSHELL [\"x\"]", "line 2: the instruction SHELL is not supported"},
        {"FROM a\nRUN a \\\n b\nONBUILD x", "line 4: the instruction ONBUILD is not supported"},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        CHECK_INT(parse(rows[i].text), -EINVAL);
        CHECK_STR(err.msg, rows[i].why);
    }
}

static void dockerignore_leaves_out_what_it_names(void)
{
    const struct str lines =
        STR("# c\n*.log\n/build/\n**/node_modules\n!keep.log\ndocs/**\na/*/z\n");

    CHECK(context_ignores(lines, "x.log"));
    CHECK(!context_ignores(lines, "keep.log"));
    CHECK(!context_ignores(lines, "sub/x.log"));
    CHECK(context_ignores(lines, "build/a/b"));
    CHECK(context_ignores(lines, "node_modules/x"));
    CHECK(context_ignores(lines, "a/b/node_modules/x/y"));
    CHECK(context_ignores(lines, "docs/a"));
    CHECK(context_ignores(lines, "a/b/z"));
    CHECK(!context_ignores(lines, "a/b/c/z"));
    CHECK(!context_ignores(lines, "src/main.c"));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a file becomes steps", a_file_becomes_steps},
        {"users and directories are the clients'", users_and_directories_are_the_clients},
        {"variables are put in where Docker does", variables_are_put_in_where_docker_does},
        {"build args win", build_args_win},
        {"ENTRYPOINT takes CMD", entrypoint_takes_cmd},
        {"stages are kept apart", stages_are_kept_apart},
        {"what means nothing is noted", what_means_nothing_is_noted},
        {"what cannot be built is refused by line", what_cannot_be_built_is_refused_by_line},
        {".dockerignore leaves out what it names", dockerignore_leaves_out_what_it_names},
    };
    int r = check_run(tests, countof(tests));

    dockerfile_fini(&file);
    return r;
}
