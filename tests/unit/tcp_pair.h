/* tcp_pair.h - two ends of a TCP connection over loopback, as an agent hands them out. */
#ifndef TESTS_TCP_PAIR_H
#define TESTS_TCP_PAIR_H

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static inline void tcp_pair(int out[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) < 0 ||
        connect(out[0], (struct sockaddr *)&address, len) < 0) {
        abort();
    }
    out[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    (void)close(listener);
    if (out[1] < 0) {
        abort();
    }
}

#endif
