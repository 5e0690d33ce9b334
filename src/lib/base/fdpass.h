/* fdpass.h - descriptors that travel beside the bytes of a message.
 *
 * Owns: nothing. Needs: a connected AF_UNIX socket that keeps messages apart and was asked for no
 * other control messages. Blocks: as the socket does, unless flags has MSG_DONTWAIT. Threads: any.
 */
#ifndef BASE_FDPASS_H
#define BASE_FDPASS_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
    FDPASS_MAX = 64, /* descriptors with one message */
};

/* Sends one message with copies of fds_n descriptors; the caller keeps its own. Gives the bytes
 * sent, or -errno; -EPIPE comes without a signal. */
ssize_t fdpass_send(int socket, const void *bytes, size_t len, const int *fds, size_t fds_n,
                    int flags);

/* Receives one message into iov. Its descriptors are the caller's from here on, close-on-exec;
 * unused places of fds[max] are -1. Gives the bytes received, 0 at the end of the connection, or
 * -errno, and then no descriptor is open that was not before:
 *   -EMSGSIZE      the message is longer than iov;
 *   -ETOOMANYREFS  the bytes are whole, but the descriptors are more than max or than this process
 *                  may have.
 */
ssize_t fdpass_receive(int socket, struct iovec *iov, size_t iov_n, int *fds, size_t max,
                       int flags);

/* Closes each that is open. */
void fdpass_close(int *fds, size_t n);

#endif
