#include "inside/interpreter/snippet.h"

#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"

enum {
    SNIPPET_BYTES_MAX = 64 * 1024 * 1024, /* a request's body, escaped twice */
};

/* JSON's strings are Python's and R's too, as long as nothing outside of ASCII is escaped. */
static int literal(struct buf *out, const char *text)
{
    json_auto_t *string = json_string(text);
    char *dump = json_dumps(string, JSON_ENCODE_ANY);
    int r = dump ? buf_append(out, dump, strlen(dump)) : -1;

    free(dump);
    return r;
}

static bool is_empty(const json_t *object)
{
    return json_object_size(object) == 0;
}

/* ---- Python ---- */

#define PYTHON_PREPARE                                                                             \
    "exec('''\n"                                                                                   \
    "import json, os, sys\n"                                                                       \
    "os.environ.update(json.loads(lasting))\n"                                                     \
    "new = json.loads(env)\n"                                                                      \
    "sys._atoll_env = {name: os.environ.get(name) for name in new}\n"                              \
    "os.environ.update(new)\n"                                                                     \
    "if fresh:\n"                                                                                  \
    "    import random\n"                                                                          \
    "    random.seed()\n"                                                                          \
    "    numpy = sys.modules.get('numpy')\n"                                                       \
    "    if numpy and hasattr(numpy, 'random'):\n"                                                 \
    "        numpy.random.seed()\n"                                                                \
    "''', dict(lasting="
#define PYTHON_RESTORE                                                                             \
    "exec('''\n"                                                                                   \
    "import os, sys\n"                                                                             \
    "for name, value in sys._atoll_env.items():\n"                                                 \
    "    if value is None:\n"                                                                      \
    "        os.environ.pop(name, None)\n"                                                         \
    "    else:\n"                                                                                  \
    "        os.environ[name] = value\n"                                                           \
    "''', {})"

static int python_map(struct buf *out, const json_t *object)
{
    char *dump = json_dumps(object, 0);
    int r = literal(out, dump ? dump : "{}");

    free(dump);
    return r;
}

static int python_prepare(struct buf *out, const struct kernel_run *run)
{
    int r = buf_append(out, PYTHON_PREPARE, sizeof(PYTHON_PREPARE) - 1);

    if (r == 0) {
        r = python_map(out, run->lasting);
    }
    if (r == 0) {
        r = buf_printf(out, ", env=");
    }
    if (r == 0) {
        r = python_map(out, run->env);
    }
    return r < 0 ? r : buf_printf(out, ", fresh=%s))", run->fresh ? "True" : "False");
}

/* ---- R ---- */

#define R_RESTORE                                                                                  \
    "local({ old <- getOption('atoll.env')\n"                                                      \
    "for (name in names(old)) if (is.na(old[[name]])) Sys.unsetenv(name) else\n"                   \
    "do.call(Sys.setenv, setNames(list(old[[name]]), name)) })"

/* "A"="1", "B"="2", or the names alone. */
static int r_list(struct buf *out, json_t *map, bool values)
{
    int r = 0;

    for (void *at = json_object_iter(map); at && r == 0; at = json_object_iter_next(map, at)) {
        r = buf_printf(out, "%s", at == json_object_iter(map) ? "" : ", ");
        if (r == 0) {
            r = literal(out, json_object_iter_key(at));
        }
        if (r == 0 && values) {
            r = buf_printf(out, "=");
        }
        if (r == 0 && values) {
            r = literal(out, json_string_value(json_object_iter_value(at)));
        }
    }
    return r;
}

static int r_set(struct buf *out, json_t *object)
{
    int r = is_empty(object) ? 0 : buf_printf(out, "Sys.setenv(");

    if (r < 0 || is_empty(object)) {
        return r;
    }
    r = r_list(out, object, true);
    return r < 0 ? r : buf_printf(out, ")\n");
}

static int r_prepare(struct buf *out, const struct kernel_run *run)
{
    int r = buf_printf(out, "invisible(local({\n%s", run->fresh ? "set.seed(NULL)\n" : "");

    if (r == 0) {
        r = r_set(out, run->lasting);
    }
    if (r == 0) {
        r = buf_printf(out, "options(atoll.env = Sys.getenv(c(character(0)%s",
                       is_empty(run->env) ? "" : ", ");
    }
    if (r == 0) {
        r = r_list(out, run->env, false);
    }
    if (r == 0) {
        r = buf_printf(out, "), unset = NA, names = TRUE))\n");
    }
    if (r == 0) {
        r = r_set(out, run->env);
    }
    return r < 0 ? r : buf_printf(out, "}))");
}

/* ---- by language ---- */

static const struct {
    const char *language;
    int (*prepare)(struct buf *out, const struct kernel_run *run);
    const char *restore;
} speakers[] = {
    {"python", python_prepare, PYTHON_RESTORE},
    {"r", r_prepare, R_RESTORE},
};

static size_t speaker_find(const char *language)
{
    size_t i = 0;

    while (i < countof(speakers) && strcmp(speakers[i].language, language) != 0) {
        i++;
    }
    return i;
}

bool snippet_speaks(const char *language)
{
    return speaker_find(language) < countof(speakers);
}

char *snippet_prepare(const char *language, const struct kernel_run *run)
{
    size_t i = speaker_find(language);
    scoped_buf(code, SNIPPET_BYTES_MAX);

    if (i == countof(speakers) || (is_empty(run->lasting) && is_empty(run->env) && !run->fresh) ||
        speakers[i].prepare(&code, run) < 0 || buf_append(&code, "", 1) < 0) {
        return NULL;
    }
    return xstrdup(buf_at(&code));
}

char *snippet_restore(const char *language)
{
    size_t i = speaker_find(language);

    return i < countof(speakers) ? xstrdup(speakers[i].restore) : NULL;
}
