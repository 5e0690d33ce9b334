/* note.h - facts of a request that its handlers find out, for logs and traces.
 *
 * The program sets a watch on an exchange before anybody handles it. Handlers fill the note in;
 * when the exchange has ended the watch is told once, with the note and with what was carried. */
#ifndef HTTP_NOTE_H
#define HTTP_NOTE_H

#include "lib/base/trace.h"
#include "lib/http/http.h"

enum { NOTE_ID_BYTES = 40 }; /* a uuid, or the id of a sandbox, and a NUL */

struct http_note {
    const char *route; /* the pattern of the path, static; NULL: none */
    char team[NOTE_ID_BYTES];
    char key[NOTE_ID_BYTES];
    char sandbox[NOTE_ID_BYTES];
    uint16_t port;            /* of the sandbox; 0: none */
    struct trace_place trace; /* the request's own span */
    bool traced;              /* the caller sent a place; it is the parent */
    uint8_t parent[TRACE_SPAN_BYTES];
};

struct http_carried {
    int status;                   /* 0: no answer was given */
    int error;                    /* as of on_end */
    uint64_t bytes_in, bytes_out; /* of the bodies */
};

/* Before http_accept(). `ended` comes from the loop while the request is still valid. */
void http_watch(struct http_exchange *ex, struct http_note *note,
                void (*ended)(struct http_note *note, const struct http_request *req,
                              const struct http_carried *carried));

/* NULL: nobody watches. */
struct http_note *http_note(const struct http_exchange *ex);

/* Each does nothing when nobody watches. */
void http_note_account(struct http_exchange *ex, const char *team, const char *key);
void http_note_sandbox(struct http_exchange *ex, const char *id, uint16_t port);

/* The place under which steps of the request are reported; all zero when nobody watches. */
struct trace_place http_note_trace(const struct http_exchange *ex);

#endif
