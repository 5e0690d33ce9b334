/* channel.h - what the daemon and a jail's agent say to each other besides HTTP.
 *
 * A SOCK_SEQPACKET connection to CHANNEL_NAME in the jail's network namespace, made by the keeper,
 * held by the daemon. That name is no file: it is bound before anything of the jail's runs, and
 * stays the agent's as long as the jail lives. Nobody inside can rename or replace it. The agent
 * takes only peers from outside its pid namespace (SO_PEERCRED shows pid 0): nobody in the jail can
 * speak here.
 *
 * The daemon makes the connections to the agent itself, from sockets that the keeper opened in the
 * jail's network, and gives the agent its end of each. So no process of the jail ever has a copy of
 * the daemon's end, whose lock it could hold.
 *
 * Both sides are built from one tree, but a jail outlives a daemon's upgrade: the first message in
 * either direction is a hello with the version, and a side refuses what it does not know.
 */
#ifndef WIRE_CHANNEL_H
#define WIRE_CHANNEL_H

#include <stdint.h>

#define CHANNEL_DIR "/run/atoll"
#define CHANNEL_NAME "atoll-agent" /* in the abstract namespace: without its first byte, a zero */

/* Where agents of CHANNEL_VERSION_FIRST listen (keeper/jail/first_release.h). */
#define CHANNEL_PATH_BEFORE CHANNEL_DIR "/agent.sock"

/* Where a jail of the daemon's own has the volume that its agent serves (inside/agent/volume.h). */
#define CHANNEL_VOLUME "/volume"

/* What argv[0] says when the agent's program is to be the one that CRIU calls `tar`
 * (inside/stow/stow.h). */
#define CHANNEL_TAR_PROGRAM "tar"

enum {
    CHANNEL_VERSION = 2,
    CHANNEL_VERSION_FIRST = 1, /* the agent makes the connection, and answers CONNECT with the
                                  daemon's end; also to the services of its jail */
    CHANNEL_LISTEN_FD = 3,     /* the agent inherits the listening socket here, and nothing above */
    AGENT_PORT = 49983,        /* the agent's own HTTP surface, on TCP in the jail as well */
    CHANNEL_TICK_MS = 10,
    CHANNEL_LOG_BYTES_MAX = 4096, /* the text of a line: JSON */
    CHANNEL_PORT_CONTROL = 0,     /* as a port: the agent's HTTP surface with /init unlocked */
    CHANNEL_PORT_UNPACK = 65536,  /* as a port: a fresh unpacker, see inside/unpack/unpack.h; no
                                     request  from outside can name it */
};

enum channel_op {
    CHANNEL_HELLO = 1,   /* both ways, first; value = CHANNEL_VERSION; daemon: status = enum
                            channel_past */
    CHANNEL_CONNECT = 2, /* daemon: value = AGENT_PORT, CHANNEL_PORT_CONTROL or _UNPACK, and a TCP
                            connection: serve it; agent: status 0 or -errno, in any order */
    CHANNEL_OOM = 3,     /* agent: how often did the kernel kill in this jail for memory?;
                            daemon: value = that count since the jail's start */
    CHANNEL_LOG = 4,     /* daemon: all lines up to seq are on record, value more may be sent;
                            agent, not before it was asked: a line, seq its number from 1 on */
    CHANNEL_USED = 6,    /* daemon: what the jail uses, to be shown inside: value and seq = memory
                            and of that page cache, in KiB; status = processor time in ticks of
                            CHANNEL_TICK_MS. No answer */
    CHANNEL_QUIET = 5,   /* daemon: the jail is about to be saved, value = enum channel_quiet;
                            agent: status 0, and then it closes every channel */
};

/* How quiet: either way no output of a process is given to a reader until the next hello. */
enum channel_quiet {
    CHANNEL_QUIET_HOLD = 1, /* streams stay open: the jail goes on after the save */
    CHANNEL_QUIET_END = 2,  /* streams are told that the sandbox is paused */
};

/* What the jail was before this channel. The connections that a restored agent finds open lead
 * nowhere: their other ends were not saved with it. */
enum channel_past {
    CHANNEL_PAST_NONE = 0,     /* it has been running, or has just been started */
    CHANNEL_PAST_RESTORED = 1, /* the same sandbox, paused */
    CHANNEL_PAST_COPIED = 2,   /* another sandbox: its log is not ours either */
};

/* Behind the message of a log line, and before its text, which goes to the end of the datagram. */
struct channel_log {
    int64_t wall_ms;
    uint32_t level; /* enum log_level */
    uint32_t lost;  /* lines dropped before this one, for want of room */
};

struct channel_message {
    uint32_t op;
    uint32_t seq;   /* an answer repeats its question's */
    int32_t status; /* answers: 0 or -errno */
    uint32_t value;
};

#endif
