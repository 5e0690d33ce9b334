/* Where TLS is served when nobody has said: in a network of the test's own, so that every port is
 * free until it is taken here. Needs root. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "check.h"
#include "lib/base/fd.h"
#include "lib/http/server.h"
#include "serve/daemon/tls_address.h"

static void network_enter(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    scoped_fd fd = -1;

    if (unshare(CLONE_NEWNET) < 0 || (fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0 ||
        ioctl(fd, SIOCSIFFLAGS, &lo) < 0) {
        perror("a network of the test's own");
        abort();
    }
}

static int take(const char *address)
{
    struct err err;
    int fd = http_address_open(address, &err);

    if (fd < 0) {
        abort();
    }
    return fd;
}

static struct config settled(const char *listen, const char *tls_listen, const char *domain,
                             int given)
{
    struct config config = {0};
    struct err err;

    (void)snprintf(config.listen, sizeof(config.listen), "%s", listen);
    (void)snprintf(config.tls_listen, sizeof(config.tls_listen), "%s", tls_listen);
    (void)snprintf(config.domain, sizeof(config.domain), "%s", domain);
    if (tls_address_choose(&config, given, &err) < 0) {
        abort();
    }
    return config;
}

static void the_first_port_that_is_free_is_taken(void)
{
    struct config config = settled("127.0.0.1:3000", "auto", "", -1);

    CHECK_STR(config.tls_listen, "127.0.0.1:443");
    CHECK_STR(config.domain_served, "localhost");
    scoped_fd first = take("127.0.0.1:443");
    CHECK(first >= 0);
    config = settled("127.0.0.1:3000", "auto", "", -1);
    CHECK_STR(config.tls_listen, "127.0.0.1:3443");
    CHECK_STR(config.domain_served, "localhost:3443");
    CHECK_STR(config.domain, "");
    scoped_fd second = take("127.0.0.1:3443");
    CHECK(second >= 0);
    config = settled("127.0.0.1:3000", "auto", "", -1);
    CHECK(strncmp(config.domain_served, "localhost:", 10) == 0);
    CHECK_STR(strrchr(config.domain_served, ':'), strrchr(config.tls_listen, ':'));
    CHECK(atoi(config.domain_served + 10) > 1024 && atoi(config.domain_served + 10) != 3443);
}

static void the_port_of_plain_http_is_not_taken(void)
{
    struct config config = settled("127.0.0.1:443", "auto", "", -1);

    CHECK_STR(config.tls_listen, "127.0.0.1:3443");
    config = settled("127.0.0.1:3000", "auto", "localhost:3000", -1);
    CHECK_STR(config.tls_listen, "");
    CHECK_STR(config.domain_served, "localhost:3000");
}

static void any_free_port_means_any_for_both(void)
{
    struct config config = settled("127.0.0.1:0", "auto", "", -1);

    CHECK(strcmp(config.domain_served, "localhost") != 0);
    CHECK_STR(strrchr(config.domain_served, ':'), strrchr(config.tls_listen, ':'));
    config = settled("127.0.0.1:3000", "127.0.0.1:0", "", -1);
    CHECK(strcmp(config.tls_listen, "127.0.0.1:0") != 0);
    CHECK_STR(strrchr(config.domain_served, ':'), strrchr(config.tls_listen, ':'));
}

static void a_domain_is_served_where_the_api_is(void)
{
    struct config config = settled("0.0.0.0:3000", "auto", "box.test", -1);

    CHECK_STR(config.tls_listen, "0.0.0.0:443");
    CHECK_STR(config.domain_served, "box.test");
    config = settled("[::]:3000", "auto", "box.test:8443", -1);
    CHECK_STR(config.tls_listen, "[::]:8443");
    CHECK_STR(config.domain_served, "box.test:8443");
    scoped_fd other = take("0.0.0.0:8443"); /* a proxy that has the certificates */
    CHECK(other >= 0);
    config = settled("0.0.0.0:3000", "auto", "box.test:8443", -1);
    CHECK_STR(config.tls_listen, "");
    CHECK_STR(config.domain_served, "box.test:8443");
}

static void what_was_said_stays(void)
{
    struct config config = settled("127.0.0.1:3000", "", "", -1);

    CHECK_STR(config.tls_listen, "");
    CHECK_STR(config.domain_served, "");
    config = settled("127.0.0.1:3000", "10.0.0.1:8443", "box.test", -1);
    CHECK_STR(config.tls_listen, "10.0.0.1:8443");
    CHECK_STR(config.domain_served, "box.test");
}

static void a_socket_that_was_handed_over_tells_its_port(void)
{
    scoped_fd fd = take("[::]:443");
    struct config config = settled("127.0.0.1:3000", "auto", "", fd);

    CHECK_STR(config.tls_listen, "[::]:443");
    CHECK_STR(config.domain_served, "localhost");
}

static void a_certificate_wants_a_port(void)
{
    struct config config = {.listen = "127.0.0.1:3000",
                            .tls_listen = CONFIG_AUTO_TEXT,
                            .domain = "box.test",
                            .tls_cert = "/cert.pem"};
    struct err err;
    scoped_fd other = take("127.0.0.1:443");
    CHECK(other >= 0);

    CHECK_INT(tls_address_choose(&config, -1, &err), -EADDRINUSE);
    CHECK_THAT(strstr(err.msg, "--tls-listen") && strstr(err.msg, "127.0.0.1:443"), "%s", err.msg);
}

static void loopback_has_another_address(void)
{
    char other[64];

    CHECK(tls_address_other("127.0.0.1:3443", other, sizeof(other)));
    CHECK_STR(other, "[::1]:3443");
    CHECK(!tls_address_other("0.0.0.0:3443", other, sizeof(other)));
    CHECK(!tls_address_other("", other, sizeof(other)));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"the first port that is free is taken", the_first_port_that_is_free_is_taken},
        {"the port of plain http is not taken", the_port_of_plain_http_is_not_taken},
        {"any free port means any for both", any_free_port_means_any_for_both},
        {"a domain is served where the api is", a_domain_is_served_where_the_api_is},
        {"what was said stays", what_was_said_stays},
        {"a socket that was handed over tells its port",
         a_socket_that_was_handed_over_tells_its_port},
        {"a certificate wants a port", a_certificate_wants_a_port},
        {"loopback has another address", loopback_has_another_address},
    };
    network_enter();
    return check_run(tests, countof(tests));
}
