#include "cli/dockerfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/dockerfile_words.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/json.h"
#include "lib/base/text.h"

struct reader {
    struct str rest;
    int line;  /* where the instruction at hand begins */
    int below; /* the line after it */
    struct buf text;
    struct dockerfile *file;
    json_t *vars;    /* ARG and ENV so far */
    json_t *globals; /* ARG before the first FROM */
    char *stage;     /* the name of the one at hand, or NULL */
    int stages_n;    /* those before it */
    const json_t *args;
    bool user_set, workdir_set, has_from;
    json_t *entrypoint, *cmd, *health; /* string or array */
};

printf_like(3, 4) static int refuse(const struct reader *r, struct err *err, const char *fmt, ...)
{
    va_list ap;
    char why[200];

    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    return err_set(err, EINVAL, "line %d: %s", r->line, why);
}

static void append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) < 0) {
        abort(); /* NULL is what is not UTF-8, which dockerfile_parse() refused */
    }
}

static void step_add(struct reader *r, const char *type, json_t *args)
{
    append(r->file->steps, json_pack("{ssso}", "type", type, "args", args));
}

static json_t *text_json(struct str text)
{
    return json_stringn(text.at, text.len);
}

static void note(struct reader *r, struct str what)
{
    append(r->file->notes, json_sprintf("line %d: %.*s has no effect on a template and is ignored",
                                        r->line, (int)what.len, what.at));
}

/* ---- stages ---- */

static json_t *stage_make(const char *name, int number, const char *from, json_t *steps)
{
    json_t *stage = json_pack("{ss si ss so so sb}", "name", name, "number", number, "from", from,
                              "steps", steps, "copies", json_array(), "base", 0);
    if (!stage) {
        abort();
    }
    return stage;
}

/* The place in `stages` of the one with this name or number, or -1. The last of a name counts. */
static int stage_find(const struct reader *r, const char *name)
{
    char *end = NULL;
    long number = strtol(name, &end, 10);
    bool is_number = name[0] && !*end;
    int found = -1;
    const json_t *stage;
    size_t i;

    json_array_foreach (r->file->stages, i, stage) {
        bool same = is_number ? json_integer_value(json_object_get(stage, "number")) == number
                              : name[0] && strcasecmp(json_string_of(stage, "name"), name) == 0;
        found = same ? (int)i : found;
    }
    return found;
}

/* An image named by COPY --from is a stage without steps. */
static int stage_of_image(struct reader *r, const char *image)
{
    append(r->file->stages, stage_make(image, -1, image, json_array()));
    return (int)json_array_size(r->file->stages) - 1;
}

static void stage_close(struct reader *r)
{
    append(r->file->stages, stage_make(r->stage ? r->stage : "", r->stages_n++, r->file->from,
                                       move_ptr(&r->file->steps)));
    free(move_ptr(&r->file->from));
    free(move_ptr(&r->stage));
    json_decref(r->vars);
    json_decref(move_ptr(&r->entrypoint));
    json_decref(move_ptr(&r->cmd));
    json_decref(move_ptr(&r->health));
    r->vars = json_deep_copy(r->globals);
    r->file->steps = json_array();
    r->user_set = r->workdir_set = false;
}

/* ---- instructions ---- */

/* "AS name" behind an image. */
static int stage_name(struct reader *r, struct str rest, struct err *err)
{
    json_t *words = words_read(rest, r->vars, WORD_UNKNOWN_EMPTY);
    const char *as = json_string_value(json_array_get(words, 0));
    const char *name = json_string_value(json_array_get(words, 1));
    size_t n = json_array_size(words);
    int e = 0;

    if (n == 2 && as && name && strcasecmp(as, "AS") == 0) {
        r->stage = xstrdup(name);
    } else if (n != 0) {
        e = refuse(r, err, "FROM takes an image and, optionally, AS with a name");
    }
    json_decref(words);
    return e;
}

static void begin_with_image(struct reader *r, const char *image)
{
    int base = stage_find(r, image);

    if (base < 0 || isdigit((unsigned char)image[0])) {
        r->file->from = xstrdup(image);
        step_add(r, "USER", json_pack("[s]", "root"));
        step_add(r, "WORKDIR", json_pack("[s]", "/"));
        return;
    }
    json_t *stage = json_array_get(r->file->stages, (size_t)base);
    (void)json_object_set_new(stage, "base", json_true());
    if (asprintf(&r->file->from, "stage:%d", base) < 0) {
        abort();
    }
    /* The user, the directory and the variables continue from that stage. */
    r->user_set = r->workdir_set = true;
}

static int do_from(struct reader *r, struct str rest, struct err *err)
{
    scoped_buf(image, WORD_BYTES_MAX);

    if (!r->has_from) {
        r->globals = json_deep_copy(r->vars);
    } else {
        stage_close(r);
    }
    while (str_starts(rest, STR("--"))) { /* --platform: templates are for this machine */
        size_t n = str_find(rest, ' ');
        rest = str_trim(str_skip(rest, n));
    }
    int found = word_next(&rest, r->vars, WORD_UNKNOWN_EMPTY, &image);
    if (found <= 0 || buf_len(&image) == 0 || buf_append(&image, "", 1) < 0) {
        return refuse(r, err, "FROM names no image");
    }
    int e = stage_name(r, str_trim(rest), err);
    if (e < 0) {
        return e;
    }
    r->has_from = true;
    begin_with_image(r, buf_at(&image));
    return 0;
}

static int do_run(struct reader *r, struct str rest, struct err *err)
{
    json_t *words = json_loadb(rest.at, rest.len, 0, NULL);

    if (str_starts(rest, STR("--"))) {
        return refuse(r, err, "RUN with --mount and the like is not supported");
    }
    if (rest.len == 0) {
        return refuse(r, err, "RUN names no command");
    }
    if (json_is_array(words)) {
        char *command = words_quote(words);
        step_add(r, "RUN", json_pack("[s]", command));
        free(command);
    } else {
        step_add(r, "RUN", json_pack("[o]", text_json(rest)));
    }
    json_decref(words);
    return 0;
}

static bool is_archive(const char *name)
{
    static const char *const ends[] = {".tar",    ".tar.gz", ".tgz",    ".tar.bz2",
                                       ".tar.xz", ".txz",    ".tar.zst"};

    for (size_t i = 0; i < countof(ends); i++) {
        if (str_ends(str_of(name), str_of(ends[i]))) {
            return true;
        }
    }
    return false;
}

static int source_check(const struct reader *r, bool is_add, const char *source, struct err *err)
{
    if (is_add && strstr(source, "://")) {
        return refuse(r, err, "ADD of a URL is not supported: use RUN with curl");
    }
    if (is_add && is_archive(source)) {
        return refuse(r, err, "ADD does not unpack archives here: use COPY, and RUN with tar");
    }
    if (strncmp(source, "<<", 2) == 0) {
        return refuse(r, err, "here-documents are not supported");
    }
    return 0;
}

struct copy_flags {
    char owner[WORD_BYTES_MAX], mode[WORD_BYTES_MAX], from[WORD_BYTES_MAX];
};

static int copy_flag(const struct reader *r, struct str flag, struct copy_flags *out,
                     struct err *err)
{
    size_t equals = str_find(flag, '=');
    struct str name = {flag.at, equals}, value = str_skip(flag, equals + 1);

    if (str_eq(name, STR("--chown"))) {
        return str_copy(out->owner, sizeof(out->owner), value)
                   ? 0
                   : refuse(r, err, "--chown is too long");
    }
    if (str_eq(name, STR("--chmod"))) {
        return str_copy(out->mode, sizeof(out->mode), value)
                   ? 0
                   : refuse(r, err, "--chmod is too long");
    }
    if (str_eq(name, STR("--from"))) {
        return value.len && str_copy(out->from, sizeof(out->from), value)
                   ? 0
                   : refuse(r, err, "--from names no stage");
    }
    if (str_eq(name, STR("--link"))) {
        return 0;
    }
    return refuse(r, err, "%.*s is not supported", (int)(name.len < 80 ? name.len : 80), name.at);
}

/* Flags first; the words behind them, as an array, are the caller's. */
static int copy_words(const struct reader *r, struct str rest, struct copy_flags *flags,
                      json_t **out, struct err *err)
{
    scoped_buf(word, WORD_BYTES_MAX);

    while (str_starts(rest, STR("--"))) {
        int found = word_next(&rest, r->vars, WORD_UNKNOWN_EMPTY, &word);
        int e = found > 0 ? copy_flag(r, buf_str(&word), flags, err) : found;
        if (e < 0) {
            return found < 0 ? refuse(r, err, "a word is too long or a quote does not end") : e;
        }
        rest = str_trim(rest);
    }
    *out = json_loadb(rest.at, rest.len, 0, NULL);
    if (json_is_array(*out)) {
        return 0;
    }
    json_decref(*out);
    *out = words_read(rest, r->vars, WORD_UNKNOWN_EMPTY);
    return *out ? 0 : refuse(r, err, "a word is too long or a quote does not end");
}

/* A path of another stage is below its root, whether it begins with a slash or not. */
static int copy_from_stage(struct reader *r, const char *source, const char *target,
                           const struct copy_flags *flags, struct err *err)
{
    int at = stage_find(r, flags->from);

    at = at < 0 ? stage_of_image(r, flags->from) : at;
    source += strspn(source, "/");
    if (!*source || strcmp(source, ".") == 0) {
        return refuse(r, err, "COPY --from of a whole root is not supported: name directories");
    }
    json_t *copies = json_object_get(json_array_get(r->file->stages, (size_t)at), "copies");
    append(r->file->steps,
           json_pack("{ss s[ssss] si si}", "type", "COPY", "args", source, target, flags->owner,
                     flags->mode, "stage", at, "copy", (int)json_array_size(copies)));
    append(copies, json_string(source));
    return 0;
}

static int do_copy(struct reader *r, struct str rest, bool is_add, struct err *err)
{
    struct copy_flags flags = {.owner = ""};
    json_t *words = NULL;
    int e = copy_words(r, rest, &flags, &words, err);
    size_t n = json_array_size(words);
    const char *target = n ? json_string_value(json_array_get(words, n - 1)) : NULL;

    if (e == 0 && (n < 2 || !target)) {
        e = refuse(r, err, "%s needs a source and a target", is_add ? "ADD" : "COPY");
    }
    for (size_t i = 0; e == 0 && i + 1 < n; i++) {
        const char *source = json_string_value(json_array_get(words, i));
        e = source ? source_check(r, is_add, source, err) : refuse(r, err, "a source is no text");
        if (e == 0 && flags.from[0]) {
            e = copy_from_stage(r, source, target, &flags, err);
        } else if (e == 0) {
            step_add(r, "COPY", json_pack("[ssss]", source, target, flags.owner, flags.mode));
        }
    }
    json_decref(words);
    return e;
}

static void var_set(struct reader *r, const char *name, const char *value)
{
    if (json_object_set_new(r->vars, name, json_string(value)) < 0) {
        abort();
    }
}

/* "name=value ..." or the older form "name value to the end of the line". */
static int do_env(struct reader *r, struct str rest, struct err *err)
{
    size_t blank = 0;

    while (blank < rest.len && !isspace((unsigned char)rest.at[blank]) && rest.at[blank] != '=') {
        blank++;
    }
    if (blank == 0 || blank == rest.len) {
        return refuse(r, err, "ENV needs a name and a value");
    }
    json_t *args =
        rest.at[blank] == '=' ? pairs_read(rest, r->vars) : pair_read(rest, blank, r->vars);
    if (!args) {
        return refuse(r, err, "ENV needs pairs of the form name=value");
    }
    for (size_t i = 0; i + 1 < json_array_size(args); i += 2) {
        var_set(r, json_string_value(json_array_get(args, i)),
                json_string_value(json_array_get(args, i + 1)));
    }
    step_add(r, "ENV", args);
    return 0;
}

/* Before FROM an ARG is for FROM alone. */
static int do_arg(struct reader *r, struct str rest, struct err *err)
{
    json_t *words = words_read(rest, r->vars, WORD_UNKNOWN_EMPTY);
    const json_t *word;
    size_t i;

    if (json_array_size(words) == 0) {
        json_decref(words);
        return refuse(r, err, "ARG needs a name");
    }
    json_array_foreach (words, i, word) {
        char *name = xstrdup(json_string_value(word)), *equals = strchr(name, '=');
        if (equals) {
            *equals = '\0';
        }
        const char *given = json_string_of(r->args, name);
        const char *value = given ? given : equals ? equals + 1 : "";
        var_set(r, name, value);
        if (r->has_from) {
            step_add(r, "ARG", json_pack("[ss]", name, value));
        }
        free(name);
    }
    json_decref(words);
    return 0;
}

static int do_one_word(struct reader *r, const char *type, struct str rest, struct err *err)
{
    json_t *words = words_read(rest, r->vars, WORD_UNKNOWN_EMPTY);
    const char *word = json_string_value(json_array_get(words, 0));

    if (json_array_size(words) != 1 || !word[0]) {
        json_decref(words);
        return refuse(r, err, "%s needs one word", type);
    }
    step_add(r, type, json_pack("[s]", word));
    json_decref(words);
    return 0;
}

static int do_command(json_t **slot, struct str rest)
{
    json_decref(*slot);
    *slot = json_loadb(rest.at, rest.len, 0, NULL);
    if (!json_is_array(*slot)) {
        json_decref(*slot);
        *slot = text_json(rest);
    }
    return 0;
}

/* The ready command. Its intervals in the file are ignored. */
static int do_health(struct reader *r, struct str rest, struct err *err)
{
    while (str_starts(rest, STR("--"))) {
        rest = str_trim(str_skip(rest, str_find(rest, ' ')));
    }
    if (rest.len > 4 && str_ieq((struct str){rest.at, 4}, STR("CMD "))) {
        return do_command(&r->health, str_trim(str_skip(rest, 4)));
    }
    return str_ieq(rest, STR("NONE")) ? 0 : refuse(r, err, "HEALTHCHECK needs CMD or NONE");
}

/* ---- which ---- */

static bool is_ignored(struct str word)
{
    static const char *const ignored[] = {"EXPOSE", "VOLUME", "LABEL", "MAINTAINER", "STOPSIGNAL"};

    for (size_t i = 0; i < countof(ignored); i++) {
        if (str_ieq(word, str_of(ignored[i]))) {
            return true;
        }
    }
    return false;
}

static int instruction_do(struct reader *r, struct str word, struct str rest, struct err *err)
{
    if (str_ieq(word, STR("ARG"))) {
        return do_arg(r, rest, err);
    }
    if (str_ieq(word, STR("FROM"))) {
        return do_from(r, rest, err);
    }
    if (!r->has_from) {
        return refuse(r, err, "FROM must come first");
    }
    if (str_ieq(word, STR("RUN"))) {
        return do_run(r, rest, err);
    }
    if (str_ieq(word, STR("COPY")) || str_ieq(word, STR("ADD"))) {
        return do_copy(r, rest, word.len == 3, err);
    }
    if (str_ieq(word, STR("ENV"))) {
        return do_env(r, rest, err);
    }
    if (str_ieq(word, STR("WORKDIR"))) {
        r->workdir_set = true;
        return do_one_word(r, "WORKDIR", rest, err);
    }
    if (str_ieq(word, STR("USER"))) {
        r->user_set = true;
        return do_one_word(r, "USER", rest, err);
    }
    if (str_ieq(word, STR("CMD")) || str_ieq(word, STR("ENTRYPOINT"))) {
        return do_command(word.len == 3 ? &r->cmd : &r->entrypoint, rest);
    }
    if (str_ieq(word, STR("HEALTHCHECK"))) {
        return do_health(r, rest, err);
    }
    if (is_ignored(word)) {
        note(r, word);
        return 0;
    }
    return refuse(r, err, "the instruction %.*s is not supported",
                  (int)(word.len < 40 ? word.len : 40), word.at);
}

/* ---- lines ---- */

static bool is_comment(struct str line)
{
    line = str_trim(line);
    return line.len > 0 && line.at[0] == '#';
}

/* Gathers one instruction, continued over lines that end with '\'; comments between them do not
 * count. 0: there is no more. */
static int instruction_read(struct reader *r, struct err *err)
{
    struct str line;

    buf_clear(&r->text);
    while (str_split(&r->rest, '\n', &line)) {
        r->below++;
        line = str_ends(line, STR("\r")) ? (struct str){line.at, line.len - 1} : line;
        struct str trimmed = str_trim(line);
        if (is_comment(line) || trimmed.len == 0) {
            continue;
        }
        if (buf_len(&r->text) == 0) {
            r->line = r->below - 1;
        }
        bool goes_on = str_ends(trimmed, STR("\\"));
        line.len = (size_t)(trimmed.at + trimmed.len - line.at) - goes_on;
        if (buf_append(&r->text, line.at, line.len) < 0) {
            return refuse(r, err, "the instruction is longer than %d bytes", DOCKERFILE_BYTES_MAX);
        }
        if (!goes_on) {
            return 1;
        }
    }
    return buf_len(&r->text) > 0;
}

static int instructions_read(struct reader *r, struct err *err)
{
    int found;

    while ((found = instruction_read(r, err)) > 0) {
        struct str text = str_trim(buf_str(&r->text));
        size_t n = 0;
        while (n < text.len && !isspace((unsigned char)text.at[n])) {
            n++;
        }
        int e = instruction_do(r, (struct str){text.at, n}, str_trim(str_skip(text, n)), err);
        if (e < 0) {
            return e;
        }
        if (json_array_size(r->file->steps) > DOCKERFILE_STEPS_MAX) {
            return refuse(r, err, "there are more than %d instructions", DOCKERFILE_STEPS_MAX);
        }
        if (json_array_size(r->file->stages) > DOCKERFILE_STAGES_MAX) {
            return refuse(r, err, "there are more than %d stages", DOCKERFILE_STAGES_MAX);
        }
    }
    return found;
}

/* ---- the whole ---- */

static char *command_text(const json_t *command)
{
    return json_is_array(command) ? words_quote(command) : xstrdup(json_string_value(command));
}

/* As Docker joins them: CMD is what ENTRYPOINT gets, unless that is a shell's line. */
static char *start_make(const struct reader *r)
{
    const json_t *first = r->entrypoint ? r->entrypoint : r->cmd;

    if (!first) {
        return NULL;
    }
    if (json_is_string(first)) {
        return command_text(first);
    }
    json_t *all = json_copy((json_t *)(uintptr_t)first);
    if (r->entrypoint && json_is_array(r->cmd)) {
        (void)json_array_extend(all, r->cmd);
    }
    char *text = words_quote(all);
    json_decref(all);
    return text;
}

static int finish(struct reader *r, struct err *err)
{
    if (!r->has_from) {
        return err_set(err, EINVAL, "the Dockerfile has no FROM");
    }
    if (!r->user_set) {
        step_add(r, "USER", json_pack("[s]", "user"));
    }
    if (!r->workdir_set) {
        step_add(r, "WORKDIR", json_pack("[s]", "/home/user"));
    }
    scoped_text start = start_make(r);
    scoped_text ready = command_text(r->health);
    text_set(&r->file->start, start);
    text_set(&r->file->ready, ready);
    return 0;
}

void dockerfile_fini(struct dockerfile *file)
{
    free(move_ptr(&file->from));
    free(move_ptr(&file->start));
    free(move_ptr(&file->ready));
    json_decref(move_ptr(&file->steps));
    json_decref(move_ptr(&file->notes));
    json_decref(move_ptr(&file->stages));
}

static bool is_utf8(struct str text)
{
    json_t *json = text_json(text);

    json_decref(json);
    return json && !memchr(text.at, '\0', text.len);
}

int dockerfile_parse(struct str text, const json_t *args, struct dockerfile *out, struct err *err)
{
    struct dockerfile file = {.steps = json_array(), .stages = json_array(), .notes = json_array()};
    struct reader r = {
        .rest = text, .below = 1, .file = &file, .vars = json_object(), .args = args};

    buf_init(&r.text, DOCKERFILE_BYTES_MAX);
    int e = text.len == 0 || text.len > DOCKERFILE_BYTES_MAX || !is_utf8(text)
                ? err_set(err, EINVAL, "the Dockerfile is empty, too long, or not UTF-8")
                : instructions_read(&r, err);
    if (e == 0) {
        e = finish(&r, err);
    }
    buf_fini(&r.text);
    json_decref(r.vars);
    json_decref(r.globals);
    free(r.stage);
    json_decref(r.entrypoint);
    json_decref(r.cmd);
    json_decref(r.health);
    if (e < 0) {
        dockerfile_fini(&file);
        return e;
    }
    *out = file;
    return 0;
}
