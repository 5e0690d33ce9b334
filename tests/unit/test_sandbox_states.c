/* The states of a sandbox: the tables of allowed steps, and that every other step is refused. */
#include "check.h"
#include "serve/sandbox/internal.h"

static bool allowed(enum sandbox_state from, enum sandbox_state to)
{
    return sandbox_states[from].next & PHASE(to);
}

/* A sandbox that was brought into a state by a test. */
static struct sandbox in_state(struct sandboxes *all, enum sandbox_state state)
{
    struct sandbox sb = {.all = all, .state = state};

    all->in_state[state]++;
    return sb;
}

static void every_step_of_the_table_is_taken_and_every_other_is_refused(void)
{
    for (unsigned from = 0; from < SANDBOX_STATES; from++) {
        for (unsigned to = 0; to < SANDBOX_STATES; to++) {
            struct sandboxes all = {0};
            struct sandbox sb = in_state(&all, from);

            CHECK_INT(sandbox_set_state(&sb, to), allowed(from, to));
            CHECK_INT(sb.state, allowed(from, to) ? to : from);
            CHECK_INT(all.in_state[sb.state], 1);
        }
    }
}

static void one_that_ends_comes_back_by_no_step(void)
{
    struct sandboxes all = {0};
    struct sandbox sb = in_state(&all, SANDBOX_KILLING);

    CHECK(!sandbox_set_state(&sb, SANDBOX_RUNNING));
    CHECK(!sandbox_set_state(&sb, SANDBOX_PAUSED));
    CHECK(!sandbox_set_state(&sb, SANDBOX_KILLING));
    CHECK_INT(sb.state, SANDBOX_KILLING);
}

static void every_state_can_end(void)
{
    for (unsigned from = 0; from < SANDBOX_KILLING; from++) {
        CHECK(sandbox_states[from].name);
        CHECK(allowed(from, SANDBOX_KILLING));
    }
}

static void a_parked_jail_is_claimed_once(void)
{
    struct sandboxes all = {0};
    struct sandbox sb = in_state(&all, SANDBOX_PARKING);

    CHECK(!sandbox_is_users(&sb));
    CHECK(!sandbox_set_state(&sb, SANDBOX_STARTING)); /* it is not parked yet */
    CHECK(sandbox_set_state(&sb, SANDBOX_PARKED));
    CHECK(!sandbox_is_users(&sb));
    CHECK(!sandbox_set_state(&sb, SANDBOX_RUNNING)); /* its agent must be told who it is */
    CHECK(sandbox_set_state(&sb, SANDBOX_STARTING));
    CHECK(sandbox_is_users(&sb));
    CHECK(!sandbox_set_state(&sb, SANDBOX_PARKED)); /* none is used twice */
}

int main(void)
{
    static const struct check_test tests[] = {
        {"every step of the table is taken, and every other is refused",
         every_step_of_the_table_is_taken_and_every_other_is_refused},
        {"one that ends comes back by no step", one_that_ends_comes_back_by_no_step},
        {"every state can end", every_state_can_end},
        {"a parked jail is claimed once", a_parked_jail_is_claimed_once},
    };

    return check_run(tests, countof(tests));
}
