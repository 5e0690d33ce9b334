/* The states of a sandbox, of a save and of a start: the tables of allowed steps, that every other
 * step is refused, and that the documentation shows the same tables. */
#include "check.h"
#include "lib/base/buf.h"
#include "serve/sandbox/internal.h"

static bool allowed(enum sandbox_state from, enum sandbox_state to)
{
    return sandbox_states[from].next & PHASE(to);
}

/* A sandbox that was brought into a state by a test. */
static struct sandbox sb;

static void never(uv_timer_t *timer)
{
    (void)timer;
    CHECK_THAT(false, "a timer fired");
}

static void bring(struct sandboxes *all, enum sandbox_state state)
{
    sb = (struct sandbox){.all = all, .state = state};
    all->in_state[state]++;
    for (size_t i = 0; i < SANDBOX_TIMERS; i++) {
        (void)uv_timer_init(uv_default_loop(), &sb.timers[i]);
        (void)uv_timer_start(&sb.timers[i], never, 1000, 0);
    }
}

static void drop(void)
{
    for (size_t i = 0; i < SANDBOX_TIMERS; i++) {
        uv_close((uv_handle_t *)&sb.timers[i], NULL);
    }
    (void)uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

/* After a change, those of the new state alone run on. */
static void check_timers(bool changed)
{
    for (size_t i = 0; i < SANDBOX_TIMERS; i++) {
        bool runs = uv_is_active((const uv_handle_t *)&sb.timers[i]);

        CHECK_INT(runs, !changed || (timer_states[i] & PHASE(sb.state)) != 0);
    }
}

static void every_step_of_the_table_is_taken_and_every_other_is_refused(void)
{
    for (unsigned from = 0; from < SANDBOX_STATES; from++) {
        for (unsigned to = 0; to < SANDBOX_STATES; to++) {
            struct sandboxes all = {0};
            bring(&all, from);
            CHECK_INT(sandbox_set_state(&sb, to), allowed(from, to));
            CHECK_INT(sb.state, allowed(from, to) ? to : from);
            CHECK_INT(all.in_state[sb.state], 1);
            check_timers(allowed(from, to));
            drop();
        }
    }
}

static void one_that_ends_comes_back_by_no_step(void)
{
    struct sandboxes all = {0};
    bring(&all, SANDBOX_KILLING);
    CHECK(!sandbox_set_state(&sb, SANDBOX_RUNNING));
    CHECK(!sandbox_set_state(&sb, SANDBOX_PAUSED));
    CHECK(!sandbox_set_state(&sb, SANDBOX_KILLING));
    CHECK_INT(sb.state, SANDBOX_KILLING);
    drop();
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
    bring(&all, SANDBOX_PARKING);
    CHECK(!sandbox_is_users(&sb));
    CHECK(!sandbox_set_state(&sb, SANDBOX_STARTING)); /* it is not parked yet */
    CHECK(sandbox_set_state(&sb, SANDBOX_PARKED));
    CHECK(!sandbox_is_users(&sb));
    CHECK(!sandbox_set_state(&sb, SANDBOX_RUNNING)); /* its agent must be told who it is */
    CHECK(sandbox_set_state(&sb, SANDBOX_STARTING));
    CHECK(sandbox_is_users(&sb));
    CHECK(!sandbox_set_state(&sb, SANDBOX_PARKED)); /* none is used twice */
    drop();
}

static void every_other_step_of_a_save_is_refused(void)
{
    struct sandboxes all = {0};

    for (unsigned from = 0; from < SAVE_PHASES; from++) {
        for (unsigned to = 0; to < SAVE_PHASES; to++) {
            struct sandbox of = {.id = "i", .all = &all};
            struct save save = {.sb = &of, .phase = from};
            bool may = save_phases[from].next & PHASE(to);

            CHECK_INT(save_set_phase(&save, to), may);
            CHECK_INT(save.phase, may ? to : from);
        }
    }
}

static void a_save_is_not_written_before_the_agent_is_quiet(void)
{
    struct sandboxes all = {0};
    struct sandbox of = {.id = "i", .all = &all};
    struct save save = {.sb = &of};

    CHECK(!save_set_phase(&save, SAVE_WRITING));
    CHECK(save_set_phase(&save, SAVE_CHECKING));
    CHECK(!save_set_phase(&save, SAVE_QUIETING)); /* the dry run has not been answered */
    CHECK(save_set_phase(&save, SAVE_CHECKED));
    CHECK(save_set_phase(&save, SAVE_QUIETING));
    CHECK(!save_set_phase(&save, SAVE_UNKNOWN)); /* the keeper was not asked yet */
    CHECK(save_set_phase(&save, SAVE_WRITING));
    CHECK(!save_set_phase(&save, SAVE_WRITING));
    CHECK(save_set_phase(&save, SAVE_OVER));
    CHECK(!save_set_phase(&save, SAVE_RECORDING));
}

static bool may_follow(const struct phase *table, unsigned from, unsigned to)
{
    return phase_allows(table, from, to, "the test", "case");
}

static void a_start_and_a_removal_skip_no_phase(void)
{
    CHECK(!may_follow(start_phases, START_NEW, START_READY));
    CHECK(!may_follow(start_phases, START_MAKING, START_CONFIGURING));
    CHECK(!may_follow(start_phases, START_READY, START_MAKING));
    CHECK(may_follow(start_phases, START_ANSWERED, START_MAKING));
    CHECK(!may_follow(start_rows, ROW_NONE, ROW_SAVED));
    CHECK(!may_follow(start_rows, ROW_SAVED, ROW_GIVEN));
    CHECK(!may_follow(forget_phases, FORGET_WANTED, FORGET_ASKED)); /* it is durable first */
    CHECK(!may_follow(forget_phases, FORGET_NOT, FORGET_ASKED));
    CHECK(!may_follow(adopt_phases, ADOPT_ATTACHING, ADOPT_READY)); /* jails are listed first */
    CHECK(!may_follow(adopt_phases, ADOPT_READY, ADOPT_WAITING));
}

/* ---- the documentation ---- */

enum { DOC_BYTES = 256 * 1024 };

static const char *doc_path;

static void add_rows(struct buf *out, const struct phase *table, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (table[i].happens) {
            CHECK_INT(buf_printf(out, "| %s | %s | %s |\n", table[i].name, table[i].happens,
                                 table[i].crash),
                      0);
        }
    }
}

static void add_head(struct buf *out, const char *what)
{
    CHECK_INT(buf_printf(out,
                         "| phase | order of a %s | after a crash in this phase |\n|---|---|---|\n",
                         what),
              0);
}

static void check_shown(struct buf *doc, struct buf *table)
{
    CHECK_INT(buf_append(table, "", 1), 0);
    CHECK_THAT(strstr(buf_at(doc), buf_at(table)), "%s does not have this table of states.c:\n%s",
               doc_path, (const char *)buf_at(table));
}

static void read_doc(struct buf *doc)
{
    char part[4096];
    size_t n = 0;
    FILE *file = fopen(doc_path, "re");

    CHECK(file);
    while ((n = fread(part, 1, sizeof(part), file)) > 0) {
        if (buf_append(doc, part, n) < 0) {
            break;
        }
    }
    (void)fclose(file);
    CHECK_INT(buf_append(doc, "", 1), 0);
}

static void the_documentation_shows_these_tables(void)
{
    scoped_buf(doc, DOC_BYTES);
    scoped_buf(pause, DOC_BYTES);
    scoped_buf(resume, DOC_BYTES);

    read_doc(&doc);
    add_head(&pause, "pause");
    add_rows(&pause, save_phases, SAVE_PHASES);
    check_shown(&doc, &pause);
    add_head(&resume, "resume");
    add_rows(&resume, start_phases, START_PHASES);
    add_rows(&resume, forget_phases, FORGET_PHASES);
    check_shown(&doc, &resume);
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"every step of the table is taken, and every other is refused",
         every_step_of_the_table_is_taken_and_every_other_is_refused},
        {"one that ends comes back by no step", one_that_ends_comes_back_by_no_step},
        {"every state can end", every_state_can_end},
        {"a parked jail is claimed once", a_parked_jail_is_claimed_once},
        {"every other step of a save is refused", every_other_step_of_a_save_is_refused},
        {"a save is not written before the agent is quiet",
         a_save_is_not_written_before_the_agent_is_quiet},
        {"a start and a removal skip no phase", a_start_and_a_removal_skip_no_phase},
        {"the documentation shows these tables", the_documentation_shows_these_tables},
    };

    doc_path = argc > 1 ? argv[1] : "docs/internals/memory.md";
    return check_run(tests, countof(tests));
}
