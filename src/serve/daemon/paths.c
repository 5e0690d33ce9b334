#include "serve/daemon/paths.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/encode.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

enum {
    INSTANCE_HEX_LEN = 8,
    PORT_DIGITS_MAX = 5,
    KEY_DIGITS_MAX = 128,
    PEM_LINE_MAX = 76,
};

struct below {
    size_t at;
    const char *name;
};

#define DATA_PATH(field, name)                                                                     \
    {                                                                                              \
        offsetof(struct paths, field), name                                                        \
    }

static const struct below below_data[] = {
    DATA_PATH(state, "state"),
    DATA_PATH(run, "run"),
    DATA_PATH(pool, "pool"),
    DATA_PATH(database, "state/atoll.db"),
    DATA_PATH(logs, "state/logs"),
    DATA_PATH(files, "state/files"),
    DATA_PATH(default_key, "state/default.key"),
    DATA_PATH(admin_token, "state/admin.token"),
    DATA_PATH(ca, "state/ca.pem"),
    DATA_PATH(secret_key, "state/secret.key"),
    DATA_PATH(endpoint, "run/endpoint"),
    DATA_PATH(domain, "run/domain"),
    DATA_PATH(ca_bundle, "run/ca-bundle.pem"),
    DATA_PATH(notices, "run/notices"),
    DATA_PATH(findings, "run/findings.json"),
    DATA_PATH(keeper_socket, "run/keeper.sock"),
    DATA_PATH(tools_socket, "state/tools.sock"),
    DATA_PATH(api_socket, "state/api.sock"),
    DATA_PATH(serve_lock, "run/serve.lock"),
    DATA_PATH(keeper_lock, "run/keeper.lock"),
    DATA_PATH(prepare_lock, "run/prepare.lock"),
    DATA_PATH(layers_lock, "run/layers.lock"),
};

/* The first of the candidates that exists, seen from the program's own directory: the build tree
 * first, then an installed one. Empty when none does: only root needs them, and says so then. */
static void find_beside_program(const char *const *candidates, size_t n, char out[DATA_PATH_BYTES])
{
    char self[PATH_MAX] = "";
    char path[PATH_MAX];

    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *dir = len > 0 ? dirname(self) : "";
    for (size_t i = 0; i < n; i++) {
        int whole = snprintf(path, sizeof(path), "%s/%s", dir, candidates[i]);
        if (whole > 0 && whole < DATA_PATH_BYTES && access(path, R_OK) == 0) {
            memcpy(out, path, (size_t)whole + 1);
            return;
        }
    }
    out[0] = '\0';
}

static int put(char out[DATA_PATH_BYTES], const char *dir, const char *name, struct err *err)
{
    int n = snprintf(out, DATA_PATH_BYTES, "%s/%s", dir, name);

    if (n < 0 || n >= DATA_PATH_BYTES) {
        return err_set(err, ENAMETOOLONG, "the path %.80s... is too long", dir);
    }
    return 0;
}

static int find_program_files(const struct config *config, struct paths *out, struct err *err)
{
    static const char *const agents[] = {"src/inside/agent/atoll-agent",
                                         "../lib/atoll/atoll-agent"};
    static const char *const keepers[] = {"src/keeper/atoll-keeper", "../lib/atoll/atoll-keeper"};
    static const char *const tools[] = {"src/tools/atoll-tools", "../lib/atoll/atoll-tools"};
    static const char *const interpreters[] = {"src/inside/interpreter/atoll-interpreter",
                                               "../lib/atoll/atoll-interpreter"};
    static const char *const gateways[] = {"src/inside/gateway/mcp-gateway",
                                           "../lib/atoll/mcp-gateway"};
    static const char *const templates[] = {"../templates", "../share/atoll/templates"};
    int r = 0;

    if (config->agent[0]) {
        r = str_copy(out->agent, sizeof(out->agent), str_of(config->agent))
                ? 0
                : err_set(err, ENAMETOOLONG, "the path of the agent is too long");
    } else {
        find_beside_program(agents, countof(agents), out->agent);
    }
    find_beside_program(keepers, countof(keepers), out->keeper);
    find_beside_program(tools, countof(tools), out->tools);
    find_beside_program(interpreters, countof(interpreters), out->interpreter);
    find_beside_program(gateways, countof(gateways), out->gateway);
    if (r == 0 && config->templates[0]) {
        return str_copy(out->templates, sizeof(out->templates), str_of(config->templates))
                   ? 0
                   : err_set(err, ENAMETOOLONG, "the path of the templates is too long");
    }
    find_beside_program(templates, countof(templates), out->templates);
    return r;
}

int paths_find(const struct config *config, struct paths *out, struct err *err)
{
    char digest[SHA256_HEX_LEN + 1];
    int r;

    *out = (struct paths){0};
    for (size_t i = 0; i < countof(below_data); i++) {
        r = put((char *)out + below_data[i].at, config->data, below_data[i].name, err);
        if (r < 0) {
            return r;
        }
    }
    if (strlen(out->tools_socket) >=
        sizeof(((struct sockaddr_un *)0)->sun_path)) { /* the longest */
        return err_set(err, ENAMETOOLONG,
                       "the data directory's path is too long for a socket below it: %.80s...",
                       config->data);
    }
    sha256_hex(config->data, strlen(config->data), digest);
    memcpy(out->instance, digest, INSTANCE_HEX_LEN);
    return find_program_files(config, out, err);
}

/* ---- files that the server wrote ---- */

/* Whether uid is the server's user: root gave it state/, in a directory of root's. */
static bool is_servers(const struct paths *paths, uid_t uid)
{
    struct stat st;

    return lstat(paths->state, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid;
}

static int check_open(const struct paths *paths, const char *path, int fd, off_t bytes_max,
                      struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return err_sys(err, "look at %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, EINVAL, "%s is not a regular file: it was not read", path);
    }
    if (st.st_nlink != 1) {
        return err_set(err, EMLINK, "%s is a file that has other names, too: it was not read",
                       path);
    }
    if (st.st_uid != 0 && !is_servers(paths, st.st_uid)) {
        return err_set(err, EPERM,
                       "%s belongs to uid %u, not to root or the server: it was not read", path,
                       st.st_uid);
    }
    if (st.st_size > bytes_max) {
        return err_set(err, EFBIG, "%s is larger than %lld bytes: it was not read", path,
                       (long long)bytes_max);
    }
    return 0;
}

int server_file_open(const struct paths *paths, const char *path, off_t bytes_max, struct err *err)
{
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 && errno == ELOOP) {
        return err_set(err, ELOOP, "%s is a link: it was not followed", path);
    }
    if (fd < 0) {
        return err_sys(err, "read %s", path);
    }
    int r = check_open(paths, path, fd, bytes_max, err);
    return r < 0 ? r : move_fd(&fd);
}

/* Reads the whole file. A file that has grown meanwhile is cut off, and then fails the check of its
 * form. */
static int read_whole(const struct paths *paths, const char *path, char *out, size_t size,
                      struct err *err)
{
    scoped_fd fd = server_file_open(paths, path, (off_t)size - 1, err);

    if (fd < 0) {
        return fd;
    }
    ssize_t n = small_file_read_fd(fd, out, size);
    if (n < 0) {
        return err_sys(err, "read %s", path);
    }
    if (memchr(out, '\0', (size_t)n)) {
        return err_set(err, EINVAL, "%s contains a NUL byte", path);
    }
    return 0;
}

/* A line, perhaps with its newline. */
static void line_cut(char *text)
{
    size_t len = strlen(text);

    if (len > 0 && text[len - 1] == '\n') {
        text[len - 1] = '\0';
    }
}

static bool is_port(struct str text)
{
    unsigned long port = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || text.len > PORT_DIGITS_MAX) {
            return false;
        }
        port = port * 10 + (unsigned long)(text.at[i] - '0');
    }
    return port > 0 && port <= UINT16_MAX;
}

/* The server listens on addresses only, so the URL never has a name. */
bool server_file_url_ok(struct str url)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr any;
    struct str rest = str_skip(url, strlen("http://"));
    bool v6 = str_starts(rest, STR("["));

    if (!str_starts(url, STR("http://"))) {
        return false;
    }
    rest = str_skip(rest, v6);
    struct str host = {rest.at, str_find(rest, v6 ? ']' : ':')};
    rest = str_skip(rest, host.len + v6);
    return str_copy(address, sizeof(address), host) &&
           inet_pton(v6 ? AF_INET6 : AF_INET, address, &any) == 1 && str_starts(rest, STR(":")) &&
           is_port(str_skip(rest, 1));
}

static bool is_digits_behind(struct str key, struct str prefix)
{
    struct str digits = str_skip(key, prefix.len);

    for (size_t i = 0; i < digits.len; i++) {
        if (!strchr("0123456789abcdef", digits.at[i]) || !digits.at[i]) {
            return false;
        }
    }
    return str_starts(key, prefix) && digits.len > 0 && digits.len <= KEY_DIGITS_MAX;
}

bool server_file_key_ok(struct str key)
{
    return is_digits_behind(key, STR("e2b_"));
}

bool server_file_admin_ok(struct str token)
{
    return is_digits_behind(token, STR("atoll_admin_"));
}

static bool is_base64_line(struct str line)
{
    for (size_t i = 0; i < line.len; i++) {
        char c = line.at[i];
        if (!isalnum((unsigned char)c) && c != '+' && c != '/' && c != '=') {
            return false;
        }
    }
    return line.len > 0 && line.len <= PEM_LINE_MAX;
}

bool server_file_ca_ok(struct str pem)
{
    struct str line;
    bool ended = false;

    if (!str_split(&pem, '\n', &line) || !str_eq(line, STR("-----BEGIN CERTIFICATE-----"))) {
        return false;
    }
    while (!ended && str_split(&pem, '\n', &line)) {
        ended = str_eq(line, STR("-----END CERTIFICATE-----"));
        if (!ended && !is_base64_line(line)) {
            return false;
        }
    }
    return ended && pem.len == 0;
}

int server_file_read_url(const struct paths *paths, char *out, size_t size, struct err *err)
{
    int r = read_whole(paths, paths->endpoint, out, size, err);

    if (r < 0) {
        return r;
    }
    line_cut(out);
    return !out[0] || server_file_url_ok(str_of(out))
               ? 0
               : err_set(err, EINVAL, "%s does not contain a URL such as http://127.0.0.1:3000",
                         paths->endpoint);
}

int server_file_read_domain(const struct paths *paths, char *out, size_t size, struct err *err)
{
    int r = read_whole(paths, paths->domain, out, size, err);

    if (r < 0) {
        return r;
    }
    line_cut(out);
    return !out[0] || config_domain_ok(str_of(out))
               ? 0
               : err_set(err, EINVAL, "%s does not contain a domain such as localhost:3443",
                         paths->domain);
}

int server_file_read_key(const struct paths *paths, char *out, size_t size, struct err *err)
{
    int r = read_whole(paths, paths->default_key, out, size, err);

    if (r < 0) {
        return r;
    }
    line_cut(out);
    return server_file_key_ok(str_of(out))
               ? 0
               : err_set(err, EINVAL, "%s does not contain an API key: e2b_ and hexadecimal digits",
                         paths->default_key);
}

int server_file_read_admin(const struct paths *paths, char *out, size_t size, struct err *err)
{
    int r = read_whole(paths, paths->admin_token, out, size, err);

    if (r < 0) {
        return r;
    }
    line_cut(out);
    return server_file_admin_ok(str_of(out))
               ? 0
               : err_set(err, EINVAL,
                         "%s does not contain an admin token: atoll_admin_ and hexadecimal digits",
                         paths->admin_token);
}

int server_file_read_ca(const struct paths *paths, char *out, size_t size, struct err *err)
{
    int r = read_whole(paths, paths->ca, out, size, err);

    if (r == 0 && !server_file_ca_ok(str_of(out))) {
        return err_set(err, EINVAL, "%s is not one certificate in PEM", paths->ca);
    }
    return r;
}
