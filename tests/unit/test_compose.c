/* POST /files/compose on the real agent. */
#include <errno.h>
#include <sys/stat.h>

#include "agent_fixture.h"
#include "check.h"

enum {
    BIG_BYTES = 80 * 1000 * 1000 + 3, /* more than one step */
    PARTS_MAX = 3,
};

static struct agent_child agent;

static void file_put(const struct tmpdir *dir, const char *name, const char *text)
{
    int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) < 0) {
        abort();
    }
}

static const char *file_text(const struct tmpdir *dir, const char *name)
{
    static char text[256];
    int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n < 0 ? "(none)" : text;
}

static bool file_exists(const struct tmpdir *dir, const char *name)
{
    return faccessat(dir->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int post(const char *body, json_t **out)
{
    scoped_client(c);

    client_open(&c, agent.port);
    return client_unary(&c, "/files/compose", "", str_of(body), out);
}

/* Names are below dir; the status, and the answer's text at `key`. */
static int compose(const struct tmpdir *dir, const char *const parts[PARTS_MAX],
                   const char *destination, const char *key, char value[256])
{
    char path[256];
    json_auto_t *body = json_object();
    json_auto_t *out = NULL;
    json_t *sources = json_array();

    for (size_t i = 0; i < PARTS_MAX && parts[i]; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir->path, parts[i]);
        (void)json_array_append_new(sources, json_string(path));
    }
    (void)snprintf(path, sizeof(path), "%s/%s", dir->path, destination);
    (void)json_object_set_new(body, "source_paths", sources);
    (void)json_object_set_new(body, "destination", json_string(path));
    char *text = json_dumps(body, 0);
    int status = post(text, &out);
    free(text);
    (void)snprintf(value, 256, "%s", json_text(out, key, NULL));
    return status;
}

static void parts_become_one(void)
{
    scoped_tmpdir dir = tmpdir_make();
    const char *const parts[PARTS_MAX] = {"a", "b", "c"};
    char value[256], wanted[256];
    struct stat st;

    file_put(&dir, "a", "one ");
    file_put(&dir, "b", "");
    file_put(&dir, "c", "two");
    (void)snprintf(wanted, sizeof(wanted), "%s/new/deep/all", dir.path);
    CHECK_INT(compose(&dir, parts, "new/deep/all", "path", value), 200);
    CHECK_STR(value, wanted);
    CHECK_STR(file_text(&dir, "new/deep/all"), "one two");
    CHECK_INT(fstatat(dir.fd, "new/deep/all", &st, 0), 0);
    CHECK_INT(st.st_mode & 07777, 0644);
    CHECK(!file_exists(&dir, "a") && !file_exists(&dir, "b") && !file_exists(&dir, "c"));
}

static void many_megabytes(void)
{
    scoped_tmpdir dir = tmpdir_make();
    const char *const parts[PARTS_MAX] = {"big", "tail"};
    char value[256], last[5] = "";
    struct stat st;

    file_put(&dir, "big", "");
    file_put(&dir, "tail", "tail");
    int fd = openat(dir.fd, "big", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, BIG_BYTES) == 0 && close(fd) == 0);
    CHECK_INT(compose(&dir, parts, "all", "name", value), 200);
    CHECK_STR(value, "all");
    fd = openat(dir.fd, "all", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    CHECK_INT(st.st_size, BIG_BYTES + 4);
    CHECK_INT(pread(fd, last, 4, BIG_BYTES), 4);
    CHECK_STR(last, "tail");
    CHECK_INT(close(fd), 0);
}

static void a_failure_changes_nothing(void)
{
    scoped_tmpdir dir = tmpdir_make();
    const char *const missing[PARTS_MAX] = {"a", "missing"};
    const char *const directory[PARTS_MAX] = {"a", "d"};
    const char *const itself[PARTS_MAX] = {"a", "all"};
    const char *const linked[PARTS_MAX] = {"a", "link"};
    const char *const fine[PARTS_MAX] = {"a"};
    char value[256];

    file_put(&dir, "a", "text");
    file_put(&dir, "all", "old");
    CHECK_INT(mkdirat(dir.fd, "d", 0755), 0);
    CHECK_INT(symlinkat("all", dir.fd, "link"), 0);
    CHECK_INT(compose(&dir, missing, "all", "message", value), 404);
    CHECK(strstr(value, "missing"));
    CHECK_INT(compose(&dir, directory, "all", "message", value), 400);
    CHECK_INT(compose(&dir, itself, "all", "message", value), 400);
    CHECK_INT(compose(&dir, linked, "all", "message", value), 400);
    CHECK_INT(compose(&dir, fine, "d", "message", value), 400);
    CHECK_INT(compose(&dir, fine, "a/b", "message", value), 400);
    CHECK_STR(file_text(&dir, "a"), "text");
    CHECK_STR(file_text(&dir, "all"), "old");
    CHECK_INT(compose(&dir, fine, "all", "path", value), 200); /* replaces */
    CHECK_STR(file_text(&dir, "all"), "text");
}

static void bad_requests_say_why(void)
{
    static const struct {
        const char *body;
        int status;
        const char *says;
    } cases[] = {
        {"", 400, "JSON"},
        {"[]", 400, "JSON"},
        {"{\"source_paths\":[", 400, "JSON"},
        {"{\"source_paths\":[],\"destination\":\"/tmp/x\"}", 400, "source_paths"},
        {"{\"source_paths\":\"/a\",\"destination\":\"/tmp/x\"}", 400, "source_paths"},
        {"{\"source_paths\":[1],\"destination\":\"/tmp/x\"}", 400, "source_paths"},
        {"{\"source_paths\":[\"/a\"]}", 400, "destination"},
        {"{\"source_paths\":[\"/a\"],\"destination\":\"\"}", 400, "destination"},
        {"{\"source_paths\":[\"/a\"],\"destination\":\"/b\",\"username\":1}", 400, "username"},
        {"{\"source_paths\":[\"/a\"],\"destination\":\"/b\",\"username\":\"no such\"}", 401,
         "unknown user"},
        {"{\"source_paths\":[\"~x/a\"],\"destination\":\"/b\"}", 400, "source path"},
    };

    for (size_t i = 0; i < countof(cases); i++) {
        json_auto_t *out = NULL;
        CHECK_INT(post(cases[i].body, &out), cases[i].status);
        CHECK_THAT(strstr(json_text(out, "message", NULL), cases[i].says), "'%s' says '%s'",
                   cases[i].body, json_text(out, "message", NULL));
    }
}

static void other_methods_are_refused(void)
{
    scoped_client(c);

    client_open(&c, agent.port);
    CHECK(client_request(&c, "GET", "/files/compose", "", STR("")));
    CHECK_INT(c.status, 405);
}

static void agent_is_still_there(void)
{
    CHECK(agent_stop(&agent));
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"parts become one file", parts_become_one},
        {"many megabytes in steps", many_megabytes},
        {"a failure changes nothing", a_failure_changes_nothing},
        {"bad requests say why", bad_requests_say_why},
        {"other methods are refused", other_methods_are_refused},
        {"the agent has survived", agent_is_still_there},
    };

    if (argc != 2 || !agent_start(&agent, argv[1], false)) {
        printf("Bail out! the agent does not start\n");
        return 1;
    }
    return check_run(tests, countof(tests));
}
