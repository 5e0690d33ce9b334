/* The interpreter's parts that need no kernel: messages, commands, results, specifications. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "inside/interpreter/json_read.h"
#include "inside/interpreter/jupyter_wire.h"
#include "inside/interpreter/pipe_wire.h"
#include "inside/interpreter/result.h"
#include "inside/interpreter/snippet.h"
#include "inside/interpreter/spec.h"
#include "lib/base/buf.h"
#include "lib/base/utf8.h"
#include "tmpdir.h"

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Compares as JSON, whatever the order of members. */
#define CHECK_JSON(value, text)                                                                    \
    do {                                                                                           \
        json_auto_t *value_ = (value);                                                             \
        json_auto_t *want_ = json_loads((text), JSON_DECODE_ANY, NULL);                            \
        char *shown_ = json_dumps(value_, JSON_ENCODE_ANY | JSON_SORT_KEYS);                       \
        bool same_ = json_equal(value_, want_);                                                    \
        if (!same_) {                                                                              \
            printf("# %s\n", shown_ ? shown_ : "nothing");                                         \
        }                                                                                          \
        free(shown_);                                                                              \
        CHECK_THAT(same_, "it is not %s", (text));                                                 \
    } while (0)

/* ---- JSON as kernels write it ---- */

static void broken_text_is_read_with_marks(void)
{
    CHECK_JSON(json_read(STR("{\"a\": \"x\xff\"}")), "{\"a\": \"x\xef\xbf\xbd\"}");
    CHECK_JSON(json_read(STR("\"\\ud83d\\ude00\"")), "\"\xf0\x9f\x98\x80\"");
    CHECK_JSON(json_read(STR("\"\\ud83dx\"")), "\"\xef\xbf\xbdx\"");
    CHECK_JSON(json_read(STR("\"\\ude00\\ud83d\"")), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    CHECK_JSON(json_read(STR("\"\\\\ud83d\xff\"")), "\"\\\\ud83d\xef\xbf\xbd\"");
    CHECK(!json_read(STR("{")));
    CHECK(!json_read(STR("")));
    CHECK(!json_read(STR("\"\\ud83")));
}

static void unfinished_characters_are_known(void)
{
    static const struct {
        const char *text;
        size_t n;
    } cases[] = {{"", 0},
                 {"a", 0},
                 {"\xe2", 1},
                 {"a\xe2\x82", 2},
                 {"\xe2\x82\xac", 0},
                 {"\xf0\x9f\x98", 3},
                 {"\xff", 0},
                 {"\x80\x80\x80\x80", 0},
                 {"\xc3", 1},
                 {"\xc3\xa9", 0}};

    for (size_t i = 0; i < countof(cases); i++) {
        CHECK_INT(utf8_unfinished(str_of(cases[i].text)), cases[i].n);
    }
}

/* ---- the Jupyter protocol ---- */

static void what_is_packed_can_be_read(void)
{
    json_auto_t *content = json_pack("{s:s}", "code", "1 + 1");
    struct str frames[JUPYTER_PACKED_FRAMES + 1] = {STR("a routing id")};
    scoped_packed(packed);
    scoped_message message = {NULL, NULL, NULL};
    struct err err;

    CHECK_INT(jupyter_pack(KEY, "session", "id-1", "execute_request", content, &packed), 0);
    memcpy(&frames[1], packed.frames, sizeof(packed.frames));
    CHECK_INT(jupyter_read(KEY, frames, countof(frames), &message, &err), 0);
    CHECK_STR(json_text(message.header, "msg_id"), "id-1");
    CHECK_STR(json_text(message.header, "msg_type"), "execute_request");
    CHECK_STR(json_text(message.content, "code"), "1 + 1");
}

static void what_is_not_signed_is_refused(void)
{
    struct str frames[] = {STR("<IDS|MSG>"), STR("0000"), STR("{}"),
                           STR("{}"),        STR("{}"),   STR("{}")};
    scoped_message message = {NULL, NULL, NULL};
    struct err err;

    CHECK_INT(jupyter_read(KEY, frames, countof(frames), &message, &err), -EPERM);
    /* HMAC-SHA256 of "{}{}{}{}" with the key, by another implementation. */
    frames[1] = STR("0ee7d17ae86abc0cee1bd81134695c067c6bc97624b00611424d066cc9b8a6ff");
    CHECK_INT(jupyter_read(KEY, frames, countof(frames), &message, &err), 0);
    jupyter_message_fini(&message);
    frames[5] = STR("{ }");
    CHECK_INT(jupyter_read(KEY, frames, countof(frames), &message, &err), -EPERM);
    CHECK_INT(jupyter_read(KEY, frames, 5, &message, &err), -EBADMSG);
    CHECK_INT(jupyter_read(KEY, frames, 0, &message, &err), -EBADMSG);
    CHECK_INT(jupyter_read(KEY, frames + 1, 5, &message, &err), -EBADMSG);
}

/* ---- pipe kernels ---- */

static void commands_are_words(void)
{
    scoped_buf(line, PIPE_COMMAND_BYTES_MAX);
    json_auto_t *env = json_pack("{s:s, s:s}", "A", "1", "B", "x y");
    struct kernel_run run = {.code = STR("1+1"), .env = env, .fresh = true};

    CHECK_INT(pipe_command_write(&line, NULL, 7, &run), 0);
    CHECK(str_eq(buf_str(&line), STR("run 7 MSsx QT0x,Qj14IHk= - 1\n")));
    buf_clear(&line);
    run = (struct kernel_run){.code = STR("")};
    CHECK_INT(pipe_command_write(&line, "go {code} {id} {env}; {other}", 8, &run), 0);
    CHECK(str_eq(buf_str(&line), STR("go - 8 -; {other}\n")));
}

static void events_have_known_types(void)
{
    scoped_event event = {.fields = NULL};

    CHECK_INT(pipe_event_read(STR("{\"type\":\"done\",\"id\":3}"), &event), 0);
    CHECK_INT(event.type, PIPE_DONE);
    CHECK_INT(json_integer_value(json_object_get(event.fields, "id")), 3);
    pipe_event_fini(&event);
    CHECK_INT(pipe_event_read(STR("{\"type\":\"other\"}"), &event), -EBADMSG);
    CHECK_INT(pipe_event_read(STR("{\"type\":5}"), &event), -EBADMSG);
    CHECK_INT(pipe_event_read(STR("[]"), &event), -EBADMSG);
    CHECK_INT(pipe_event_read(STR("no JSON"), &event), -EBADMSG);
    CHECK_INT(pipe_event_read(STR(""), &event), -EBADMSG);
}

/* ---- results ---- */

static json_t *result_of(const char *bundle, bool is_main)
{
    json_auto_t *map = json_loads(bundle, 0, NULL);

    return result_make(map, is_main);
}

static void bundles_become_results(void)
{
    CHECK_JSON(result_of("{\"text/plain\": \"'a'\"}", true),
               "{\"type\": \"result\", \"text\": \"a\", \"is_main_result\": true}");
    CHECK_JSON(result_of("{\"text/plain\": \"'\"}", false),
               "{\"type\": \"result\", \"text\": \"'\", \"is_main_result\": false}");
    CHECK_JSON(result_of("{\"text/plain\": \"'a\\\"\", \"image/png\": null}", false),
               "{\"type\": \"result\", \"text\": \"'a\\\"\", \"is_main_result\": false}");
    CHECK_JSON(result_of("{\"text/html\": [\"<a\", \">\"], \"e2b/data\": [1], \"x/y\": 5}", true),
               "{\"type\": \"result\", \"html\": \"<a>\", \"data\": [1], \"extra\": {\"x/y\": 5}, "
               "\"is_main_result\": true}");
    CHECK_JSON(error_make(STR("E"), STR("\xff"), STR("")),
               "{\"type\": \"error\", \"name\": \"E\", \"value\": \"\xef\xbf\xbd\", "
               "\"traceback\": \"\"}");
    CHECK_JSON(text_make(true, STR("a"), "then"),
               "{\"type\": \"stderr\", \"text\": \"a\", \"timestamp\": \"then\"}");
}

/* ---- what runs before a cell ---- */

static void snippets_are_for_those_who_need_them(void)
{
    json_auto_t *env = json_pack("{s:s}", "A", "it's \"so\"\n");
    struct kernel_run run = {.code = STR("1"), .env = env};
    char *text = snippet_prepare("r", &run);

    CHECK(text && strstr(text, "Sys.setenv(\"A\"=\"it's \\\"so\\\"\\n\")"));
    free(text);
    text = snippet_prepare("python", &run);
    CHECK(text && strstr(text, "env=\"{\\\"A\\\": \\\"it's \\\\\\\"so\\\\\\\"\\\\n\\\"}\""));
    free(text);
    CHECK(!snippet_prepare("cobol", &run));
    CHECK(!snippet_restore("cobol"));
    CHECK(!snippet_prepare("python", &(struct kernel_run){.code = STR("1")}));
}

/* ---- specifications ---- */

static void names_of_languages_are_read(void)
{
    char name[SPEC_NAME_LEN_MAX + 1];

    CHECK_INT(spec_language(STR(" JS "), name), 0);
    CHECK_STR(name, "javascript");
    CHECK_INT(spec_language(STR("TS"), name), 0);
    CHECK_STR(name, "typescript");
    CHECK_INT(spec_language(STR(""), name), 0);
    CHECK_STR(name, "python");
    CHECK_INT(spec_language(STR("c++"), name), 0);
    CHECK_INT(spec_language(STR("../x"), name), -EINVAL);
    CHECK_INT(spec_language(STR(".."), name), -EINVAL);
    CHECK_INT(spec_language(STR("a b"), name), -EINVAL);
    CHECK_INT(spec_language(STR("a\0b"), name), -EINVAL);
    CHECK_INT(spec_language(
                  STR("0123456789012345678901234567890123456789012345678901234567890123456"), name),
              -EINVAL);
}

static void spec_write(const struct tmpdir *dir, const char *name, const char *text)
{
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s", dir->path, name);
    (void)mkdir(path, 0755);
    (void)snprintf(path, sizeof(path), "%s/%s/kernel.json", dir->path, name);
    FILE *file = fopen(path, "we");
    if (file) {
        (void)fputs(text, file);
        (void)fclose(file);
    }
}

static void specifications_are_found_and_checked(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct spec *spec = NULL;
    struct err err;

    spec_write(&dir, "Odd",
               "{\"argv\": [\"x\", \"{resource_dir}/y\"], \"language\": \"Odd\", "
               "\"interrupt_mode\": \"message\", "
               "\"metadata\": {\"atoll\": {\"transport\": \"pipe\"}}}");
    spec_write(&dir, "bad", "{\"argv\": [\"x\", 5]}");
    spec_write(&dir, "empty", "{\"argv\": []}");
    spec_write(&dir, "env", "{\"argv\": [\"x\"], \"env\": {\"A\": 1}}");
    spec_write(&dir, "text", "no JSON");
    CHECK_INT(spec_find(dir.path, "odd", &spec, &err), 0);
    CHECK_INT(spec->transport, SPEC_PIPE);
    CHECK(spec->waits && spec->interrupts_by_message);
    CHECK_STR(spec->language, "odd");
    spec_free(spec);
    CHECK_INT(spec_find(dir.path, "bad", &spec, &err), -EINVAL);
    CHECK_INT(spec_find(dir.path, "empty", &spec, &err), -EINVAL);
    CHECK_INT(spec_find(dir.path, "env", &spec, &err), -EINVAL);
    CHECK_INT(spec_find(dir.path, "text", &spec, &err), -EINVAL);
    CHECK_INT(spec_find(dir.path, "no-such-kernel", &spec, &err), -ENOENT);
    CHECK(strstr(err.msg, "no-such-kernel"));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"bytes and halves of pairs that are no text are read as marks",
         broken_text_is_read_with_marks},
        {"a character that is not whole yet is known", unfinished_characters_are_known},
        {"a message that is packed can be read", what_is_packed_can_be_read},
        {"a message without its signature is refused", what_is_not_signed_is_refused},
        {"commands to pipe kernels are words in a line", commands_are_words},
        {"events of pipe kernels have known types", events_have_known_types},
        {"MIME bundles become results", bundles_become_results},
        {"only languages that need one get a program before the cell",
         snippets_are_for_those_who_need_them},
        {"names of languages are read, and no path is one", names_of_languages_are_read},
        {"specifications are found by name and checked", specifications_are_found_and_checked},
    };
    return check_run(tests, countof(tests));
}
