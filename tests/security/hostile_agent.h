/* hostile_agent.h - shared by the modes of an agent in the hands of an attacker.
 *
 * Modes are in hostile_*.c, by subject, each with its table. A mode gets the channel and the number
 * of the daemon's question, and leaves behind threads that go on for as long as the jail lives.
 */
#ifndef TESTS_SECURITY_HOSTILE_AGENT_H
#define TESTS_SECURITY_HOSTILE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RIGHTS_MAX = 253, /* with one message: the kernel's limit */
    FLOOD = 200 * 1000,
    BLOCK = 64 * 1024,
};

struct hostile_mode {
    const char *name;
    void (*run)(int channel, uint32_t seq);
};

/* Each ends with an empty row. test_hostile_agent.py reads the names from the rows. */
extern const struct hostile_mode channel_modes[], descriptor_modes[], http_modes[], freeze_modes[];

#define MODE(mode)                                                                                 \
    {                                                                                              \
        .name = #mode, .run = mode                                                                 \
    }
#define GIVES MODE /* hands over a descriptor, which ends the sandbox */

extern int given; /* the agent's end of the connection, with the question that is being answered */
extern struct hostile_spoil {
    bool not_utf8, controls; /* the bytes that replace log lines */
} spoil;

/* A TCP connection from the jail to itself; both are -1 on failure. */
void connected(int out[2]);

/* A message on the channel; an answer with one descriptor, which stays open here. */
void say(int channel, uint32_t op, uint32_t seq, int32_t status, const int *fds, size_t n);
void answer(int channel, uint32_t seq, int fd);

/* Starts a thread. */
void act(void (*run)(int ours, int theirs), int ours, int theirs);

/* Serves the connection that the daemon has made. */
void play(int channel, uint32_t seq, void (*run)(int ours, int theirs));

/* Makes a connection as agents of the first release did: gives one end to the daemon, keeps a copy
 * of it, and plays with both. */
void play_own(int channel, uint32_t seq, void (*run)(int ours, int theirs));

bool put(int fd, const void *bytes, size_t len);
void text(int fd, const char *words);
void head_read(int fd);

/* Closes the copy and reads the request, so that nothing else keeps the daemon from the attack. */
void part(int ours, int theirs);
void forever(void);

#endif
