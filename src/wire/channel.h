/* channel.h - the messages between the daemon and a jail's agent, besides HTTP.
 *
 * The channel is a SOCK_SEQPACKET connection to CHANNEL_NAME in the jail's network namespace. The
 * keeper makes it and the daemon holds it. The name is abstract, not a file: it is bound before
 * anything of the jail runs, and belongs to the agent for the life of the jail. No one inside can
 * rename or replace it. The agent accepts only peers from outside its pid namespace (SO_PEERCRED
 * shows pid 0): no process of the jail can use it.
 *
 * The daemon makes the connections to the agent itself, from sockets that the keeper opened in the
 * jail's network, and sends the agent its end of each. So no process of the jail ever has a copy of
 * the daemon's end, whose lock it could hold.
 *
 * Both sides are built from one tree, but a jail outlives an upgrade of the daemon: the first
 * message in either direction is a hello with the version, and each side refuses unknown versions.
 */
#ifndef WIRE_CHANNEL_H
#define WIRE_CHANNEL_H

#include <stdint.h>

#define CHANNEL_DIR "/run/atoll"
#define CHANNEL_NAME "atoll-agent" /* in the abstract namespace: without the leading zero byte */

/* The path where agents of CHANNEL_VERSION_FIRST listen (keeper/jail/first_release.h). */
#define CHANNEL_PATH_BEFORE CHANNEL_DIR "/agent.sock"

/* The path of the volume that the agent serves, in a jail of the daemon's own
 * (inside/agent/volume.h). */
#define CHANNEL_VOLUME "/volume"

/* argv[0] of the agent's program when it runs as the `tar` of CRIU (inside/stow/stow.h). */
#define CHANNEL_TAR_PROGRAM "tar"

enum {
    CHANNEL_VERSION = 2,
    CHANNEL_VERSION_FIRST = 1, /* the agent makes the connection, and answers CONNECT with the
                                  daemon's end; also to the services of its jail */
    CHANNEL_LISTEN_FD =
        3, /* the agent inherits the listening socket as this descriptor, and no higher one */
    AGENT_PORT = 49983, /* the agent's own HTTP surface, on TCP in the jail as well */
    CHANNEL_TICK_MS = 10,
    CHANNEL_LOG_BYTES_MAX = 4096, /* of the text of a line, which is JSON */
    CHANNEL_PORT_CONTROL = 0,     /* as a port: the agent's HTTP surface with /init unlocked */
    CHANNEL_PORT_UNPACK = 65536,  /* as a port: a new unpacker (inside/unpack/unpack.h); no request
                                     from outside can name it */
};

enum channel_op {
    CHANNEL_HELLO = 1,   /* both ways, first; value = CHANNEL_VERSION; daemon: status = enum
                            channel_past */
    CHANNEL_CONNECT = 2, /* daemon: value = AGENT_PORT, CHANNEL_PORT_CONTROL or _UNPACK, and a TCP
                            connection: serve it; agent: status 0 or -errno, in any order */
    CHANNEL_OOM = 3, /* agent asks: how often did the kernel kill for memory in this jail?; daemon:
                        value = that count since the jail's start */
    CHANNEL_LOG = 4, /* daemon: all lines up to seq are stored, `value` more may be sent; agent,
                        only after it was asked: a line, seq = its number from 1 on */
    CHANNEL_USED =
        6, /* daemon: the jail's usage, to be shown inside: value and seq = memory and the page
              cache in it, in KiB; status = processor time in ticks of CHANNEL_TICK_MS. No answer */
    CHANNEL_ALONE = 7, /* daemon asks: does the agent hold nothing that a new agent on a copy of the
                          disk would lack?; agent: status 0, and value = how many requests it has
                          ever been sent, or -EBUSY. Older agents: -EPROTONOSUPPORT */
    CHANNEL_FILES = 8, /* daemon: a descriptor with files (inside/stow) of the jail that this one is
                          a copy of, value = enum channel_place; agent: status 0 when they are
                          there, or -errno */
    CHANNEL_QUIET = 5, /* daemon: the jail is about to be saved, value = enum channel_quiet;
                          agent: status 0, and then it closes every channel */
};

enum channel_place {
    CHANNEL_PLACE_RUN = 0,  /* /run, and with it /dev/shm */
    CHANNEL_PLACE_ROOT = 1, /* /: what is there already is replaced */
};

/* Kinds of quiet. In both, readers get no output of processes until the next hello. */
enum channel_quiet {
    CHANNEL_QUIET_HOLD = 1, /* streams stay open: the jail continues after the save */
    CHANNEL_QUIET_END = 2,  /* streams end with a message that the sandbox is paused */
};

/* The state of the jail before this channel. The connections that a restored agent finds open are
 * dead: their other ends were not saved with it. */
enum channel_past {
    CHANNEL_PAST_NONE = 0,     /* it was running, or was just started */
    CHANNEL_PAST_RESTORED = 1, /* the same sandbox, paused */
    CHANNEL_PAST_COPIED = 2,   /* another sandbox: its log is not for this one either */
};

/* Follows the message of a log line. Its text comes after this, to the end of the datagram. */
struct channel_log {
    int64_t wall_ms;
    uint32_t level; /* enum log_level */
    uint32_t lost;  /* lines dropped before this one, because the buffer was full */
};

struct channel_message {
    uint32_t op;
    uint32_t seq;   /* an answer repeats that of its question */
    int32_t status; /* answers: 0 or -errno */
    uint32_t value;
};

#endif
