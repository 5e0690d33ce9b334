/* routes.h - facts of a route that are checked before its handler runs. The table is in routes.c.
 */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call;

/* The callers that a route admits. The source address opens nothing: a browser on this machine has
 * a local address as well. A request is charged to the team whose key or token it carries. */
enum access {
    ACCESS_NONE,         /* anybody, without a key */
    ACCESS_KEY,          /* a team: API key or access token, or the admin's key and X-Team-ID */
    ACCESS_FULL_KEY,     /* the same, but no key that has limits of its own: 403 */
    ACCESS_ADMIN,        /* the operator: a key of the admin */
    ACCESS_UPLOAD_TOKEN, /* the token in the address that GET /templates/{}/files/{} gave */
    ACCESS_INTERNAL,     /* a team's key, by the internal socket alone: the daemon's own programs */
    ACCESS_PAGE,         /* a page of the dashboard: its cookie, and its Origin. For WebSockets */
    ACCESS_VOLUME_TOKEN, /* the volume's token as a bearer; errors have a text for their code */
};

enum body_kind {
    BODY_NONE,     /* ignored */
    BODY_OPTIONAL, /* a JSON object; an absent one is empty */
    BODY_REQUIRED, /* a JSON object */
    BODY_STREAM,   /* any bytes, taken as they come */
};

enum route_flags {
    NO_CORS = 1 << 0,  /* for programs: no page may read the answer */
    NO_STORE = 1 << 1, /* no cache may keep the answer */
    FOR_TEAM = 1 << 2, /* the first {} names the team for which the admin acts: 404 */
    READS = 1 << 3,    /* a read-only key may call it, whatever its method */
    WRITES = 1 << 4,   /* a read-only key may not, though its method is GET */
};

struct route {
    const char *method;
    const char *path; /* "{}" stands for one segment, at most twice */
    /* Called with the whole body. NULL: `stream` takes every call. */
    void (*handle)(struct call *call, const json_t *body);
    enum access access;
    enum body_kind body;
    int64_t body_bytes_max; /* 413 beyond; 0: no limit of the API's own */
    unsigned flags;
    /* Takes a call before its body is there. True: the exchange and the call are its own. False:
     * this call does not stream. NULL: none does. */
    bool (*stream)(struct call *call);
    /* The name of the call in the audit log; NULL: it changes nothing and is not in the log. The
     * object is the last {} of the path, and the {} before it is the object's parent. A route
     * without {} makes its object, whose id is in the answer. */
    const char *action;
};

#define AUDIT_BY_HANDLER "-handler" /* an action: the handler says which it is */
#define AUDIT_NO_CHANGE "-none"     /* an action: no GET, and changes nothing */

size_t routes_count(void);
const struct route *route_at(size_t i);

#endif
