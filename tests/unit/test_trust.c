/* Authorities that an agent adds: to the bundles that there are, once, and to a new one. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "inside/agent/trust.h"
#include "lib/base/fd.h"

#define PEM "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

static char root[64];

static const char *below(const char *path)
{
    static char whole[256];

    (void)snprintf(whole, sizeof(whole), "%s%s", root, path);
    return whole;
}

static bool start(const char *bundle)
{
    (void)snprintf(root, sizeof(root), "/tmp/test-trust-XXXXXX");
    if (!mkdtemp(root)) {
        return false;
    }
    if (bundle) {
        (void)mkdir(below("/etc"), 0755);
        (void)mkdir(below("/etc/ssl"), 0755);
        (void)mkdir(below("/etc/ssl/certs"), 0755);
        scoped_fd fd = open(below("/etc/ssl/certs/ca-certificates.crt"), O_WRONLY | O_CREAT, 0600);
        return fd >= 0 && write(fd, bundle, strlen(bundle)) == (ssize_t)strlen(bundle);
    }
    return true;
}

static const char *content(const char *path)
{
    static char text[1024];
    scoped_fd fd = open(below(path), O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    text[n < 0 ? 0 : n] = '\0';
    return n < 0 ? "(none)" : text;
}

static void end(void)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    (void)!system(command);
}

static void a_bundle_gets_it_once(void)
{
    struct stat st;
    struct err err;

    CHECK(start("others"));
    CHECK_INT(trust_add_below(root, PEM, "0123abcd", &err), 0);
    CHECK_INT(trust_add_below(root, PEM, "0123abcd", &err), 0);
    CHECK_STR(content("/etc/ssl/certs/ca-certificates.crt"), "others\n" PEM);
    CHECK_STR(content("/etc/ssl/certs/0123abcd.0"), PEM);
    CHECK_STR(content("/usr/local/share/ca-certificates/atoll-sandbox.crt"), PEM);
    CHECK_INT(stat(below("/etc/ssl/certs/ca-certificates.crt"), &st), 0);
    CHECK_INT(st.st_mode & 0777, 0644);
    end();
}

static void one_is_made_where_there_is_none(void)
{
    struct err err;

    CHECK(start(NULL));
    CHECK_INT(trust_add_below(root, PEM, "", &err), 0);
    CHECK_STR(content("/etc/ssl/certs/ca-certificates.crt"), PEM);
    CHECK_STR(content("/etc/pki/tls/certs/ca-bundle.crt"), "(none)");
    end();
}

static void a_hash_that_is_a_path_is_refused(void)
{
    struct err err;

    CHECK(start(""));
    CHECK_INT(trust_add_below(root, PEM, "../../x", &err), -EINVAL);
    CHECK_INT(trust_add_below(root, PEM, "0123456789", &err), -EINVAL);
    CHECK_STR(content("/etc/ssl/certs/ca-certificates.crt"), "");
    end();
}

static void what_stands_in_the_way_is_told(void)
{
    struct err err;

    CHECK(start(NULL));
    scoped_fd fd = open(below("/etc"), O_WRONLY | O_CREAT, 0600); /* a file, not a directory */
    CHECK(fd >= 0);
    CHECK(trust_add_below(root, PEM, "", &err) < 0);
    CHECK(strstr(err.msg, "ca-certificates.crt"));
    end();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a bundle gets it once", a_bundle_gets_it_once},
        {"one is made where there is none", one_is_made_where_there_is_none},
        {"a hash that is a path is refused", a_hash_that_is_a_path_is_refused},
        {"what stands in the way is told", what_stands_in_the_way_is_told},
    };
    return check_run(tests, countof(tests));
}
