/* A soak of the real agent: random operations of every kind, each compared with what is known.
 *
 * The test keeps a model of the files (their size and SHA-256) and of commands that are under way;
 * every byte that the agent takes or gives is compared by checksum. ATOLL_SOAK_OPERATIONS says how
 * many operations (10,000 for a thorough run), ATOLL_SOAK_SEED repeats a run. */
#include <dirent.h>
#include <inttypes.h>
#include <time.h>

#include "agent_fixture.h"
#include "check.h"

enum {
    OPERATIONS = 300, /* a few seconds under a sanitizer */
    FILES = 24,
    COMMANDS = 8,
    FILE_BITS_MAX = 19,          /* half a megabyte: less than is kept for a late reader */
    INPUT_BYTES_MAX = 24 * 1024, /* a few fit into the buffers on the way to a reader who waits */
    INPUTS_MAX = 3,
    POLLS = 1000,
    POLL_US = 10 * 1000,
};

struct file {
    bool exists;
    size_t size;
    char hash[SHA256_HEX_LEN + 1];
};

/* A command seen from a client. Both outputs are expected to carry the same bytes. */
struct command {
    struct client client;
    bool running;
    bool attached;
    long long pid;
    struct buf out;
    struct buf err;
    bool ended;
    long long exit_code;
    char status[64];
    struct file wanted;
};

static struct agent_child agent;
static struct tmpdir dir;
static struct file files[FILES];
static struct command commands[COMMANDS];
static size_t sockets_at_start;
static uint64_t state;

/* ---- chance ---- */

static uint64_t chance_next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t below(size_t bound)
{
    return (size_t)(chance_next() % bound);
}

/* Small sizes are as likely as large ones, and nothing at all happens too. */
static void random_bytes(struct buf *out, size_t bits_max)
{
    size_t len = below(((size_t)1 << below(bits_max + 1)) + 1);
    char *at;

    buf_init(out, CLIENT_BYTES_MAX);
    if (buf_reserve(out, len + sizeof(uint64_t), &at) < 0) {
        abort();
    }
    for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
        uint64_t word = chance_next();
        memcpy(at + i, &word, sizeof(word));
    }
    buf_commit(out, len);
}

static struct file file_of(const struct buf *bytes)
{
    struct file file = {.exists = true, .size = buf_len(bytes)};

    sha256_hex(file.size ? buf_at(bytes) : "", file.size, file.hash);
    return file;
}

static void path_of(size_t i, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/f%zu", dir.path, i);
}

/* ---- the client ---- */

/* A unary call with a body that it takes over; the HTTP status. */
static int ask(const char *method, json_t *body, json_t **out)
{
    scoped_client(c);
    json_t *answer = NULL;
    char *text = json_dumps(body, 0);

    client_open(&c, agent.port);
    int status = client_unary(&c, method, "", str_of(text), &answer);
    free(text);
    json_decref(body);
    if (out) {
        *out = answer;
    } else {
        json_decref(answer);
    }
    return status;
}

static int ask_path(const char *method, size_t i, json_t **out)
{
    char path[PATH_MAX];

    path_of(i, path);
    return ask(method, json_pack("{s:s}", "path", path), out);
}

static void command_fini(struct command *command)
{
    if (command->attached) {
        client_close(&command->client);
    }
    buf_fini(&command->out);
    buf_fini(&command->err);
    *command = (struct command){0};
}
#define scoped_command scoped(command_fini) struct command

static void collect(struct buf *out, const char *text)
{
    if (*text && base64_decode(out, str_of(text)) < 0) {
        abort();
    }
}

/* Takes one message of the stream; false after the last. */
static bool command_step(struct command *command)
{
    uint8_t flags = 0;
    json_auto_t *message = client_next(&command->client, &flags);
    const json_t *event = json_object_get(message, "event");
    const json_t *start = json_object_get(event, "start");
    const json_t *end = json_object_get(event, "end");

    if (!message || flags == 2) {
        return false;
    }
    if (start) {
        command->pid = json_integer_value(json_object_get(start, "pid"));
    }
    collect(&command->out, json_text(event, "data", "stdout"));
    collect(&command->err, json_text(event, "data", "stderr"));
    if (end) {
        command->ended = true;
        command->exit_code = json_integer_value(json_object_get(end, "exitCode"));
        (void)snprintf(command->status, sizeof(command->status), "%s",
                       json_text(end, "status", NULL));
    }
    return true;
}

static void command_rest(struct command *command)
{
    while (command_step(command)) {
    }
}

static bool command_stream(struct command *command, const char *method, json_t *body)
{
    char *text = json_dumps(body, 0);

    client_open(&command->client, agent.port);
    command->attached = true;
    bool ok = client_stream(&command->client, method, "", text) && command_step(command);
    free(text);
    json_decref(body);
    return ok && command->pid > 0;
}

/* A shell script whose $1 is the path of a file. */
static bool command_start(struct command *command, const char *script, size_t i)
{
    char path[PATH_MAX];

    path_of(i, path);
    *command = (struct command){.running = true, .wanted = files[i]};
    buf_init(&command->out, CLIENT_BYTES_MAX);
    buf_init(&command->err, CLIENT_BYTES_MAX);
    return command_stream(command, "/process.Process/Start",
                          json_pack("{s:{s:s,s:[s,s,s,s]}}", "process", "cmd", "/bin/sh", "args",
                                    "-c", script, "sh", path));
}

static json_t *process_of(const struct command *command)
{
    return json_pack("{s:{s:I}}", "process", "pid", (json_int_t)command->pid);
}

static bool command_attach(struct command *command)
{
    return command_stream(command, "/process.Process/Connect", process_of(command));
}

static int command_signal(const struct command *command, const char *name)
{
    json_t *body = process_of(command);

    (void)json_object_set_new(body, "signal", json_string(name));
    return ask("/process.Process/SendSignal", body, NULL);
}

static int command_input(const struct command *command, const void *data, size_t len)
{
    scoped_buf(text, CLIENT_BYTES_MAX);
    json_t *body = process_of(command);

    if (base64_encode(&text, data, len, BASE64_STD) < 0) {
        abort();
    }
    struct str encoded = buf_str(&text);
    json_t *stdin_text = json_stringn(encoded.len ? encoded.at : "", encoded.len);
    (void)json_object_set_new(body, "input", json_pack("{s:o}", "stdin", stdin_text));
    return ask("/process.Process/SendInput", body, NULL);
}

/* Whether both outputs are the file's bytes. */
static bool command_printed(const struct command *command)
{
    struct file out = file_of(&command->out), err = file_of(&command->err);

    return strcmp(out.hash, command->wanted.hash) == 0 &&
           strcmp(err.hash, command->wanted.hash) == 0;
}

/* ---- files ---- */

static int upload_part(struct client *c, const char *url, const struct buf *bytes)
{
    static const char head[] = "--soak\r\nContent-Disposition: form-data; name=\"file\"; "
                               "filename=\"f\"\r\n\r\n";
    scoped_buf(body, CLIENT_BYTES_MAX);

    if (buf_append(&body, head, sizeof(head) - 1) < 0 ||
        (buf_len(bytes) && buf_append(&body, buf_at(bytes), buf_len(bytes)) < 0) ||
        buf_printf(&body, "\r\n--soak--\r\n") < 0) {
        abort();
    }
    return client_request(c, "POST", url, "Content-Type: multipart/form-data; boundary=soak\r\n",
                          buf_str(&body))
               ? c->status
               : -1;
}

static int upload_whole(struct client *c, const char *url, const struct buf *bytes)
{
    return client_request(c, "POST", url, "Content-Type: application/octet-stream\r\n",
                          buf_str(bytes))
               ? c->status
               : -1;
}

static int upload(size_t i)
{
    scoped_client(c);
    scoped_buf(bytes, CLIENT_BYTES_MAX);
    char path[PATH_MAX], url[PATH_MAX + 16];

    path_of(i, path);
    (void)snprintf(url, sizeof(url), "/files?path=%s", path);
    random_bytes(&bytes, FILE_BITS_MAX);
    client_open(&c, agent.port);
    int status = below(2) ? upload_part(&c, url, &bytes) : upload_whole(&c, url, &bytes);
    if (status == 200) {
        files[i] = file_of(&bytes);
    }
    return status;
}

/* The whole file, and nothing behind it. */
static void download(size_t i)
{
    scoped_client(c);
    scoped_buf(bytes, CLIENT_BYTES_MAX);
    char path[PATH_MAX], url[PATH_MAX + 16], byte, *at;

    path_of(i, path);
    (void)snprintf(url, sizeof(url), "/files?path=%s", path);
    client_open(&c, agent.port);
    CHECK(client_request(&c, "GET", url, "Connection: close\r\n", str_of("")));
    CHECK_INT(c.status, files[i].exists ? 200 : 404);
    if (files[i].exists) {
        CHECK_INT(buf_reserve(&bytes, files[i].size + 1, &at), 0);
        CHECK(client_body(&c, at, files[i].size));
        CHECK(!client_body(&c, &byte, 1));
        buf_commit(&bytes, files[i].size);
        CHECK_STR(file_of(&bytes).hash, files[i].hash);
    }
}

static size_t files_that_exist(void)
{
    size_t n = 0;

    for (size_t i = 0; i < FILES; i++) {
        n += files[i].exists;
    }
    return n;
}

/* ---- operations ---- */

static void op_upload(void)
{
    CHECK_INT(upload(below(FILES)), 200);
}

static void op_download(void)
{
    download(below(FILES));
}

static void op_stat(void)
{
    json_auto_t *out = NULL;
    size_t i = below(FILES);

    CHECK_INT(ask_path("/filesystem.Filesystem/Stat", i, &out), files[i].exists ? 200 : 404);
    if (files[i].exists) {
        CHECK_INT(atoll(json_text(json_object_get(out, "entry"), "size", NULL)), files[i].size);
    }
}

/* Nothing is missing, and no half-written file is left beside the others. */
static void op_list(void)
{
    json_auto_t *out = NULL;

    CHECK_INT(ask("/filesystem.Filesystem/ListDir", json_pack("{s:s}", "path", dir.path), &out),
              200);
    CHECK_INT(json_array_size(json_object_get(out, "entries")), files_that_exist());
}

static void op_move(void)
{
    char from[PATH_MAX], to[PATH_MAX];
    size_t i = below(FILES), j = (i + 1 + below(FILES - 1)) % FILES;
    bool exists = files[i].exists;

    path_of(i, from);
    path_of(j, to);
    CHECK_INT(ask("/filesystem.Filesystem/Move",
                  json_pack("{s:s,s:s}", "source", from, "destination", to), NULL),
              exists ? 200 : 404);
    if (exists) {
        files[j] = files[i];
        files[i] = (struct file){0};
    }
}

static void op_remove(void)
{
    size_t i = below(FILES);

    CHECK_INT(ask_path("/filesystem.Filesystem/Remove", i, NULL), 200);
    files[i] = (struct file){0};
}

static bool watcher_told(json_t *id, const char *name)
{
    json_auto_t *out = NULL;
    size_t i;
    const json_t *event;

    if (ask("/filesystem.Filesystem/GetWatcherEvents", json_pack("{s:O}", "watcherId", id), &out) !=
        200) {
        return false;
    }
    json_array_foreach (json_object_get(out, "events"), i, event) {
        if (strcmp(json_text(event, "name", NULL), name) == 0) {
            return true;
        }
    }
    return false;
}

static void op_watch(void)
{
    json_auto_t *out = NULL;
    size_t i = below(FILES);
    char name[32];
    bool told = false;

    (void)snprintf(name, sizeof(name), "f%zu", i);
    CHECK_INT(
        ask("/filesystem.Filesystem/CreateWatcher", json_pack("{s:s}", "path", dir.path), &out),
        200);
    json_t *id = json_object_get(out, "watcherId");
    CHECK(json_is_string(id));
    CHECK_INT(upload(i), 200);
    for (int n = 0; n < POLLS && !(told = watcher_told(id, name)); n++) {
        (void)usleep(POLL_US);
    }
    CHECK_THAT(told, "the watch of %s did not tell of %s", dir.path, name);
    CHECK_INT(
        ask("/filesystem.Filesystem/RemoveWatcher", json_pack("{s:O}", "watcherId", id), NULL),
        200);
}

static void op_print(void)
{
    scoped_command command = {0};
    size_t i = below(FILES);

    CHECK(command_start(&command, "cat \"$1\" && cat \"$1\" >&2 || exit 7", i));
    command_rest(&command);
    CHECK(command.ended);
    CHECK_INT(command.exit_code, files[i].exists ? 0 : 7);
    CHECK(!files[i].exists || command_printed(&command));
}

static void op_kill(void)
{
    scoped_command command = {0};
    json_auto_t *out = NULL;
    bool hard = below(2), listed = false;
    size_t n;
    const json_t *process;

    CHECK(command_start(&command, "exec sleep 1000", 0));
    CHECK_INT(ask("/process.Process/List", json_object(), &out), 200);
    json_array_foreach (json_object_get(out, "processes"), n, process) {
        listed = listed || json_integer_value(json_object_get(process, "pid")) == command.pid;
    }
    CHECK(listed);
    CHECK_INT(command_signal(&command, hard ? "SIGNAL_SIGKILL" : "SIGNAL_SIGTERM"), 200);
    command_rest(&command);
    CHECK_STR(command.status, hard ? "signal: killed" : "signal: terminated");
}

static void op_input(void)
{
    scoped_command command = {0};
    scoped_buf(all, INPUTS_MAX * INPUT_BYTES_MAX);

    CHECK(command_start(&command, "tee /dev/stderr", 0));
    for (size_t left = below(INPUTS_MAX + 1); left > 0; left--) {
        char bytes[INPUT_BYTES_MAX];
        size_t len = 1 + below(sizeof(bytes));

        for (size_t i = 0; i < len; i++) {
            bytes[i] = (char)chance_next();
        }
        CHECK_INT(buf_append(&all, bytes, len), 0);
        CHECK_INT(command_input(&command, bytes, len), 200);
    }
    CHECK_INT(ask("/process.Process/CloseStdin", process_of(&command), NULL), 200);
    command_rest(&command);
    command.wanted = file_of(&all);
    CHECK_INT(buf_len(&command.out), buf_len(&all));
    CHECK(command_printed(&command));
    CHECK_INT(command.exit_code, 0);
}

/* A command that holds a file open, whatever becomes of its name, until it is told to print it. */
static void background_start(struct command *command)
{
    size_t i = below(FILES);

    if (!files[i].exists) {
        return;
    }
    CHECK(command_start(command, "exec 3<\"$1\" 4<\"$1\"; echo; read x; cat <&3; cat <&4 >&2", i));
    while (buf_len(&command->out) == 0 && command_step(command)) {
    }
    CHECK_INT(buf_len(&command->out), 1);
    buf_consume(&command->out, 1);
    if (below(2)) {
        client_close(&command->client); /* gone without a word */
        command->attached = false;
    }
}

/* A reader who left comes back before, while or after it prints. */
static void background_finish(struct command *command)
{
    bool late = below(2);

    if (!late && !command->attached) {
        CHECK(command_attach(command));
    }
    CHECK_INT(command_input(command, "\n", 1), 200);
    if (!command->attached) {
        CHECK(command_attach(command));
    }
    command_rest(command);
    CHECK(command->ended);
    CHECK_INT(command->exit_code, 0);
    CHECK_INT(buf_len(&command->out), command->wanted.size);
    CHECK_INT(buf_len(&command->err), command->wanted.size);
    CHECK(command_printed(command));
    command_fini(command);
}

static void op_background(void)
{
    struct command *command = &commands[below(COMMANDS)];

    if (command->running) {
        background_finish(command);
    } else {
        background_start(command);
    }
}

/* ---- the test ---- */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void random_operations(void)
{
    static void (*const operations[])(void) = {
        op_upload, op_upload, op_download, op_stat, op_list,       op_move,       op_remove,
        op_watch,  op_print,  op_print,    op_kill, op_background, op_background, op_input,
    };
    uint64_t count = number_of("ATOLL_SOAK_OPERATIONS", OPERATIONS);
    uint64_t seed = number_of("ATOLL_SOAK_SEED", (uint64_t)time(NULL));

    printf("# ATOLL_SOAK_SEED=%" PRIu64 " ATOLL_SOAK_OPERATIONS=%" PRIu64 "\n", seed, count);
    state = (seed << 1 | 1) * 0x9e3779b97f4a7c15U; /* never zero */
    for (uint64_t i = 0; i < count; i++) {
        operations[below(countof(operations))]();
        CHECK_THAT(!check_failed, "that was operation %" PRIu64, i);
    }
}

static void nothing_was_lost(void)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i].running) {
            background_finish(&commands[i]);
        }
    }
    for (size_t i = 0; i < FILES; i++) {
        download(i);
    }
    op_list();
}

static size_t open_in_agent(const char *kind)
{
    char path[64], target[64];
    size_t n = 0;
    const struct dirent *entry;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)agent.pid);
    DIR *fds = opendir(path);
    while (fds && (entry = readdir(fds))) {
        ssize_t len = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1);
        target[len > 0 ? len : 0] = '\0';
        n += strncmp(target, kind, strlen(kind)) == 0;
    }
    if (fds) {
        (void)closedir(fds);
    }
    return n;
}

/* No file of the soak and no connection: both are closed a moment after the last answer. */
static void nothing_stays_open(void)
{
    size_t sockets = 0, ours = 0;

    for (int i = 0; i < POLLS; i++) {
        sockets = open_in_agent("socket:");
        ours = open_in_agent(dir.path);
        if (sockets == sockets_at_start && ours == 0) {
            return;
        }
        (void)usleep(POLL_US);
    }
    CHECK_INT(sockets, sockets_at_start);
    CHECK_INT(ours, 0);
}

static void agent_ends_well(void)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i].running) {
            command_fini(&commands[i]);
        }
    }
    CHECK(agent_stop(&agent));
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"random operations, each as expected", random_operations},
        {"nothing was lost", nothing_was_lost},
        {"nothing stays open", nothing_stays_open},
        {"the agent ends well", agent_ends_well},
    };

    if (argc != 2 || !agent_start(&agent, argv[1], false)) {
        printf("Bail out! the agent does not start\n");
        return 1;
    }
    dir = tmpdir_make();
    sockets_at_start = open_in_agent("socket:");
    int rc = check_run(tests, countof(tests));
    tmpdir_removep(&dir);
    return rc;
}
