/* resolver.c - c-ares on the loop. Only the network is asked, never the host's /etc/hosts. */
#define CARES_NO_DEPRECATED /* newer releases would have every message taken apart and made again  \
                             */
#include <ares.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "serve/egress/internal.h"

enum {
    TICK_MS = 250, /* how often timeouts are looked at while anything is under way */
    TIMEOUT_MS = 3000,
    TRIES = 3,
    LOOK_MS = 5000, /* how often the host's own settings are looked at */
    ADDRESSES_MAX = 32,
    MESSAGE_BYTES_MAX = 64 * 1024, /* no DNS message is longer */
};

struct watch { /* a socket of c-ares' */
    struct watch *prev, *next;
    struct resolver *resolver;
    uv_poll_t poll;
    ares_socket_t fd;
};

/* An answer that came inside the call that asked: callers are told from the loop only. */
struct early {
    int code;
    struct buf message;
    struct address addresses[ADDRESSES_MAX];
    size_t n;
};

struct lookup {
    struct lookup *prev, *next; /* in resolver->early */
    struct resolver *resolver;
    lookup_done *done; /* or */
    lookup_addresses_done *addresses_done;
    void *ctx;
    bool asking; /* inside the call that starts it */
    struct early *early;
};

struct resolver {
    uv_loop_t *loop;
    ares_channel channel;
    char *servers;                /* "": the host's, */
    struct timespec host_changed; /* as its file was then, */
    uint64_t looked_ms;           /* last seen at that time */
    struct watch *watches;
    struct lookup *early; /* those that were answered inside the call that asked */
    uv_timer_t timer;
    uv_idle_t teller; /* runs while `early` is not empty */
    uint32_t handles;
    bool freed;
};

/* ---- sockets and time ---- */

static void on_timer(uv_timer_t *timer)
{
    struct resolver *resolver = timer->data;

    ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    bool readable = status < 0 || events & UV_READABLE;
    bool writable = status < 0 || events & UV_WRITABLE;

    ares_process_fd(watch->resolver->channel, readable ? watch->fd : ARES_SOCKET_BAD,
                    writable ? watch->fd : ARES_SOCKET_BAD);
}

static void watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void watch_remove(struct watch *watch)
{
    struct resolver *resolver = watch->resolver;

    DL_DELETE(resolver->watches, watch);
    uv_close((uv_handle_t *)&watch->poll, watch_closed);
    if (!resolver->watches && !resolver->freed) {
        (void)uv_timer_stop(&resolver->timer);
    }
}

static struct watch *watch_add(struct resolver *resolver, ares_socket_t fd)
{
    struct watch *watch = xnew(struct watch);

    watch->resolver = resolver;
    watch->fd = fd;
    if (uv_poll_init(resolver->loop, &watch->poll, fd) < 0) {
        abort(); /* a fresh socket can always be polled */
    }
    watch->poll.data = watch;
    DL_APPEND(resolver->watches, watch);
    (void)uv_timer_start(&resolver->timer, on_timer, TICK_MS, TICK_MS);
    return watch;
}

/* c-ares closes the socket right after it no longer wants events of it. */
static void on_socket(void *data, ares_socket_t fd, int readable, int writable)
{
    struct resolver *resolver = data;
    struct watch *watch = NULL;

    DL_SEARCH_SCALAR(resolver->watches, watch, fd, fd);
    if (!readable && !writable) {
        if (watch) {
            watch_remove(watch);
        }
        return;
    }
    if (!watch) {
        watch = watch_add(resolver, fd);
    }
    (void)uv_poll_start(&watch->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0),
                        on_ready);
}

/* ---- lookups ---- */

static struct early *early_new(int code, struct str message, const struct address *addresses,
                               size_t n)
{
    struct early *early = xnew(struct early);

    early->code = code;
    buf_init(&early->message, MESSAGE_BYTES_MAX);
    if (buf_append(&early->message, message.at, message.len) < 0) {
        early->code = DNS_SERVFAIL;
    }
    early->n = n;
    if (n > 0) {
        memcpy(early->addresses, addresses, n * sizeof(*addresses));
    }
    return early;
}

static void lookup_end(struct lookup *lookup, int code, struct str message,
                       const struct address *addresses, size_t n)
{
    if (lookup->asking) {
        lookup->early = early_new(code, message, addresses, n);
        return;
    }
    if (lookup->done) {
        lookup->done(lookup->ctx, code, message);
    } else if (lookup->addresses_done) {
        lookup->addresses_done(lookup->ctx, addresses, n);
    }
    free(lookup);
}

static void early_tell(uv_idle_t *idle)
{
    struct resolver *resolver = idle->data;
    struct lookup *lookup;

    (void)uv_idle_stop(idle);
    while ((lookup = resolver->early)) {
        struct early *early = lookup->early;
        DL_DELETE(resolver->early, lookup);
        lookup_end(lookup, early->code, buf_str(&early->message), early->addresses, early->n);
        buf_fini(&early->message);
        free(early);
    }
}

static void servers_refresh(struct resolver *resolver);

static struct lookup *lookup_begin(struct resolver *resolver, void *ctx)
{
    struct lookup *lookup = xnew(struct lookup);

    servers_refresh(resolver);
    lookup->resolver = resolver;
    lookup->ctx = ctx;
    lookup->asking = true;
    return lookup;
}

static struct lookup *lookup_begun(struct lookup *lookup)
{
    lookup->asking = false;
    if (lookup->early) {
        DL_APPEND(lookup->resolver->early, lookup);
        (void)uv_idle_start(&lookup->resolver->teller, early_tell);
    }
    return lookup;
}

void lookup_cancel(struct lookup *lookup)
{
    if (lookup) { /* c-ares cannot cancel a question: it ends later, without a call */
        lookup->done = NULL;
        lookup->addresses_done = NULL;
    }
}

static void on_message(void *arg, int status, int timeouts, unsigned char *bytes, int len)
{
    int code = status == ARES_SUCCESS || status == ARES_ENODATA ? DNS_NOERROR
               : status == ARES_ENOTFOUND                       ? DNS_NXDOMAIN
                                                                : DNS_SERVFAIL;

    (void)timeouts;
    lookup_end(arg, code, (struct str){(char *)bytes, bytes && len > 0 ? (size_t)len : 0}, NULL, 0);
}

struct lookup *resolver_ask(struct resolver *resolver, const char *name, int class, int type,
                            lookup_done *done, void *ctx)
{
    struct lookup *lookup = lookup_begin(resolver, ctx);

    lookup->done = done;
    ares_query(resolver->channel, name, class, type, on_message, lookup);
    return lookup_begun(lookup);
}

static void on_addresses(void *arg, int status, int timeouts, struct ares_addrinfo *found)
{
    struct address addresses[ADDRESSES_MAX];
    size_t n = 0;

    (void)status, (void)timeouts;
    for (const struct ares_addrinfo_node *node = found ? found->nodes : NULL;
         node && n < countof(addresses); node = node->ai_next) {
        struct sockaddr_storage address = {0};
        struct endpoint endpoint;

        memcpy(&address, node->ai_addr, node->ai_addrlen);
        if (endpoint_from_sockaddr(&address, &endpoint) == 0) {
            addresses[n++] = endpoint.address;
        }
    }
    lookup_end(arg, DNS_NOERROR, (struct str){0}, addresses, n);
    ares_freeaddrinfo(found);
}

struct lookup *resolver_addresses(struct resolver *resolver, const char *name,
                                  lookup_addresses_done *done, void *ctx)
{
    const struct ares_addrinfo_hints hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = ARES_AI_NOSORT};
    struct lookup *lookup = lookup_begin(resolver, ctx);

    lookup->addresses_done = done;
    ares_getaddrinfo(resolver->channel, name, NULL, &hints, on_addresses, lookup);
    return lookup_begun(lookup);
}

/* ---- the servers ---- */

static int channel_open(struct resolver *resolver)
{
    char from_network[] = "b";
    int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
               ARES_OPT_SOCK_STATE_CB;
    struct ares_options options = {
        .flags = 0,
        .timeout = TIMEOUT_MS,
        .tries = TRIES,
        .lookups = from_network,
        .sock_state_cb = on_socket,
        .sock_state_cb_data = resolver,
    };

    /* c-ares 1.31 and newer keep answers. Sandboxes share this channel: how fast an answer comes
     * would tell one what another has asked. qcache_max_ttl is 0 already. */
#ifdef ARES_OPT_QUERY_CACHE
    mask |= ARES_OPT_QUERY_CACHE;
#endif
    int r = ares_init_options(&resolver->channel, &options, mask);
    if (r == ARES_SUCCESS && resolver->servers[0] &&
        (r = ares_set_servers_ports_csv(resolver->channel, resolver->servers)) != ARES_SUCCESS) {
        ares_destroy(resolver->channel);
    }
    return r;
}

static struct timespec host_changed(void)
{
    struct stat st;

    return stat("/etc/resolv.conf", &st) < 0 ? (struct timespec){0} : st.st_mtim;
}

/* A machine that moves to another network has other resolvers there. Open questions to the old ones
 * fail, and programs ask again. */
static void servers_refresh(struct resolver *resolver)
{
    uint64_t now = uv_now(resolver->loop);

    if (resolver->servers[0] || now - resolver->looked_ms < LOOK_MS) {
        return;
    }
    resolver->looked_ms = now;
    struct timespec changed = host_changed();
    if (changed.tv_sec == resolver->host_changed.tv_sec &&
        changed.tv_nsec == resolver->host_changed.tv_nsec) {
        return;
    }
    resolver->host_changed = changed;
    ares_channel old = resolver->channel;
    if (channel_open(resolver) == ARES_SUCCESS) {
        ares_destroy(old);
    } else {
        resolver->channel = old;
    }
}

/* ---- the whole ---- */

int resolver_new(uv_loop_t *loop, const char *servers, struct resolver **out, struct err *err)
{
    struct resolver *resolver = xnew(struct resolver);

    resolver->loop = loop;
    resolver->servers = strdup(servers);
    resolver->host_changed = host_changed();
    int r = ares_library_init(ARES_LIB_INIT_ALL);
    if (r == ARES_SUCCESS && resolver->servers) {
        r = channel_open(resolver);
    }
    if (r != ARES_SUCCESS || !resolver->servers) {
        free(resolver->servers);
        free(resolver);
        return err_set(err, EINVAL, "set up the resolver: %s", ares_strerror(r));
    }
    (void)uv_timer_init(loop, &resolver->timer);
    (void)uv_idle_init(loop, &resolver->teller);
    resolver->timer.data = resolver->teller.data = resolver;
    resolver->handles = 2;
    *out = resolver;
    return 0;
}

static void handle_closed(uv_handle_t *handle)
{
    struct resolver *resolver = handle->data;

    if (--resolver->handles == 0) {
        free(resolver->servers);
        free(resolver);
    }
}

void resolver_free(struct resolver *resolver)
{
    if (!resolver) {
        return;
    }
    resolver->freed = true;
    ares_destroy(resolver->channel); /* tells every lookup */
    early_tell(&resolver->teller);
    uv_close((uv_handle_t *)&resolver->timer, handle_closed);
    uv_close((uv_handle_t *)&resolver->teller, handle_closed);
}
