/* Pauses are named after the executions that they are of: new ones, and those of the release
 * before. */
#include <errno.h>
#include <inttypes.h>

#include "lib/base/log.h"
#include "sandbox_house.h"

static struct {
    int calls, error;
    char message[512];
} paused;

static void on_paused(void *ctx, int error, const struct err *err)
{
    (void)ctx;
    paused.calls++;
    paused.error = error;
    (void)snprintf(paused.message, sizeof(paused.message), "%s", error < 0 ? err->msg : "");
}

static struct {
    int calls, error;
    int64_t end_ms;
} resumed;

static void on_resumed(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    (void)ctx, (void)err;
    resumed.calls++;
    resumed.error = error;
    resumed.end_ms = sb ? sandbox_info(sb).end_ms : 0;
}

static char id[ID_SANDBOX_LEN + 1];

static void begin(void)
{
    setup();
    memset(&paused, 0, sizeof(paused));
    memset(&resumed, 0, sizeof(resumed));
    create(60000);
    UNTIL(created.calls == 1);
    memcpy(id, created.id, sizeof(id));
}

static void pause_it(bool memory)
{
    paused.calls = 0;
    sandbox_pause(find(id), memory, on_paused, NULL);
    UNTIL(paused.calls == 1);
}

/* Two executions of a sandbox never have one name, whatever the clock says. */
static void a_pause_is_named_after_its_execution(void)
{
    char first[KEEPER_SAVED_BYTES], second[KEEPER_SAVED_BYTES], begins[KEEPER_SAVED_BYTES];

    begin();
    pause_it(true);
    (void)snprintf(first, sizeof(first), "%s", find(id)->saved);
    (void)snprintf(begins, sizeof(begins), "saved-%s-x", id);
    CHECK(strncmp(first, begins, strlen(begins)) == 0 && first[strlen(first) - 1] == 'm');
    keeper.refuses_restore = true;
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 1);
    CHECK(resumed.error < 0);
    saved_name_pause(find(id), true, second);
    CHECK_STR(second, first); /* it is paused as it was */
    keeper.refuses_restore = false;
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 2);
    find(id)->started_ms = 1; /* a clock that was set back */
    pause_it(false);
    CHECK(strcmp(find(id)->saved, first) != 0);
    CHECK(strncmp(find(id)->saved, begins, strlen(begins)) == 0);
    teardown();
}

/* A row of the release before has no number: its pause has the name that release gives. */
static void a_pause_of_the_release_before_is_found_and_resumed(void)
{
    char before[KEEPER_SAVED_BYTES];
    struct jail *jail;

    begin();
    find(id)->execution = 0;
    sandbox_record(find(id), CHANGE_UPDATED, NULL, NULL, NULL);
    (void)snprintf(before, sizeof(before), "saved-%s-%" PRId64 "m", id, find(id)->started_ms);
    close_house();
    jail = jail_find(id);
    jail_stop(jail); /* it was pausing it when both ended */
    (void)snprintf(saved_slot(""), KEEPER_SAVED_BYTES, "%s", before);
    open_house();
    UNTIL(ready == 1);
    CHECK_INT(sandbox_info(find(id)).state, SANDBOX_PAUSED);
    CHECK_STR(find(id)->saved, before);
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 1);
    CHECK_INT(resumed.error, 0);
    CHECK(find(id)->execution != 0);
    pause_it(true);
    CHECK(strstr(find(id)->saved, "-x"));
    teardown();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a pause is named after its execution", a_pause_is_named_after_its_execution},
        {"a pause of the release before is found and resumed",
         a_pause_of_the_release_before_is_found_and_resumed},
    };

    log_init("test", LOG_ERROR);
    return check_run(tests, countof(tests));
}
