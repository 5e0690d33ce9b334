#include "serve/daemon/tls_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/http/server.h"

#define LOOPBACK "127.0.0.1"

enum { PORTS_MAX = 3 };

/* The port of "ADDRESS:PORT" or "NAME:PORT"; -1: it has none. */
static int port_of(const char *text)
{
    const char *colon = strrchr(text, ':');

    return colon ? (int)strtoul(colon + 1, NULL, 10) : -1;
}

/* The address of a socket, as a setting has it. */
static void address_of(int fd, char *out, size_t size)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof(addr);
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&addr;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&addr;

    out[0] = '\0';
    if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0) {
        return;
    }
    if (addr.ss_family == AF_INET && inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host))) {
        (void)snprintf(out, size, "%s:%d", host, ntohs(v4->sin_port));
    } else if (addr.ss_family == AF_INET6 &&
               inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host))) {
        (void)snprintf(out, size, "[%s]:%d", host, ntohs(v6->sin6_port));
    }
}

/* Takes the address if it is free, with the port that the kernel chose in place of 0. */
static int address_try(struct config *config, const char *address, struct err *err)
{
    scoped_fd fd = http_address_open(address, err);

    if (fd < 0) {
        return fd;
    }
    address_of(fd, config->tls_listen, sizeof(config->tls_listen));
    return 0;
}

/* The ports to try, ended by -1. If plain HTTP takes any free port, so does TLS. */
static void ports_choose(const struct config *config, int ports[PORTS_MAX + 1])
{
    static const int candidates[PORTS_MAX] = {TLS_ADDRESS_PORT, TLS_ADDRESS_PORT_ELSE, 0};
    int asked = port_of(config->domain);
    size_t n = 0;

    if (config->domain[0]) {
        ports[n++] = asked >= 0 ? asked : TLS_ADDRESS_PORT;
    } else if (port_of(config->listen) == 0) {
        ports[n++] = 0;
    } else {
        memcpy(ports, candidates, sizeof(candidates));
        n = PORTS_MAX;
    }
    ports[n] = -1;
}

/* Names below localhost lead to loopback; those of a domain to where the API is served. */
static int address_find(struct config *config, struct err *err)
{
    const char *colon = strrchr(config->listen, ':');
    struct str host = config->domain[0]
                          ? (struct str){config->listen, (size_t)(colon - config->listen)}
                          : STR(LOOPBACK);
    int ports[PORTS_MAX + 1];
    char address[CONFIG_TEXT_BYTES];

    config->tls_listen[0] = '\0';
    ports_choose(config, ports);
    for (const int *port = ports; *port >= 0; port++) {
        (void)snprintf(address, sizeof(address), "%.*s:%d", (int)host.len, host.at, *port);
        if (*port != 0 && *port == port_of(config->listen)) {
            (void)!err_set(err, EADDRINUSE, "the domain's port is that of plain HTTP");
        } else if (address_try(config, address, err) == 0) {
            return 0;
        }
    }
    if (config->tls_cert[0]) {
        return err_wrap(err, "name an address for TLS with --tls-listen");
    }
    log_info("TLS is not served: %s", err->msg);
    return 0;
}

static void domain_find(struct config *config)
{
    int port = port_of(config->tls_listen);
    bool own = config->tls_listen[0] && !config->tls_cert[0];

    if (config->domain[0] || !own) {
        (void)str_copy(config->domain_served, sizeof(config->domain_served),
                       str_of(config->domain));
    } else if (port == TLS_ADDRESS_PORT) {
        (void)str_copy(config->domain_served, sizeof(config->domain_served), STR("localhost"));
    } else {
        (void)snprintf(config->domain_served, sizeof(config->domain_served), "localhost:%d", port);
    }
}

int tls_address_choose(struct config *config, int given, struct err *err)
{
    char asked[CONFIG_TEXT_BYTES];
    int r = 0;

    if (given >= 0) {
        address_of(given, config->tls_listen, sizeof(config->tls_listen));
    } else if (strcmp(config->tls_listen, CONFIG_AUTO_TEXT) == 0) {
        r = address_find(config, err);
    } else if (port_of(config->tls_listen) == 0) {
        (void)str_copy(asked, sizeof(asked), str_of(config->tls_listen));
        r = address_try(config, asked, err);
    }
    domain_find(config);
    return r;
}

bool tls_address_other(const char *address, char *out, size_t size)
{
    struct str text = str_of(address);

    if (!str_starts(text, STR(LOOPBACK ":"))) {
        return false;
    }
    (void)snprintf(out, size, "[::1]%s", address + strlen(LOOPBACK));
    return true;
}
