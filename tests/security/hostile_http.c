/* hostile_http.c - bad HTTP on the connection that the daemon has made. */
#include "hostile_agent.h"

#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define OK "HTTP/1.1 200 OK\r\n"

static void half_head_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, "HTTP/1.1 200 OK\r\nContent-Ty");
    forever();
}

static void silent_run(int ours, int theirs)
{
    part(ours, theirs);
    forever();
}

static void endless_headers_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK);
    for (int i = 0; put(ours, "x-header: value\r\n", 17) && i < INT32_MAX; i++) {
    }
}

static void long_header_run(int ours, int theirs)
{
    static const char block[BLOCK] = {[0 ... BLOCK - 1] = 'a'};

    part(ours, theirs);
    text(ours, OK "x-long: ");
    while (put(ours, block, sizeof(block))) {
    }
}

static void endless_body_run(int ours, int theirs)
{
    static const char block[BLOCK];

    part(ours, theirs);
    text(ours, OK "\r\n");
    while (put(ours, block, sizeof(block))) {
    }
}

static void endless_chunks_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "transfer-encoding: chunked\r\n\r\n");
    while (put(ours, "1\r\nx\r\n", 6)) {
    }
}

static void endless_trailers_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n");
    while (put(ours, "x-trailer: value\r\n", 18)) {
    }
}

static void bad_chunks_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "transfer-encoding: chunked\r\n\r\nzz\r\n\r\n-5\r\nhello\r\n");
    forever();
}

static void huge_chunk_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nhello");
    forever();
}

static void huge_length_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "content-length: 9223372036854775807\r\n\r\nhello");
    forever();
}

static void negative_length_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "content-length: -1\r\n\r\nhello");
    forever();
}

static void two_lengths_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours,
         OK "content-length: 5\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\n\r\nhello");
    forever();
}

static void interim_flood_run(int ours, int theirs)
{
    part(ours, theirs);
    while (put(ours, "HTTP/1.1 103 Early Hints\r\n\r\n", 28)) {
    }
}

static void upgrade_unasked_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nraw");
    forever();
}

static void http2_garbage_run(int ours, int theirs)
{
    static const char frames[] = "\0\0\6\4\0\0\0\0\0\0\1\377\377\377\377\377\377\0\0\0\0\0\0\377";

    part(ours, theirs);
    while (put(ours, frames, sizeof(frames))) {
    }
}

/* Compressed zeros, a thousand to one: unpacking them would take very long. */
static void gzip_bomb_run(int ours, int theirs)
{
    static const unsigned char start[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    static const unsigned char zeros[] = {0xec, 0xc1, 0x01, 0x0d, 0x00, 0x00, 0x00, 0xc2,
                                          0xa0, 0xf7, 0x4f, 0x6d, 0x0e, 0x37, 0xa0, 0x00};

    part(ours, theirs);
    text(ours, OK "content-encoding: gzip\r\ncontent-type: application/json\r\n\r\n");
    (void)put(ours, start, sizeof(start));
    for (int i = 0; i < FLOOD && put(ours, zeros, sizeof(zeros)); i++) {
    }
    (void)close(ours);
}

static void closes_in_head_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, "HTTP/1.1 200 OK\r\nContent-Ty");
    (void)close(ours);
}

static void closes_in_body_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "content-length: 100\r\n\r\nhello");
    (void)close(ours);
}

static void resets_in_body_run(int ours, int theirs)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};

    part(ours, theirs);
    text(ours, OK "content-length: 100\r\n\r\nhello");
    (void)setsockopt(ours, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    (void)close(ours);
}

static void answers_unasked_run(int ours, int theirs)
{
    (void)close(theirs);
    for (int i = 0; i < 1000; i++) {
        text(ours, OK "content-length: 2\r\n\r\nhi");
    }
    forever();
}

static void noise_run(int ours, int theirs)
{
    static char bytes[BLOCK];

    part(ours, theirs);
    (void)getrandom(bytes, sizeof(bytes), 0);
    while (put(ours, bytes, sizeof(bytes))) {
    }
}

static void zeros_in_head_run(int ours, int theirs)
{
    part(ours, theirs);
    (void)put(ours, OK "x-\0y: \0\r\n\r\n", sizeof(OK "x-\0y: \0\r\n\r\n") - 1);
    forever();
}

static void drips_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "\r\n");
    while (put(ours, "x", 1)) {
        (void)usleep(1000);
    }
}

#define HTTP(name)                                                                                 \
    static void name(int channel, uint32_t seq)                                                    \
    {                                                                                              \
        play(channel, seq, name##_run);                                                            \
    }
HTTP(half_head)
HTTP(silent)
HTTP(endless_headers)
HTTP(long_header)
HTTP(endless_body)
HTTP(endless_chunks)
HTTP(endless_trailers)
HTTP(bad_chunks)
HTTP(huge_chunk)
HTTP(huge_length)
HTTP(negative_length)
HTTP(two_lengths)
HTTP(interim_flood)
HTTP(upgrade_unasked)
HTTP(http2_garbage)
HTTP(gzip_bomb)
HTTP(closes_in_head)
HTTP(closes_in_body)
HTTP(resets_in_body)
HTTP(answers_unasked)
HTTP(noise)
HTTP(zeros_in_head)
HTTP(drips)

const struct hostile_mode http_modes[] = {
    MODE(half_head),        MODE(silent),          MODE(endless_headers),
    MODE(long_header),      MODE(endless_body),    MODE(endless_chunks),
    MODE(endless_trailers), MODE(bad_chunks),      MODE(huge_chunk),
    MODE(huge_length),      MODE(negative_length), MODE(two_lengths),
    MODE(interim_flood),    MODE(upgrade_unasked), MODE(http2_garbage),
    MODE(gzip_bomb),        MODE(closes_in_head),  MODE(closes_in_body),
    MODE(resets_in_body),   MODE(answers_unasked), MODE(noise),
    MODE(zeros_in_head),    MODE(drips),           {0},
};
