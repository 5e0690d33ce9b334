#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside/unpack/internal.h"

enum {
    MODE_BITS = 07777,
    ID_MAX = 65535, /* the highest id of a jail */
};

static int number_parse(struct str text, int base, uint64_t max, uint64_t *out)
{
    char digits[24], *end = NULL;

    if (text.len == 0 || text.at[0] == '-' || text.at[0] == '+' ||
        !str_copy(digits, sizeof(digits), text)) {
        return -EINVAL;
    }
    errno = 0;
    unsigned long long value = strtoull(digits, &end, base);
    if (errno || *end || value > max) {
        return -EINVAL;
    }
    *out = value;
    return 0;
}

static int bad(struct str name, struct str value, struct err *err)
{
    return err_set(err, EINVAL, "the unpacker cannot read its option %.*s: %.*s", (int)name.len,
                   name.at, (int)(value.len < 100 ? value.len : 100), value.at);
}

static int path_option(struct str value, char out[PATH_BYTES], struct err *err)
{
    char text[PATH_BYTES];

    if (!str_copy(text, sizeof(text), value)) {
        return err_set(err, EINVAL, "a path is longer than %d bytes", UNPACK_PATH_BYTES_MAX);
    }
    return name_check(text, out, err);
}

static int target_option(struct str value, struct options *o, struct err *err)
{
    if (value.len == 0 || value.at[0] != '/') {
        return bad(STR("target"), value, err);
    }
    o->target_is_dir = str_ends(value, STR("/")) || str_ends(value, STR("/."));
    while (value.len && value.at[0] == '/') {
        value = str_skip(value, 1);
    }
    return value.len == 0 ? 0 : path_option(value, o->target, err);
}

static int option_set(struct options *o, struct str name, struct str value, struct err *err)
{
    uint64_t number = 0;

    if (str_eq(name, STR("mode"))) {
        o->mode = str_eq(value, STR("copy")) ? UNPACK_COPY : UNPACK_LAYER;
        return o->mode == UNPACK_COPY || str_eq(value, STR("layer")) ? 0 : bad(name, value, err);
    }
    if (str_eq(name, STR("limit"))) {
        return number_parse(value, 10, INT64_MAX, &o->limit) < 0 ? bad(name, value, err) : 0;
    }
    if (str_eq(name, STR("source"))) {
        return value.len == 0 ? 0 : path_option(value, o->source, err);
    }
    if (str_eq(name, STR("target"))) {
        return target_option(value, o, err);
    }
    if (str_eq(name, STR("owner"))) {
        return str_copy(o->owner, sizeof(o->owner), value) ? 0 : bad(name, value, err);
    }
    if (str_eq(name, STR("chmod"))) {
        if (number_parse(value, 8, MODE_BITS, &number) < 0) {
            return err_set(err, EINVAL, "the mode %.*s is not an octal number up to 7777",
                           (int)(value.len < 100 ? value.len : 100), value.at);
        }
        o->chmod = (int)number;
        return 0;
    }
    return bad(name, value, err);
}

int options_parse(struct str text, struct options *out, struct err *err)
{
    struct str line;

    *out = (struct options){.limit = UNPACK_LIMIT_DEFAULT, .chmod = -1};
    while (str_split(&text, '\n', &line)) {
        size_t n = str_find(line, ' ');
        struct str name = {line.at, n};
        if (line.len == 0) {
            continue;
        }
        int r = option_set(out, name, str_skip(line, n + 1), err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* ---- owners ---- */

static void file_closep(FILE **file)
{
    if (*file) {
        (void)fclose(*file);
    }
}

/* Does not use getpwnam(): it would load libraries of the image into this program. */
static int user_find(const char *name, uid_t *uid, gid_t *gid, struct err *err)
{
    uint64_t number = 0;
    bool is_number = number_parse(str_of(name), 10, ID_MAX, &number) == 0;
    scoped(file_closep) FILE *file = fopen("/etc/passwd", "re");

    for (struct passwd *pw; file && (pw = fgetpwent(file));) {
        if (is_number ? pw->pw_uid == (uid_t)number : strcmp(pw->pw_name, name) == 0) {
            *uid = pw->pw_uid;
            *gid = pw->pw_gid;
            return 0;
        }
    }
    if (is_number) {
        *uid = (uid_t)number;
        *gid = (gid_t)number;
        return 0;
    }
    return err_set(err, ENOENT, "there is no user '%s' in the image", name);
}

static int group_find(const char *name, gid_t *gid, struct err *err)
{
    uint64_t number = 0;
    scoped(file_closep) FILE *file = NULL;

    if (number_parse(str_of(name), 10, ID_MAX, &number) == 0) {
        *gid = (gid_t)number;
        return 0;
    }
    file = fopen("/etc/group", "re");
    for (struct group *gr; file && (gr = fgetgrent(file));) {
        if (strcmp(gr->gr_name, name) == 0) {
            *gid = gr->gr_gid;
            return 0;
        }
    }
    return err_set(err, ENOENT, "there is no group '%s' in the image", name);
}

int owner_find(const char *owner, uid_t *uid, gid_t *gid, struct err *err)
{
    char user[NAME_BYTES_MAX + 1];
    size_t n = str_find(str_of(owner), ':');

    if (owner[0] == '\0') {
        *uid = 0;
        *gid = 0;
        return 0;
    }
    if (n == 0 || !str_copy(user, sizeof(user), (struct str){owner, n})) {
        return err_set(err, EINVAL, "'%.100s' names no owner: user, or user:group", owner);
    }
    int r = user_find(user, uid, gid, err);
    if (r == 0 && owner[n] == ':' && owner[n + 1]) {
        r = group_find(owner + n + 1, gid, err);
    }
    return r;
}
