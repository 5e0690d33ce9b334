#include "inside/interpreter/spec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "inside/interpreter/json_read.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

enum {
    PLACES_MAX = 16,
    PATH_BYTES_MAX = 4096,
    LIST_BYTES_MAX = 160, /* of the names of kernels in an error's sentence */
};

#define SPEC_FILE "kernel.json"

static const struct {
    const char *name;
    const char *language;
} spoken[] = {{"", "python"}, {"js", "javascript"}, {"ts", "typescript"}};

/* The names of these languages' kernels in Jupyter's own packages. */
static const struct {
    const char *language;
    const char *kernel;
} jupyter_names[] = {{"python", "python3"}, {"r", "ir"}};

int spec_language(struct str text, char out[SPEC_NAME_LEN_MAX + 1])
{
    char name[SPEC_NAME_LEN_MAX + 1];

    text = str_trim(text);
    if (!str_copy(name, sizeof(name), text)) {
        return -EINVAL;
    }
    for (char *c = name; *c; c++) {
        *c = char_lower(*c);
        if (!(*c >= 'a' && *c <= 'z') && !(*c >= '0' && *c <= '9') && !strchr("._+#-", *c)) {
            return -EINVAL;
        }
    }
    for (size_t i = 0; i < countof(spoken); i++) {
        if (strcmp(name, spoken[i].name) == 0) {
            (void)str_copy(name, sizeof(name), str_of(spoken[i].language));
        }
    }
    if (name[0] == '.') {
        return -EINVAL;
    }
    memcpy(out, name, sizeof(name));
    return 0;
}

/* ---- where they are ---- */

struct places {
    char *at[PLACES_MAX];
    size_t n;
};

static void places_fini(struct places *places)
{
    while (places->n) {
        free(places->at[--places->n]);
    }
}

static void place_add(struct places *places, const char *directory, const char *below)
{
    char path[PATH_BYTES_MAX];
    int n = snprintf(path, sizeof(path), "%s%s", directory, below);

    if (places->n < PLACES_MAX && n > 0 && (size_t)n < sizeof(path)) {
        places->at[places->n++] = xstrdup(path);
    }
}

static void places_find(struct places *places, const char *own_dir)
{
    const char *home = getenv("HOME");
    struct str rest = str_of(getenv("JUPYTER_PATH"));
    struct str part;
    char directory[PATH_BYTES_MAX];

    place_add(places, own_dir, "");
    while (str_split(&rest, ':', &part)) {
        if (part.len && str_copy(directory, sizeof(directory), part)) {
            place_add(places, directory, "/kernels");
        }
    }
    if (home && *home) {
        place_add(places, home, "/.local/share/jupyter/kernels");
    }
    place_add(places, "/usr/local/share/jupyter/kernels", "");
    place_add(places, "/usr/share/jupyter/kernels", "");
}

/* Calls visit for every directory with a kernel in it, until one returns true. */
static bool places_walk(const struct places *places,
                        bool (*visit)(void *ctx, const char *directory, const char *name),
                        void *ctx)
{
    bool found = false;

    for (size_t i = 0; i < places->n && !found; i++) {
        DIR *dir = opendir(places->at[i]);
        const struct dirent *entry;
        while (dir && !found && (entry = readdir(dir))) {
            char path[PATH_BYTES_MAX];
            int n = snprintf(path, sizeof(path), "%s/%s/" SPEC_FILE, places->at[i], entry->d_name);
            if (entry->d_name[0] != '.' && n > 0 && (size_t)n < sizeof(path) &&
                access(path, R_OK) == 0) {
                path[(size_t)n - sizeof("/" SPEC_FILE) + 1] = '\0';
                found = visit(ctx, path, entry->d_name);
            }
        }
        if (dir) {
            (void)closedir(dir);
        }
    }
    return found;
}

struct wanted {
    const char *name;
    char *directory;
};

static bool is_wanted(void *ctx, const char *directory, const char *name)
{
    struct wanted *wanted = ctx;

    if (strcasecmp(name, wanted->name) != 0) {
        return false;
    }
    wanted->directory = xstrdup(directory);
    return true;
}

static bool name_list(void *ctx, const char *directory, const char *name)
{
    struct buf *list = ctx;

    (void)directory;
    return buf_printf(list, "%s%s", buf_len(list) ? ", " : "", name) < 0;
}

static int no_such(const struct places *places, const char *language, struct err *err)
{
    scoped_buf(list, LIST_BYTES_MAX);

    (void)places_walk(places, name_list, &list);
    return err_set(err, ENOENT, "There is no kernel for the language %s; installed: %.*s", language,
                   (int)buf_len(&list), buf_len(&list) ? buf_at(&list) : "none");
}

/* ---- reading a specification ---- */

static int file_read(const char *directory, struct buf *out, struct err *err)
{
    char path[PATH_BYTES_MAX];

    (void)snprintf(path, sizeof(path), "%s/" SPEC_FILE, directory);
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return err_sys(err, "open %s", path);
    }
    int r = small_file_append(fd, out);
    return r < 0 ? err_code(err, -r, "read %s", path) : 0;
}

/* Checks the values of an array or an object. */
static bool all_strings(json_t *value)
{
    const json_t *item;
    size_t i;

    json_array_foreach (value, i, item) {
        if (!json_is_string(item)) {
            return false;
        }
    }
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at)) {
        if (!json_is_string(json_object_iter_value(at))) {
            return false;
        }
    }
    return json_is_array(value) || json_is_object(value);
}

static enum spec_transport transport_of(const char *name)
{
    return strcmp(name, "pipe") == 0 ? SPEC_PIPE : strcmp(name, "ipc") == 0 ? SPEC_IPC : SPEC_TCP;
}

static int spec_fill(struct spec *spec, const json_t *file, struct err *err)
{
    json_t *argv = json_object_get(file, "argv");
    json_t *env = json_object_get(file, "env");
    const json_t *ours = json_object_get(json_object_get(file, "metadata"), "atoll");
    size_t n = json_array_size(argv);

    if (n < 1 || n > SPEC_ARGS_MAX || !all_strings(argv) || (env && !all_strings(env))) {
        return err_set(err, EINVAL, "%s/" SPEC_FILE " has no argv of strings, or an env of others",
                       spec->directory);
    }
    const char *language = json_text(file, "language");
    if (!*language || spec_language(str_of(language), spec->language) < 0) {
        memcpy(spec->language, spec->name, sizeof(spec->name));
    }
    spec->argv = json_deep_copy(argv);
    spec->env = env ? json_deep_copy(env) : NULL;
    spec->run = xstrdup(json_string_value(json_object_get(ours, "run")));
    spec->transport = transport_of(json_text(ours, "transport"));
    spec->waits = spec->transport == SPEC_PIPE || json_is_true(json_object_get(ours, "waits"));
    spec->interrupts_by_message = strcmp(json_text(file, "interrupt_mode"), "message") == 0;
    return 0;
}

static int spec_load(const char *name, char *directory, struct spec **out, struct err *err)
{
    struct spec *spec = xnew(struct spec);
    scoped_buf(text, SPEC_BYTES_MAX);

    spec->directory = directory;
    (void)str_copy(spec->name, sizeof(spec->name), str_of(name));
    int r = file_read(directory, &text, err);
    if (r == 0) {
        json_auto_t *file = json_read(buf_str(&text));
        r = spec_fill(spec, file, err);
    }
    if (r < 0) {
        spec_free(spec);
        return r;
    }
    *out = spec;
    return 0;
}

int spec_find(const char *own_dir, const char *language, struct spec **out, struct err *err)
{
    struct wanted wanted = {.name = language};
    scoped(places_fini) struct places places = {.n = 0};

    places_find(&places, own_dir);
    if (!places_walk(&places, is_wanted, &wanted)) {
        for (size_t i = 0; i < countof(jupyter_names); i++) {
            if (strcmp(language, jupyter_names[i].language) == 0) {
                wanted.name = jupyter_names[i].kernel;
                (void)places_walk(&places, is_wanted, &wanted);
            }
        }
    }
    return wanted.directory ? spec_load(language, wanted.directory, out, err)
                            : no_such(&places, language, err);
}

void spec_free(struct spec *spec)
{
    if (spec) {
        free(spec->directory);
        free(spec->run);
        json_decref(spec->argv);
        json_decref(spec->env);
        free(spec);
    }
}
