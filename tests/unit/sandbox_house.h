/* sandbox_house.h - sandboxes with the real store, real processes as jails, and an agent and a
 * keeper that are played here: the keeper's requests are answered from the loop, the agent is a
 * thread on the other end of the channel. */
#ifndef SANDBOX_HOUSE_H
#define SANDBOX_HOUSE_H

#include <poll.h>
#include <pthread.h>

#include "check.h"
#include "lib/base/clock.h"
#include "serve/sandbox/internal.h"

enum { JAILS_MAX = 32, SAVED_MAX = 32, PATIENCE_MS = 20 * 1000 };

struct house_agent {
    pthread_mutex_t lock;
    char init[8192]; /* the last body of /init */
    int inits;
    bool refuses_init;
    bool asks_oom;
    bool is_silent; /* it hands out a control socket, and says nothing there */
    uint32_t oom_count;
    int quiets;
    uint32_t how_quiet; /* the last */
    int past;           /* of the last hello */
    bool is_alone;      /* it says so; else it does not know the question, as older agents */
    bool begins;        /* it has had another request each time it is asked */
    int alones;         /* how often it was asked */
    int files;          /* descriptors that it was given */
    bool refuses_files;
};
extern struct house_agent agent;

struct jail {
    char id[KEEPER_ID_BYTES];
    pid_t pid; /* 0: free */
    int agent; /* its agent's end of the channel */
};

struct keeper_client {
    uv_loop_t *loop;
    bool connected;
    struct jail jails[JAILS_MAX];
    char saved[SAVED_MAX][KEEPER_SAVED_BYTES]; /* "": free */
    uint32_t oom_kills;
    int creates, attaches, destroys, saves, restores, forgets;
    bool refuses_save; /* with memory */
    bool refuses_restore;
    bool refuses_alone;      /* there is another process */
    bool gives_disk;         /* the disk has a few files */
    bool dies_after_save;    /* it has saved, and nobody hears of it */
    struct keeper_plan plan; /* the last */
    struct keeper_save save; /* likewise */
};
extern struct keeper_client keeper;

struct jail *jail_find(const char *id);
struct jail *jail_start(const char *id);
void jail_stop(struct jail *jail);
char *saved_slot(const char *name); /* NULL: there is none; "" finds a free one */

extern uv_loop_t loop;
extern struct templates *templates;
extern struct sandboxes *all;
extern int ready;
extern const struct template template;

void open_house(void); /* a daemon */
void close_house(void);
void setup(void);
void teardown(void);

struct house_created {
    int calls, error;
    char id[ID_SANDBOX_LEN + 1];
    char message[256];
};
extern struct house_created created; /* by create(), as the last call told */
void on_created(void *ctx, struct sandbox *sb, int error, const struct err *err);
void create(int64_t timeout_ms);

struct sandbox *find(const char *id);
const char *recorded(const char *id); /* "state/reason" of a row */

/* Turns the loop until the condition holds; bounded, for a test that fails. */
#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        int64_t until_ = clock_mono_ms() + PATIENCE_MS;                                            \
        while (!(condition) && clock_mono_ms() < until_) {                                         \
            (void)uv_run(&loop, UV_RUN_NOWAIT);                                                    \
            (void)poll(NULL, 0, 1);                                                                \
        }                                                                                          \
        CHECK(condition);                                                                          \
    } while (0)

#endif
