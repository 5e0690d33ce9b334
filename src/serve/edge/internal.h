/* internal.h - shared by the files of edge/.
 *
 *   route.c         which sandbox a request is for
 *   signed.c        file links that carry a signature and nothing else
 *   token.c         requests that carry an access token and no routing headers
 *   errors.c        the edge's own answers
 *   own_port.c      which requests may reach the ports that our own programs serve
 *   backend.c       a sandbox as the edge sees it: its requests, its idle connections
 *   headers.c       the headers that are passed on, in both directions
 *   service_conn.c  a service that speaks TLS, or HTTP/2
 *   request.c       one request, from client to service and back
 *   follow.c        how far an answer that can be continued has come
 *   held.c          requests whose client waits while the sandbox is paused
 *   edge.c          entry point: checks, charges, starts requests
 */
#ifndef EDGE_INTERNAL_H
#define EDGE_INTERNAL_H

#include "lib/base/table.h"
#include "lib/http/forward.h"
#include "lib/http/upstream.h"
#include "serve/edge/edge.h"
#include "wire/rejoin.h"

enum {
    EDGE_INTERPRETER_PORT = 49999,
    EDGE_GATEWAY_PORT = 50005, /* of MCP servers */
    EDGE_IDLE_MAX = 8,         /* connections to one agent kept for the next request */
    EDGE_IDLE_MS = 30 * 1000,
    EDGE_SERVICES_IDLE_MAX = 16,      /* the same for all services of one sandbox together */
    EDGE_SERVICES_IDLE_MS = 2 * 1000, /* shorter than servers usually keep them */
    EDGE_IDLE_TICK_MS = 500,
    EDGE_DIAL_TRIES = 5,        /* a service may just be starting */
    EDGE_DIAL_BACKOFF_MS = 100, /* times the number of the try: a second in all */
    EDGE_HEADERS_MAX = HTTP_HEADERS_MAX + 8,
    EDGE_HEADER_TEXT_MAX = 2 * HTTP_HEADER_BYTES_MAX,
    EDGE_HELD_MS = 10 * 1000, /* a client waits for a paused sandbox to be resumed */
    EDGE_HELD_LOOK_MS = 500,  /* and as long as it is being resumed */
    EDGE_HELD_MAX = 3 * 1024, /* clients that wait; a team gets its share (lib/base/shares.h) */
    EDGE_HELD_TIMEOUT_SLACK_MS = 50, /* a command's time limit ends its stream before the command */
};

struct edge_request;
struct tls_trust;

struct edge {
    uv_loop_t *loop;
    struct sandboxes *sandboxes;
    char *domain;
    struct shares *shares;
    uint32_t sandbox_max;
    bool (*is_api)(const struct http_request *req);
    struct tracer tracer;
    struct backend *backends; /* by sandbox id */
    uv_timer_t timer;         /* runs while connections lie idle */
    struct tls_trust *anybody;
    int64_t told_ms; /* when the log was last told of a sandbox that cannot be reached */
    uint64_t outcomes[EDGE_OUTCOMES];
    struct histogram steps[EDGE_STEPS];
    struct shares held; /* by team: clients that wait while their sandbox is paused */
};

/* ---- edge.c ---- */

void edge_expect_idle(struct edge *edge); /* a connection is idle: close it later */
/* The path as a lenient server might read it: decoded, without empty and dot segments. Appends to
 * `out`; -1 when it cannot be decoded. */
must_check int edge_plain_path(struct str path, struct buf *out);
/* Whether its ports are open to everybody; if not, edge.c compares the traffic token first. */
bool edge_is_public(const struct sandbox *sb);
#define EDGE_ACCESS_HEADER "x-access-token" /* of a secure sandbox's own token */

/* ---- signed.c ---- */

/* Whether the request is a link to /files that names its sandbox only by its signature. */
bool signed_is(const struct http_request *req);
/* The running sandbox whose token made the signature, or NULL. */
struct sandbox *signed_find(struct sandboxes *sandboxes, const struct http_request *req);
/* A request to the agent's /files with a signature of that token that has not expired. */
bool signed_by(const char *token, const struct http_request *req);

/* ---- token.c ---- */

/* Whether the request is for an agent and names its sandbox only by its access token. */
bool names_sandbox_by_token(const struct http_request *req);
/* The sandbox whose token it is, running or paused, or NULL. */
struct sandbox *token_find(struct sandboxes *sandboxes, const struct http_request *req);

/* ---- errors.c ---- */

/* Outcomes are counted by these and those below. */
enum edge_error {
    EDGE_ERROR_NOT_FOUND,
    EDGE_ERROR_PORT_CLOSED, /* the connection was refused */
    EDGE_ERROR_NO_ANSWER,   /* the service accepted the connection and closed it, or sent no valid
                               HTTP */
    EDGE_ERROR_UNREACHABLE, /* neither refused nor made */
    EDGE_ERROR_PAUSED,
    EDGE_ERROR_CHANGING,    /* it is about to be paused */
    EDGE_ERROR_NOT_RESUMED, /* it should have been, for this request */
    EDGE_ERROR_TOO_MANY,    /* as many as one sandbox may have */
    EDGE_ERROR_SHARE,       /* the sandbox or its team has its share of all connections */
    EDGE_ERROR_RESERVED,
    EDGE_ERROR_TOKEN_MISSING,
    EDGE_ERROR_TOKEN_INVALID,
    EDGE_ERROR_NOT_WOKEN,    /* it is paused, and the request has no token for its agent */
    EDGE_ERROR_NOT_OWNER,    /* no access token, or a wrong one, where one is needed */
    EDGE_ERROR_FOREIGN_PAGE, /* a page of another site, which did not ask first */
    EDGE_BAD_REQUEST,        /* of no form that names a sandbox */
    EDGE_BAD_SIGNATURE,      /* a link whose signature no sandbox made */
    EDGE_PASSED,             /* to the sandbox, and answered by it or cut off */
};
_Static_assert(EDGE_PASSED + 1 == EDGE_OUTCOMES, "each has a name in edge_figures()");

/* Answers an exchange that was accepted and not answered. */
void edge_fail(struct edge *edge, struct http_exchange *ex, enum edge_error error, struct str id,
               uint16_t port);
/* The same for one that was not accepted. */
void edge_refuse(struct edge *edge, struct http_exchange *ex, enum edge_error error, struct str id,
                 uint16_t port);
void edge_refuse_text(struct http_exchange *ex, int status, const char *type, const char *text);

/* ---- own_port.c ---- */

/* Whether one of our programs serves that port: agent, code interpreter, MCP gateway. */
bool own_port_is(uint16_t port);
/* True with *out when the request may not reach such a port. Ports of the user's own programs are
 * for everybody. */
bool own_port_refuses(const struct sandbox *sb, const struct http_request *req, uint16_t port,
                      enum edge_error *out);

/* ---- backend.c ---- */

struct idle;

struct idle_list {
    struct idle *first; /* the one used last */
    uint32_t n;
};

struct backend {
    struct edge *edge;
    UT_hash_handle hh;
    char id[ID_SANDBOX_LEN + 1];
    struct sandbox_watch watch; /* set as long as the backend exists */
    bool busy;                  /* walked over: not freed now */
    bool pausing;               /* not found by id any more; takes no request, keeps nothing idle */
    struct edge_request *requests;
    uint32_t requests_n;
    struct idle_list to_agent, to_services;
};

/* The backend of a sandbox, made when there is none. */
struct backend *backend_of(struct edge *edge, struct sandbox *sb);
/* Frees it when neither a request nor a connection is left; otherwise lets a waiting pause
 * continue. */
void backend_check(struct backend *backend);
void backend_free(struct backend *backend);

/* A connection to that port on which a request can be sent at once, or NULL. */
struct upstream *backend_take(struct backend *backend, uint16_t port);
/* Keeps it for the next request to that port, or closes it. */
void backend_keep(struct backend *backend, uint16_t port, struct upstream *up);

/* Closes what has been idle for too long; true when some are left. */
bool backend_expire(struct backend *backend, int64_t now_ms);

/* ---- headers.c ---- */

struct headers {
    struct http_header list[EDGE_HEADERS_MAX];
    size_t n;
    struct buf text; /* holds the headers made here */
};

void headers_fini(struct headers *headers);
/* Whether the request is a gRPC call over HTTP/2, which is forwarded as such. */
bool headers_is_grpc(const struct http_request *req);
/* Makes the headers for the service: without hop-by-hop headers, with the x-forwarded ones. host
 * empty: the client's own. -ENOBUFS when it is more than the limits allow. */
must_check int headers_request(struct headers *out, const struct http_request *req,
                               struct str host);
must_check int headers_add(struct headers *out, struct str name, struct str value);
void headers_drop(struct headers *out, const char *name);
/* Whether a page of the dashboard asks: its cookie or its token is there. Neither is passed on. */
bool headers_of_dashboard(const struct http_request *req);
/* Makes the headers for the client. A Set-Cookie for the dashboard's cookie is always removed.
 * tunnel: the Upgrade header stays. of_dashboard: the browser takes the answer for one of the
 * dashboard's origin, because a page of the dashboard asked, or a link without the sandbox's own
 * host name. Headers that change what the browser stores for that origin are removed, and the
 * document is given no origin. */
void headers_response(struct headers *out, const struct http_header *headers, size_t n, bool tunnel,
                      bool of_dashboard);

/* ---- service_conn.c ---- */

struct service_conn;

struct service_conn_way {
    bool http2;
    bool tls;
    const char *name; /* that a service with TLS is asked for */
};

/* Takes the descriptor over, also on failure. `done` is called once, perhaps inside this call but
 * after *out is set: the upstream is the caller's; NULL when the service does not speak that
 * protocol. service_conn_free() closes what was opened. */
must_check int service_conn_start(struct edge *edge, int fd, const struct service_conn_way *way,
                                  void (*done)(void *ctx, struct upstream *up), void *ctx,
                                  struct service_conn **out, struct err *err);
void service_conn_free(struct service_conn *service); /* NULL is fine */

/* ---- follow.c ---- */

#define FOLLOW_CONNECT "/process.Process/Connect"

enum {
    FOLLOW_ENVELOPE_MAX = 1024, /* a first or last envelope that is longer is passed on unread */
    FOLLOW_REQUEST_MAX = 64,
};

struct follow {
    bool is_cell;
    bool named; /* cell: the interpreter can continue it */
    char id[EXECUTION_ID_LEN + 1];
    uint64_t passed; /* cell: bytes of the body that the client was given */

    bool json;     /* command: the codec of its envelopes */
    uint32_t pid;  /* 0: not known, so the stream cannot be continued */
    bool first;    /* the next envelope is the first of an answer */
    bool again;    /* the first of a continued answer: the client has had it before */
    size_t left;   /* bytes of an envelope that pass on */
    size_t kept_n; /* of an envelope that is gathered */
    size_t end_n;  /* of the last envelope, which the client has not been given */
    char kept[FOLLOW_ENVELOPE_MAX];
    char end[FOLLOW_ENVELOPE_MAX];
};

enum follow_news {
    FOLLOW_NOTHING,
    FOLLOW_WITHHELD, /* the answer has ended because of the pause: f->end says so */
    FOLLOW_JOINED,   /* the continued answer is of the same process */
    FOLLOW_FAILED,   /* it is not */
};

/* NULL: the answer to the request cannot be continued. */
struct follow *follow_new(const struct http_request *req, uint16_t port);
/* The head of an answer: whether it is of the execution that was asked for. */
bool follow_named(struct follow *f, const struct http_header *headers, size_t n);
/* Takes bytes off the front of `in`; *pass is to be passed on before the next call, perhaps
 * nothing. `pauses`: an end that a pause makes is withheld. */
enum follow_news follow_next(struct follow *f, struct str *in, bool pauses, struct str *pass);
/* The next bytes are the answer to follow_request(). */
void follow_again(struct follow *f);
/* The body of the Connect that continues a command's stream; its length. */
size_t follow_request(const struct follow *f, char out[FOLLOW_REQUEST_MAX]);

/* ---- request.c ---- */

struct dialing;

struct edge_request {
    struct edge_request *prev, *next;
    struct edge *edge;
    struct backend *backend; /* NULL: the sandbox is gone */
    struct forward forward;
    struct dialing *dialing;
    struct service_conn *service; /* NULL: the service speaks plain HTTP/1.1 */
    uv_timer_t timer;             /* between two tries; or how long the client waits */
    char id[ID_SANDBOX_LEN + 1];
    uint16_t port;
    int tries;
    int64_t step_us; /* when the last step was over */
    int64_t began_ms;
    struct trace_place trace;
    bool upgrade;  /* the request asks for one: its connection serves no other */
    bool reused;   /* up has served another request before */
    bool held;     /* nothing is read of up: the sandbox is being paused */
    bool may_wake; /* the request may resume a paused sandbox */
    bool of_dashboard;
    char *stream_to; /* the path of a WebSocket of the dashboard; NULL: the request is no such */

    struct follow *follow; /* NULL: its answer cannot be continued */
    bool waits;            /* the client waits for the rest of the answer */
    bool rejoins;          /* which has been asked for */
    struct share *place;   /* among those that wait */
};

struct request_way {
    uint16_t port;
    bool may_wake;         /* the request may resume a sandbox that is paused meanwhile */
    bool is_link;          /* to a name of the daemon, where a browser may follow it */
    const char *stream_to; /* a WebSocket of the dashboard is passed on to that path, and no other
                              answer than 101; NULL: the request is passed on as it is */
};

/* Accepts the exchange and forwards it. */
void request_start(struct backend *backend, struct http_exchange *ex,
                   const struct request_way *way);
/* The sandbox ended, or is paused: an answer that has begun is reset, otherwise the client gets the
 * error. */
void request_gone(struct edge_request *request, enum edge_error why);
/* The sandbox is about to be paused. The agent ends its own requests; answers of services are held,
 * so that they can continue if the pause fails. */
void request_hold(struct edge_request *request);
bool request_is_held(const struct edge_request *request);
void request_cut(struct edge_request *request);   /* its time is up, unless it is held */
void request_go_on(struct edge_request *request); /* it was not paused */
struct edge_request *request_next(struct edge_request *request);

/* For held.c: the parts that its requests share with all others. */
void request_drop(struct edge_request *request); /* the connection to the service */
void request_move(struct edge_request *request, struct backend *to); /* without its connection */
void request_dial(struct edge_request *request);
void request_fail(struct edge_request *request, enum edge_error error);

/* ---- held.c ---- */

/* The body of an answer that is followed. */
void held_body(struct edge_request *request, const void *data, size_t len);
/* The sandbox has been paused: takes the requests that can wait for its resume to a new backend. */
void held_take(struct backend *from, struct sandbox *sb);
/* A request that waits and whose sandbox is paused once more goes on waiting. */
void held_wait(struct edge_request *request);
/* The sandbox runs again: asks for the rest of the answer, if the client waits for it. */
void held_rejoin(struct edge_request *request);
/* There is a connection: sends that request. */
must_check int held_send(struct edge_request *request, struct upstream *up,
                         struct headers *headers);
/* Returns true if the client has not been given the beginning of this answer: it is passed on. */
must_check bool held_answered(struct edge_request *request, int status,
                              const struct http_header *headers, size_t n);
/* There will be no rest: the client is told what it would have been told when the pause began. */
void held_fail(struct edge_request *request);

#endif
