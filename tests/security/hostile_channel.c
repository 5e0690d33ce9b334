/* hostile_channel.c - bad answers on the channel, and bad lines of the log. */
#include "hostile_agent.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inside/agent/journal.h"
#include "wire/channel.h"

enum { LATE_S = 12 }; /* the daemon waits for ten */

/* ---- answers ---- */

static void never_answers(int channel, uint32_t seq)
{
    (void)channel, (void)seq;
}

static void answers_twice(int channel, uint32_t seq)
{
    int pair[2];

    connected(pair);
    answer(channel, seq, pair[0]);
    answer(channel, seq, pair[0]);
}

static uint32_t late_seq;

static void late(int channel, int unused)
{
    int pair[2];

    (void)unused;
    (void)sleep(LATE_S);
    connected(pair);
    answer(channel, late_seq, pair[0]);
}

static void answers_late(int channel, uint32_t seq)
{
    late_seq = seq;
    act(late, channel, -1);
}

static void wrong_number(int channel, uint32_t seq)
{
    int pair[2];

    connected(pair);
    answer(channel, seq + 100 * 1000, pair[0]);
}

static void short_message(int channel, uint32_t seq)
{
    (void)send(channel, &seq, 3, MSG_NOSIGNAL);
}

static void long_message(int channel, uint32_t seq)
{
    static char bytes[BLOCK];
    struct channel_message message = {.op = CHANNEL_CONNECT, .seq = seq};

    memcpy(bytes, &message, sizeof(message));
    (void)send(channel, bytes, sizeof(bytes), MSG_NOSIGNAL);
}

static void empty_message(int channel, uint32_t seq)
{
    (void)send(channel, &seq, 0, MSG_NOSIGNAL);
}

static void unknown_message(int channel, uint32_t seq)
{
    say(channel, 4242, seq, 0, NULL, 0);
}

static void no_descriptor(int channel, uint32_t seq)
{
    say(channel, CHANNEL_CONNECT, seq, 0, NULL, 0);
}

static void many_descriptors(int channel, uint32_t seq, size_t n)
{
    int pair[2], fds[RIGHTS_MAX];

    connected(pair);
    for (size_t i = 0; i < n; i++) {
        fds[i] = pair[0];
    }
    say(channel, CHANNEL_CONNECT, seq, 0, fds, n);
    (void)close(pair[0]), (void)close(pair[1]);
}

static void two_descriptors(int channel, uint32_t seq)
{
    many_descriptors(channel, seq, 2);
}

static void all_descriptors(int channel, uint32_t seq)
{
    many_descriptors(channel, seq, RIGHTS_MAX);
}

static void bad_status(int channel, uint32_t seq)
{
    say(channel, CHANNEL_CONNECT, seq, INT32_MIN, NULL, 0);
}

static void error_with_descriptor(int channel, uint32_t seq)
{
    int pair[2];

    connected(pair);
    say(channel, CHANNEL_CONNECT, seq, -ECONNREFUSED, pair, 1);
}

static void hello_again(int channel, uint32_t seq)
{
    say(channel, CHANNEL_HELLO, seq, 0, NULL, 0);
}

static void quiet_unasked(int channel, uint32_t seq)
{
    say(channel, CHANNEL_QUIET, seq, 0, NULL, 0);
}

static void closes_the_channel(int channel, uint32_t seq)
{
    (void)seq;
    (void)shutdown(channel, SHUT_RDWR);
}

static void flood(int channel, int unused)
{
    (void)unused;
    for (uint32_t i = 0; i < FLOOD; i++) {
        struct channel_message message = {.op = CHANNEL_OOM, .seq = i};
        if (send(channel, &message, sizeof(message), MSG_NOSIGNAL) < 0) {
            return;
        }
    }
}

static void question_flood(int channel, uint32_t seq)
{
    (void)seq;
    act(flood, channel, -1);
}

/* ---- the log ---- */

static void lines_write(int n)
{
    for (int i = 0; i < n; i++) {
        journal_write(LOG_ERROR, "hostile", "flood", NULL, "line %d of a flood %0400d", i, i);
    }
}

static void log_flood(int channel, uint32_t seq)
{
    (void)channel, (void)seq;
    lines_write(FLOOD);
}

static void log_not_utf8(int channel, uint32_t seq)
{
    (void)channel, (void)seq;
    spoil.not_utf8 = true;
    lines_write(50);
}

static void log_controls(int channel, uint32_t seq)
{
    (void)channel, (void)seq;
    spoil.controls = true;
    lines_write(50);
}

static void log_unasked(int channel, uint32_t seq)
{
    struct {
        struct channel_message message;
        struct channel_log log;
        char line[16];
    } all = {.message = {.op = CHANNEL_LOG, .seq = UINT32_MAX}, .line = "{\"a\":1}"};

    (void)seq;
    (void)send(channel, &all, sizeof(all), MSG_NOSIGNAL);
}

const struct hostile_mode channel_modes[] = {
    MODE(never_answers),
    GIVES(answers_twice),
    GIVES(answers_late),
    GIVES(wrong_number),
    MODE(short_message),
    MODE(long_message),
    MODE(empty_message),
    MODE(unknown_message),
    MODE(no_descriptor),
    GIVES(two_descriptors),
    GIVES(all_descriptors),
    MODE(bad_status),
    GIVES(error_with_descriptor),
    MODE(hello_again),
    MODE(quiet_unasked),
    MODE(closes_the_channel),
    MODE(question_flood),
    MODE(log_flood),
    MODE(log_not_utf8),
    MODE(log_controls),
    MODE(log_unasked),
    {0},
};
