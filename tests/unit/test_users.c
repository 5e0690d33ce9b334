#include "inside/agent/users.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "check.h"
#include "lib/base/fd.h"
#include "tmpdir.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
                             "+::::::\n"
                             "-dashed:x:1:1::/:/bin/sh\n"
                             "huge:x:4294967295:1::/:/bin/sh\n"
                             "minus:x:-1:1::/:/bin/sh\n"
                             "hex:x:0x10:1::/:/bin/sh\n"
                             "short:x:5:5\n"
                             ":x:6:6::/:/bin/sh\n"
                             "user:x:1000:1001:,,,:/home/user:/bin/bash\n"
                             "1000:x:2000:2000::/home/number:\n"
                             "nohome:x:1002:1002:::\n"
                             "caf\xc3\xa9:x:1003:1003::/home/c:/bin/sh"; /* no newline at the end */
static const char group[] = "root:x:0:\n"
                            "user:x:1001:\n"
                            "sudo:x:27:user,other\n"
                            "user2:x:28:user2\n"
                            "docker:x:29:other,user\n"
                            "again:x:1001:user\n"
                            "broken:x:zz:user\n";

struct fixture {
    struct tmpdir dir;
    char passwd[64], group[64];
    struct users_files files;
};

static void put(const char *path, const void *data, size_t len)
{
    scoped_fd fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len) {
        abort();
    }
}

static struct fixture *fixture_make(void)
{
    static struct fixture f;

    f.dir = tmpdir_make();
    (void)snprintf(f.passwd, sizeof(f.passwd), "%s/passwd", f.dir.path);
    (void)snprintf(f.group, sizeof(f.group), "%s/group", f.dir.path);
    f.files = (struct users_files){f.passwd, f.group};
    put(f.passwd, passwd, sizeof(passwd) - 1);
    put(f.group, group, sizeof(group) - 1);
    return &f;
}

static void fixture_removep(struct fixture **f)
{
    tmpdir_removep(&(*f)->dir);
}
#define scoped_fixture scoped(fixture_removep) struct fixture

static struct user user;

static void users_are_found_with_their_groups(void)
{
    scoped_fixture *f = fixture_make();

    CHECK_INT(users_find(&f->files, "user", &user), 0);
    CHECK_STR(user.name, "user");
    CHECK_STR(user.home, "/home/user");
    CHECK_STR(user.shell, "/bin/bash");
    CHECK_INT(user.uid, 1000);
    CHECK_INT(user.gid, 1001);
    CHECK_INT((long long)user.groups_n, 3);
    CHECK_INT(user.groups[0], 1001);
    CHECK_INT(user.groups[1], 27);
    CHECK_INT(user.groups[2], 29);
    CHECK_INT(users_find(&f->files, "caf\xc3\xa9", &user), 0);
    CHECK_INT(user.uid, 1003);
}

static void gaps_have_defaults(void)
{
    scoped_fixture *f = fixture_make();

    CHECK_INT(users_find(&f->files, "nohome", &user), 0);
    CHECK_STR(user.home, "/");
    CHECK_STR(user.shell, "/bin/sh");
}

static void names_are_exact(void)
{
    static const char *const none[] = {"",        "0",    "0x0",    "-1",     "1000:0", "+",
                                       "-dashed", "huge", "hex",    "minus",  "short",  "User",
                                       "user ",   "use",  "user:x", "root\n", "userx"};
    scoped_fixture *f = fixture_make();

    for (size_t i = 0; i < countof(none); i++) {
        CHECK_THAT(users_find(&f->files, none[i], &user) == -ENOENT, "'%s' exists", none[i]);
    }
    /* A user may well be called 1000; it is that user, and not the id. */
    CHECK_INT(users_find(&f->files, "1000", &user), 0);
    CHECK_INT(user.uid, 2000);
}

static void ids_have_names_or_stay_numbers(void)
{
    scoped_fixture *f = fixture_make();
    char name[256];

    users_user_name(&f->files, 1000, name, sizeof(name));
    CHECK_STR(name, "user");
    users_user_name(&f->files, 77, name, sizeof(name));
    CHECK_STR(name, "77");
    users_group_name(&f->files, 27, name, sizeof(name));
    CHECK_STR(name, "sudo");
    users_group_name(&f->files, 4000000000U, name, sizeof(name));
    CHECK_STR(name, "4000000000");
}

static void hostile_files_name_nobody(void)
{
    scoped_fixture *f = fixture_make();
    static char line[200 * 1024];

    CHECK_INT(unlink(f->passwd), 0);
    CHECK_INT(users_find(&f->files, "root", &user), -ENOENT);
    CHECK_INT(mkfifo(f->passwd, 0600), 0); /* must not wait for a writer */
    CHECK_INT(users_find(&f->files, "root", &user), -ENOENT);
    CHECK_INT(unlink(f->passwd), 0);

    /* A line without an end is passed over; what follows it is read. */
    memset(line, 'a', sizeof(line));
    memcpy(line + sizeof(line) - 25, "\nroot:x:0:0::/root:/bin/b", 25);
    put(f->passwd, line, sizeof(line));
    CHECK_INT(users_find(&f->files, "root", &user), 0);
    CHECK_STR(user.shell, "/bin/b");
}

static void paths_become_absolute_and_clean(void)
{
    static const struct {
        const char *path, *workdir, *want;
    } cases[] = {
        {"a.txt", NULL, "/home/user/a.txt"},
        {"./a//b/", NULL, "/home/user/a/b"},
        {"~", NULL, "/home/user"},
        {"~/x", "/code", "/home/user/x"},
        {"", NULL, "/home/user"},
        {"", "", "/home/user"},
        {"", "/code", "/code"},
        {"", "~/code", "/home/user/code"},
        {"rel", "/code", "/home/user/rel"},
        {"/", NULL, "/"},
        {"/../../etc", NULL, "/etc"},
        {"../../../x", NULL, "/x"},
        {"/a/./b/../c", NULL, "/a/c"},
        {"..", NULL, "/home"},
        {"a/~", NULL, "/home/user/a/~"},
        {"/a/..b/...", NULL, "/a/..b/..."},
        {"caf\xe9", NULL, "/home/user/caf\xe9"},
    };
    char out[AGENT_PATH_BYTES];
    struct err err = {0};

    user = (struct user){.name = "user", .home = "/home/user"};
    for (size_t i = 0; i < countof(cases); i++) {
        CHECK_INT(path_resolve(cases[i].workdir, &user, str_of(cases[i].path), out, &err), 0);
        CHECK_STR(out, cases[i].want);
    }
    CHECK_INT(err.code, 0);
}

static void paths_that_cannot_be_are_refused(void)
{
    static char longest[AGENT_PATH_BYTES + 8];
    char out[AGENT_PATH_BYTES] = "untouched";
    struct err err = {0};

    user = (struct user){.name = "user", .home = "/home/user"};
    CHECK_INT(path_resolve(NULL, &user, STR("a\0b"), out, &err), -EINVAL);
    CHECK_STR(err.msg, "the path has a NUL byte");
    CHECK_INT(path_resolve(NULL, &user, STR("~root/x"), out, &err), -EINVAL);
    CHECK_STR(err.msg, "failed to expand path '~root/x' for user 'user': "
                       "cannot expand user-specific home dir");
    memset(longest, 'a', sizeof(longest));
    longest[0] = '/';
    CHECK_INT(path_resolve(NULL, &user, (struct str){longest, AGENT_PATH_BYTES}, out, &err),
              -ENAMETOOLONG);
    CHECK_STR(out, "untouched");
    CHECK_INT(path_resolve(NULL, &user, (struct str){longest, AGENT_PATH_BYTES - 1}, out, &err), 0);
    CHECK_INT((long long)strlen(out), AGENT_PATH_BYTES - 1);
}

/* A request with one header, for user_of_request(). */
static int request_user(const char *authorization, const char *default_user, struct err *err)
{
    struct http_header header = {STR("authorization"), str_of(authorization)};
    struct http_request req = {.headers = &header, .headers_n = authorization ? 1 : 0};
    char name[64];
    struct agent agent = {.default_user = name};

    (void)snprintf(name, sizeof(name), "%s", default_user);
    return user_of_request(&agent, &req, &user, err);
}

static void requests_act_as_whom_they_name(void)
{
    struct err err = {0};

    CHECK_INT(request_user("Basic cm9vdDo=", "", &err), 0); /* root: */
    CHECK_STR(user.name, "root");
    CHECK_INT(request_user(NULL, "root", &err), 0);
    CHECK_INT(request_user("Bearer abc", "root", &err), 0);
    CHECK_INT(request_user(NULL, "", &err), -ENOENT);
    CHECK_STR(err.msg, "no user specified");
    CHECK_INT(request_user("Basic bm9ib2R5aGVyZTo=", "root", &err), -ENOENT); /* nobodyhere: */
    CHECK_STR(err.msg, "invalid username: 'nobodyhere'");
    CHECK_INT(request_user("Basic Og==", "root", &err), -ENOENT); /* : */
    CHECK_STR(err.msg, "invalid username: ''");
    CHECK_INT(request_user("Basic MHgwOg==", "root", &err), -ENOENT); /* 0x0: */
    CHECK_INT(request_user("Basic %%%", "root", &err), -EINVAL);
    CHECK_INT(request_user("Basic cm9vdA==", "root", &err), -EINVAL); /* root, no colon */
}

int main(void)
{
    static const struct check_test tests[] = {
        {"users are found with their groups", users_are_found_with_their_groups},
        {"gaps have defaults", gaps_have_defaults},
        {"names are exact", names_are_exact},
        {"ids have names or stay numbers", ids_have_names_or_stay_numbers},
        {"hostile files name nobody", hostile_files_name_nobody},
        {"paths become absolute and clean", paths_become_absolute_and_clean},
        {"paths that cannot be are refused", paths_that_cannot_be_are_refused},
        {"requests act as whom they name", requests_act_as_whom_they_name},
    };
    return check_run(tests, countof(tests));
}
