/* multi.h - libcurl on the loop: requests to servers that users chose.
 *
 * Owns:     the connections, the transfers under way, and their easy handles once added.
 * Needs:    a loop.
 * Blocks:   never; names are resolved on threads of libcurl's own.
 * Threads:  the loop's.
 *
 * Limits of every transfer: HTTP only, no proxy, no signal, and, unless local addresses are
 * allowed, no address of this machine. Each address is checked when its socket is made, so a name
 * that resolves to another address by then gains nothing.
 */
#ifndef WEB_MULTI_H
#define WEB_MULTI_H

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdbool.h>
#include <uv.h>

#include "lib/guard/said.h"

struct multi;

/* Embedded in what the transfer is for; the fields are multi.c's. */
struct transfer {
    struct transfer *prev, *next;
    struct multi *multi; /* NULL: not under way */
    CURL *easy;
    bool allow_local;
    char refused[INET6_ADDRSTRLEN]; /* an address of this machine that it asked for; "": none */
    char reason[CURL_ERROR_SIZE];
    void (*done)(struct transfer *transfer, CURLcode code);
};

/* A handle for HTTP only, without a proxy, a redirect or a signal: for a transfer, or for a caller
 * that waits for its end. */
CURL *web_handle_new(void);

struct multi *multi_new(uv_loop_t *loop, long idle_connections);

/* Drops running transfers without calling `done`. The loop must run once more. */
void multi_free(struct multi *multi);

/* A handle with the limits above set; the caller adds its own and starts it. */
void transfer_init(struct transfer *transfer, bool allow_local);

/* `done` is called once, from the loop, never inside one of libcurl's callbacks. The transfer has
 * ended then, but its handle can still be asked until transfer_end(). */
void transfer_start(struct multi *multi, struct transfer *transfer,
                    void (*done)(struct transfer *transfer, CURLcode code));

/* At any time; done is not called any more. */
void transfer_end(struct transfer *transfer);

/* Why it failed: libcurl's own words, which may repeat what the server sent (the host that a
 * redirect names). The guard has the secrets of the request. */
const char *transfer_reason(const struct transfer *transfer, CURLcode code,
                            const struct guard *guard, struct said *out);

#endif
