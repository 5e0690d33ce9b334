/* Files that the server may have put there, read by root; and text for root's terminal. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "cli/terminal_text.h"
#include "lib/base/fd.h"
#include "serve/daemon/paths.h"
#include "tmpdir.h"

#define KEY "e2b_0123456789abcdef0123456789abcdef01234567"

enum { NOBODY = 65534, SERVER = 65533 };

static struct paths at(const struct tmpdir *dir)
{
    struct config config = {0};
    struct paths paths;
    struct err err;

    (void)snprintf(config.data, sizeof(config.data), "%s", dir->path);
    if (paths_find(&config, &paths, &err) < 0 || mkdir(paths.state, 0700) < 0 ||
        mkdir(paths.run, 0755) < 0 || (geteuid() == 0 && chown(paths.state, SERVER, SERVER) < 0)) {
        abort();
    }
    return paths;
}

static void write_text(const char *path, const char *text)
{
    scoped_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(geteuid() != 0 || fchown(fd, SERVER, SERVER) == 0);
}

static int read_key(const struct paths *paths, char key[256], struct err *err)
{
    (void)memset(key, 'x', 256);
    return server_file_read_key(paths, key, 256, err);
}

static void a_key_is_read(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct paths paths = at(&dir);
    char key[256];
    struct err err;

    CHECK_INT(read_key(&paths, key, &err), -ENOENT);
    write_text(paths.default_key, KEY);
    CHECK_INT(read_key(&paths, key, &err), 0);
    CHECK_STR(key, KEY);
    write_text(paths.default_key, KEY "\n");
    CHECK_INT(read_key(&paths, key, &err), 0);
    CHECK_STR(key, KEY);
}

static void what_is_no_plain_file_is_not_read(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct paths paths = at(&dir);
    char key[256], other[2 * DATA_PATH_BYTES];
    struct err err;

    CHECK_INT(mkfifo(paths.default_key, 0600), 0);
    CHECK_INT(read_key(&paths, key, &err), -EINVAL);
    CHECK_INT(unlink(paths.default_key), 0);
    CHECK_INT(mkdir(paths.default_key, 0700), 0);
    CHECK_INT(read_key(&paths, key, &err), -EINVAL);
    CHECK_INT(rmdir(paths.default_key), 0);
    (void)snprintf(other, sizeof(other), "%s/other", paths.state);
    write_text(other, KEY);
    CHECK_INT(symlink(other, paths.default_key), 0);
    CHECK_INT(read_key(&paths, key, &err), -ELOOP);
    CHECK_INT(unlink(paths.default_key), 0);
    CHECK_INT(link(other, paths.default_key), 0);
    CHECK_INT(read_key(&paths, key, &err), -EMLINK);
    CHECK_INT(unlink(other), 0);
    CHECK_INT(read_key(&paths, key, &err), 0);
    CHECK_INT(truncate(paths.default_key, 1L << 40), 0);
    CHECK_INT(read_key(&paths, key, &err), -EFBIG);
}

static void files_of_others_are_not_read(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct paths paths = at(&dir);
    char key[256];
    struct err err;

    if (geteuid() != 0) {
        return;
    }
    write_text(paths.default_key, KEY);
    CHECK_INT(chown(paths.default_key, NOBODY, NOBODY), 0);
    CHECK_INT(read_key(&paths, key, &err), -EPERM);
    CHECK_INT(chown(paths.default_key, 0, 0), 0);
    CHECK_INT(read_key(&paths, key, &err), 0);
}

static void what_is_no_key_is_refused(void)
{
    static const char *const bad[] = {
        "",        "e2b_",      KEY "\n\n", KEY ";id",       KEY " ",
        "$(id)",   "e2b_$(id)", "e2b_`id`", "e2b_'\n id #'", KEY "\nexport A=b",
        "e2b_ABC", "E2B_abc",   (" " KEY),  "e2b_\xc3\xa9"};
    scoped_tmpdir dir = tmpdir_make();
    struct paths paths = at(&dir);
    char key[256];
    struct err err;

    for (size_t i = 0; i < countof(bad); i++) {
        write_text(paths.default_key, bad[i]);
        CHECK_THAT(read_key(&paths, key, &err) == -EINVAL, "'%s'", bad[i]);
    }
    scoped_fd fd = open(paths.default_key, O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK_INT(write(fd, "e2b_a\0;id", 9), 9);
    CHECK_INT(read_key(&paths, key, &err), -EINVAL);
}

static void an_address_of_a_daemon_is_a_literal_and_a_port(void)
{
    static const char *const good[] = {"http://127.0.0.1:3000", "http://[::1]:1",
                                       "http://192.0.2.7:65535", "http://[2001:db8::1]:80"};
    static const char *const bad[] = {"127.0.0.1:3000",
                                      "https://127.0.0.1:1",
                                      "http://127.0.0.1",
                                      "http://127.0.0.1:",
                                      "http://127.0.0.1:0",
                                      "http://127.0.0.1:65536",
                                      "http://127.0.0.1:1/",
                                      "http://127.0.0.1:1;id",
                                      "http://127.0.0.1:1\n",
                                      "http://$(id):1",
                                      "http://localhost:3000",
                                      "http://127.0.0.1:1 ",
                                      "http://[::1]",
                                      "http://[::1:80",
                                      "http://::1:80",
                                      "http://a@127.0.0.1:1",
                                      "http://127.0.0.1:1'",
                                      "http://127.0.0.1:00000000001",
                                      "http://[fe80::1%$(id)]:1",
                                      "",
                                      "http://"};

    for (size_t i = 0; i < countof(good); i++) {
        CHECK_THAT(server_file_url_ok(str_of(good[i])), "%s", good[i]);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(!server_file_url_ok(str_of(bad[i])), "%s", bad[i]);
    }
}

static void a_domain_is_a_name_and_perhaps_a_port(void)
{
    static const char *const bad[] = {"a b",     "localhost;id", "a'b", "$(id)", "a\nb",
                                      "a:99999", "a:8x",         ".a",  "a:",    "-a"};
    scoped_tmpdir dir = tmpdir_make();
    struct paths paths = at(&dir);
    char domain[256];
    struct err err;

    write_text(paths.domain, "localhost:3443\n");
    CHECK_INT(server_file_read_domain(&paths, domain, sizeof(domain), &err), 0);
    CHECK_STR(domain, "localhost:3443");
    write_text(paths.domain, "");
    CHECK_INT(server_file_read_domain(&paths, domain, sizeof(domain), &err), 0);
    CHECK_STR(domain, "");
    for (size_t i = 0; i < countof(bad); i++) {
        write_text(paths.domain, bad[i]);
        CHECK_INT(server_file_read_domain(&paths, domain, sizeof(domain), &err), -EINVAL);
    }
}

static void an_authority_is_one_certificate(void)
{
#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END "-----END CERTIFICATE-----\n"
    CHECK(server_file_ca_ok(STR(BEGIN "MIIB+/=\nAAAA\n" END)));
    CHECK(!server_file_ca_ok(STR("")));
    CHECK(!server_file_ca_ok(STR(BEGIN)));
    CHECK(!server_file_ca_ok(STR(BEGIN "MIIB\n")));
    CHECK(!server_file_ca_ok(STR(BEGIN "MIIB\n" END BEGIN "MIIB\n" END)));
    CHECK(!server_file_ca_ok(STR(BEGIN "MI\033[2JIB\n" END)));
    CHECK(!server_file_ca_ok(STR("root:x:0:0:root:/root:/bin/bash\n")));
    CHECK(!server_file_ca_ok(STR(BEGIN "MIIB\n" END "root:x:0:0\n")));
    CHECK(
        !server_file_ca_ok(STR("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n")));
}

static void a_terminal_gets_no_control_characters(void)
{
    char text[] = "a\033[2Jb\x07\x7f\xc2\x9b"
                  "c\xc3\xa9\td\ne\xc2";
    json_t *value = json_pack("{s[s]s{ss}}", "list", "x\033y", "in", "name", "\xc2\x9bz");

    terminal_text_clean(text);
    CHECK_STR(text, "a?[2Jb????c\xc3\xa9\td\ne\xc2");
    char turned[] = "a\xe2\x80\xae"
                    "b\xe2\x81\xa6"
                    "c\xe2\x80\xa6";
    terminal_text_clean(turned);
    CHECK_STR(turned, "a???b???c\xe2\x80\xa6"); /* an ellipsis is no control character */
    CHECK(terminal_json_clean(value) == value);
    CHECK_STR(json_string_value(json_array_get(json_object_get(value, "list"), 0)), "x?y");
    CHECK_STR(json_string_value(json_object_get(json_object_get(value, "in"), "name")), "??z");
    CHECK(terminal_json_clean(NULL) == NULL);
    json_decref(value);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a key is read", a_key_is_read},
        {"what is no plain file is not read", what_is_no_plain_file_is_not_read},
        {"files of others are not read", files_of_others_are_not_read},
        {"what is no key is refused", what_is_no_key_is_refused},
        {"an address of a daemon is a literal and a port",
         an_address_of_a_daemon_is_a_literal_and_a_port},
        {"a domain is a name and perhaps a port", a_domain_is_a_name_and_perhaps_a_port},
        {"an authority is one certificate", an_authority_is_one_certificate},
        {"a terminal gets no control characters", a_terminal_gets_no_control_characters},
    };

    return check_run(tests, countof(tests));
}
