/* users.c - the jail's users and groups, read from its /etc/passwd and /etc/group for every lookup.
 *
 * The lines are taken apart here and not by fgetpwent(): that takes "-1" for a number and a "+"
 * line for a user with id 0. A line that is not exactly what passwd(5) says names nobody.
 */
#include "inside/agent/users.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "lib/base/encode.h"
#include "lib/base/fd.h"

enum {
    LINE_BYTES = 64 * 1024, /* a longer line names nobody */
    FILE_BYTES_MAX = 16 * 1024 * 1024,
    BASIC_BYTES_MAX = 1024,
};

static const struct users_files system_files = {"/etc/passwd", "/etc/group"};

enum passwd_field { PW_NAME, PW_PASSWORD, PW_UID, PW_GID, PW_GECOS, PW_HOME, PW_SHELL, PW_FIELDS };
enum group_field { GR_NAME, GR_PASSWORD, GR_GID, GR_MEMBERS, GR_FIELDS };

static void file_closep(FILE **file)
{
    if (*file) {
        (void)fclose(*file);
    }
}

/* Root in the jail may put anything here: neither a FIFO nor an endless file may block us. */
static FILE *database_open(const char *path)
{
    struct stat st;
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX) {
        return NULL;
    }
    FILE *file = fdopen(fd, "re");
    if (file) {
        (void)move_fd(&fd);
    }
    return file;
}

/* The next line that fits, without its newline. */
static bool line_next(FILE *file, char line[LINE_BYTES], struct str *out)
{
    while (fgets(line, LINE_BYTES, file)) {
        size_t len = strlen(line);
        if (len && line[len - 1] == '\n') {
            *out = (struct str){line, len - 1};
            return true;
        }
        if (len < LINE_BYTES - 1) { /* the last line, or one with a NUL inside: cut there */
            *out = (struct str){line, len};
            return true;
        }
        for (int c = 0; c != '\n' && c != EOF;) {
            c = getc(file);
        }
    }
    return false;
}

static bool fields_split(struct str line, struct str *fields, size_t n)
{
    struct str rest = line;
    size_t got = 0;

    for (struct str part; str_split(&rest, ':', &part); got++) {
        if (got == n) {
            return false;
        }
        fields[got] = part;
    }
    return got == n;
}

/* Decimal digits alone. The highest value is the kernel's word for "no id". */
static bool id_parse(struct str text, uint32_t *out)
{
    uint64_t value = 0;

    if (text.len == 0 || text.len > 10) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text.at[i] - '0');
    }
    if (value >= UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool passwd_parse(struct str line, struct user *out)
{
    struct str f[PW_FIELDS];

    if (!fields_split(line, f, PW_FIELDS) || f[PW_NAME].len == 0 || f[PW_NAME].at[0] == '+' ||
        f[PW_NAME].at[0] == '-' || !id_parse(f[PW_UID], &out->uid) ||
        !id_parse(f[PW_GID], &out->gid)) {
        return false;
    }
    if (f[PW_HOME].len == 0 || f[PW_HOME].at[0] != '/') {
        f[PW_HOME] = STR("/");
    }
    if (f[PW_SHELL].len == 0) {
        f[PW_SHELL] = STR("/bin/sh");
    }
    return str_copy(out->name, sizeof(out->name), f[PW_NAME]) &&
           str_copy(out->home, sizeof(out->home), f[PW_HOME]) &&
           str_copy(out->shell, sizeof(out->shell), f[PW_SHELL]);
}

static bool members_have(struct str members, struct str name)
{
    for (struct str member; str_split(&members, ',', &member);) {
        if (str_eq(member, name)) {
            return true;
        }
    }
    return false;
}

static void group_add(struct user *user, gid_t gid)
{
    for (size_t i = 0; i < user->groups_n; i++) {
        if (user->groups[i] == gid) {
            return;
        }
    }
    if (user->groups_n < AGENT_GROUPS_MAX) {
        user->groups[user->groups_n++] = gid;
    }
}

static void groups_fill(const char *path, char line[LINE_BYTES], struct user *user)
{
    scoped(file_closep) FILE *file = database_open(path);
    struct str text, f[GR_FIELDS];
    uint32_t gid;

    user->groups_n = 0;
    group_add(user, user->gid);
    while (file && line_next(file, line, &text)) {
        if (fields_split(text, f, GR_FIELDS) && id_parse(f[GR_GID], &gid) &&
            members_have(f[GR_MEMBERS], str_of(user->name))) {
            group_add(user, gid);
        }
    }
}

static void freep(char **p)
{
    free(*p);
}

int users_find(const struct users_files *files, const char *name, struct user *out)
{
    scoped(file_closep) FILE *file = database_open(files->passwd);
    scoped(freep) char *line = malloc(LINE_BYTES);
    struct str text, wanted = str_of(name);

    if (!line) {
        return -ENOMEM;
    }
    while (file && wanted.len && line_next(file, line, &text)) {
        struct str first = {text.at, str_find(text, ':')};
        if (str_eq(first, wanted) && passwd_parse(text, out)) {
            groups_fill(files->group, line, out);
            return 0;
        }
    }
    return -ENOENT;
}

/* Both files hold the name first; the id is the third field. */
static void name_of(const char *path, size_t fields_n, uint32_t id, char *out, size_t size)
{
    scoped(file_closep) FILE *file = database_open(path);
    scoped(freep) char *line = malloc(LINE_BYTES);
    struct str text, f[PW_FIELDS];
    uint32_t found;

    while (file && line && line_next(file, line, &text)) {
        if (fields_split(text, f, fields_n) && id_parse(f[2], &found) && found == id &&
            f[0].len > 0 && str_copy(out, size, f[0])) {
            return;
        }
    }
    (void)snprintf(out, size, "%" PRIu32, id);
}

void users_user_name(const struct users_files *files, uid_t uid, char *out, size_t size)
{
    name_of(files->passwd, PW_FIELDS, uid, out, size);
}

void users_group_name(const struct users_files *files, gid_t gid, char *out, size_t size)
{
    name_of(files->group, GR_FIELDS, gid, out, size);
}

int user_find(const char *name, struct user *out)
{
    return users_find(&system_files, name, out);
}

void user_name_of(uid_t uid, char *out, size_t size)
{
    users_user_name(&system_files, uid, out, size);
}

void group_name_of(gid_t gid, char *out, size_t size)
{
    users_group_name(&system_files, gid, out, size);
}

/* The user part of "Basic <base64 of user:password>" into out. 1 found, 0 no such header. */
static int basic_user(const struct http_request *req, char *out, size_t size, struct err *err)
{
    struct str value = http_header_get(req, "authorization");
    scoped_buf(plain, BASIC_BYTES_MAX);

    if (!value.at || value.len < 6 || !str_ieq((struct str){value.at, 6}, STR("basic "))) {
        return 0;
    }
    if (base64_decode(&plain, str_trim(str_skip(value, 6))) < 0) {
        return err_set(err, EINVAL, "the Authorization header is not Basic with base64");
    }
    struct str text = buf_str(&plain);
    if (!str_ends(text, STR(":"))) {
        return err_set(err, EINVAL, "the Authorization header names no user");
    }
    /* There are no passwords here: "root:x:" is not root with a password, but a name that does not
     * exist. */
    text.len--;
    if (!str_copy(out, size, text)) {
        return err_set(err, ENOENT, "invalid username: '%.*s'", (int)text.len, text.at);
    }
    return 1;
}

int user_of_request(const struct agent *agent, const struct http_request *req, struct user *out,
                    struct err *err)
{
    char name[sizeof(out->name)];
    int r = basic_user(req, name, sizeof(name), err);

    if (r < 0) {
        return r;
    }
    if (r > 0) {
        return user_find(name, out) < 0 ? err_set(err, ENOENT, "invalid username: '%s'", name) : 0;
    }
    if (!agent->default_user || !*agent->default_user) {
        return err_set(err, ENOENT, "no user specified");
    }
    if (user_find(agent->default_user, out) < 0) {
        return err_set(err, ENOENT, "invalid default user: '%s'", agent->default_user);
    }
    return 0;
}

/* Appends the components of text to the clean absolute path in out; "" stands for "/". */
static int components_append(char out[AGENT_PATH_BYTES], size_t *len, struct str text)
{
    for (struct str part; str_split(&text, '/', &part);) {
        if (part.len == 0 || str_eq(part, STR("."))) {
            continue;
        }
        if (str_eq(part, STR(".."))) {
            while (*len && out[--*len] != '/') {
            }
            continue;
        }
        if (part.len >= AGENT_PATH_BYTES - 1 - *len) {
            return -ENAMETOOLONG;
        }
        out[(*len)++] = '/';
        memcpy(out + *len, part.at, part.len);
        *len += part.len;
    }
    return 0;
}

int path_resolve(const char *workdir, const struct user *user, struct str path,
                 char out[AGENT_PATH_BYTES], struct err *err)
{
    char clean[AGENT_PATH_BYTES];
    size_t len = 0;
    int r = 0;

    if (path.len == 0) {
        path = str_of(workdir);
    }
    if (path.len && memchr(path.at, '\0', path.len)) {
        return err_set(err, EINVAL, "the path has a NUL byte");
    }
    bool tilde = path.len && path.at[0] == '~';
    if (tilde && path.len > 1 && path.at[1] != '/') {
        return err_set(err, EINVAL,
                       "failed to expand path '%.*s' for user '%s': "
                       "cannot expand user-specific home dir",
                       (int)path.len, path.at, user->name);
    }
    if (tilde || path.len == 0 || path.at[0] != '/') {
        r = components_append(clean, &len, str_of(user->home));
    }
    if (r == 0 && path.len) {
        r = components_append(clean, &len, tilde ? str_skip(path, 1) : path);
    }
    if (r < 0) {
        return err_set(err, ENAMETOOLONG, "the path is longer than %d bytes", AGENT_PATH_BYTES - 1);
    }
    if (len == 0) {
        clean[len++] = '/';
    }
    memcpy(out, clean, len);
    out[len] = '\0';
    return 0;
}

int user_path(const struct agent *agent, const struct user *user, struct str path,
              char out[AGENT_PATH_BYTES], struct err *err)
{
    return path_resolve(agent->default_workdir, user, path, out, err);
}
