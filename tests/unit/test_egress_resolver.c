/* Answers that c-ares gives inside the call that asks. Releases from 1.31 on do so for a name that
 * they have in their cache; here ares_query() stands for such a release, whichever is installed. */
#define CARES_NO_DEPRECATED
#include <ares.h>

#include "check.h"
#include "serve/egress/internal.h"

static const unsigned char answer[] = "an answer";

void ares_query(ares_channel channel, const char *name, int class, int type, ares_callback callback,
                void *arg)
{
    unsigned char copy[sizeof(answer)];

    (void)channel, (void)name, (void)class, (void)type;
    memcpy(copy, answer, sizeof(answer));
    callback(arg, ARES_SUCCESS, 0, copy, (int)sizeof(copy));
    memset(copy, 'x', sizeof(copy)); /* it is c-ares' own, and gone now */
}

static struct {
    int calls;
    bool inside; /* the call that asked has not returned yet */
    int code;
    char message[sizeof(answer)];
} got;

static void on_message(void *ctx, int code, struct str message)
{
    (void)ctx;
    CHECK(!got.inside);
    CHECK_INT(message.len, sizeof(answer));
    got.calls++;
    got.code = code;
    memcpy(got.message, message.at, message.len);
}

static void begin(uv_loop_t *loop, struct resolver **resolver)
{
    struct err err;

    memset(&got, 0, sizeof(got));
    (void)uv_loop_init(loop);
    CHECK_INT(resolver_new(loop, "127.0.0.1:9", resolver, &err), 0);
}

/* Such an answer was taken for a failure: a name could be resolved once in its lifetime. */
static void an_answer_at_once_is_an_answer(void)
{
    struct resolver *resolver = NULL;
    uv_loop_t loop;

    begin(&loop, &resolver);
    for (int i = 1; i <= 2; i++) {
        got.inside = true;
        (void)resolver_ask(resolver, "a.test", 1, 1, on_message, NULL);
        got.inside = false;
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        CHECK_INT(got.calls, i);
        CHECK_INT(got.code, DNS_NOERROR);
        CHECK_STR(got.message, (const char *)answer);
    }
    resolver_free(resolver);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
}

/* Also when the loop has not turned before the end; and a lookup that was cancelled is not told. */
static void an_answer_at_once_is_told_at_the_end(void)
{
    struct resolver *resolver = NULL;
    uv_loop_t loop;

    begin(&loop, &resolver);
    (void)resolver_ask(resolver, "a.test", 1, 1, on_message, NULL);
    lookup_cancel(resolver_ask(resolver, "b.test", 1, 1, on_message, NULL));
    resolver_free(resolver);
    CHECK_INT(got.calls, 1);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"an answer that comes at once is an answer", an_answer_at_once_is_an_answer},
        {"an answer that comes at once is told at the end", an_answer_at_once_is_told_at_the_end},
    };

    return check_run(tests, countof(tests));
}
