/* Sandboxes by id and in order: what lists and their pages rest on. */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "serve/sandbox/internal.h"

enum { MANY = 10000, PAGE = 100 };

static struct sandbox *pool;

static void fill(struct table *table, size_t n)
{
    pool = calloc(n, sizeof(*pool));
    if (!pool) {
        abort();
    }
    for (size_t i = 0; i < n; i++) {
        /* Three to a millisecond, and not in the order of creation. */
        size_t k = i * 7919 % n;
        pool[k].created_ms = (int64_t)(k / 3);
        (void)snprintf(pool[k].id, sizeof(pool[k].id), "i%08zu", k);
        table_add(table, &pool[k]);
        table_show(table, &pool[k]);
    }
}

static void drop(struct table *table)
{
    table_fini(table);
    free(pool);
}

struct page {
    size_t n, want;
    struct sandbox *got[MANY];
};

static bool gather(void *ctx, struct sandbox *sb)
{
    struct page *page = ctx;

    page->got[page->n++] = sb;
    return page->n < page->want;
}

static struct sandbox_position behind(const struct sandbox *sb)
{
    struct sandbox_position at = {.created_ms = sb->created_ms};

    memcpy(at.id, sb->id, sizeof(at.id));
    return at;
}

static void finds_by_id(void)
{
    struct table table = {0};
    fill(&table, 10);

    CHECK(table_find(&table, STR("i00000004")) == &pool[4]);
    CHECK(!table_find(&table, STR("i0000000")));
    CHECK(!table_find(&table, STR("")));
    CHECK(!table_find(&table, STR("i000000040000000000000000000000000000")));
    table_remove(&table, &pool[4]);
    CHECK(!table_find(&table, STR("i00000004")));
    CHECK_INT(table.n, 9);
    drop(&table);
}

static void pages_cover_all_once(void)
{
    static struct page page;
    struct table table = {0};
    fill(&table, MANY);

    for (int ascending = 0; ascending < 2; ascending++) {
        struct sandbox_position at = {0};
        size_t seen = 0;
        do {
            page = (struct page){.want = PAGE};
            table_each(&table, ascending, seen ? &at : NULL, gather, &page);
            for (size_t i = 0; i < page.n; i++, seen++) {
                CHECK(page.got[i] == &pool[ascending ? seen : MANY - 1 - seen]);
            }
            if (page.n) {
                at = behind(page.got[page.n - 1]);
            }
        } while (page.n);
        CHECK_INT(seen, MANY);
    }
    drop(&table);
}

static void pages_are_stable_under_change(void)
{
    static struct page page;
    struct table table = {0};
    struct sandbox newer = {.created_ms = INT64_MAX, .id = "inewer"};
    fill(&table, 300);

    page = (struct page){.want = PAGE};
    table_each(&table, false, NULL, gather, &page);
    CHECK(page.got[PAGE - 1] == &pool[200]);
    struct sandbox_position at = behind(&pool[200]);

    /* The one the page ended with goes, one before it goes, and a newer one comes. */
    table_remove(&table, &pool[200]);
    table_remove(&table, &pool[250]);
    table_add(&table, &newer);
    table_show(&table, &newer);
    page = (struct page){.want = MANY};
    table_each(&table, false, &at, gather, &page);
    CHECK_INT(page.n, 200);
    CHECK(page.got[0] == &pool[199] && page.got[199] == &pool[0]);
    drop(&table);
}

static bool remove_it(void *ctx, struct sandbox *sb)
{
    struct table *table = ctx;

    table_remove(table, sb);
    return true;
}

static void may_be_emptied_while_walked(void)
{
    for (int ascending = 0; ascending < 2; ascending++) {
        struct table table = {0};
        fill(&table, 100);
        table_each(&table, ascending, NULL, remove_it, &table);
        CHECK_INT(table.n, 0);
        CHECK(!table.by_id);
        drop(&table);
    }
}

static void starting_ones_are_not_listed(void)
{
    static struct page page;
    struct table table = {0};
    struct sandbox starting = {.created_ms = 5, .id = "istarting"};
    fill(&table, 3);

    table_add(&table, &starting);
    page = (struct page){.want = MANY};
    table_each(&table, true, NULL, gather, &page);
    CHECK_INT(page.n, 3);
    CHECK(table_find(&table, STR("istarting")) == &starting);
    table_remove(&table, &starting);
    CHECK_INT(table.n, 3);
    drop(&table);
}

/* Two data directories: hundreds of sandboxes of each, and no range in common. */
static void slots_of_two_daemons_differ(void)
{
    static struct slots slots[2];
    uint32_t first[2];

    slots_begin(&slots[0], "0123456789ab");
    slots_begin(&slots[1], "0123456789ac");
    for (int i = 0; i < 2; i++) {
        first[i] = slots_take(&slots[i]);
        CHECK(first[i] < KEEPER_UID_SLOTS);
    }
    uint32_t apart = (first[1] + KEEPER_UID_SLOTS - first[0]) % KEEPER_UID_SLOTS;
    CHECK(apart > 500 && apart < KEEPER_UID_SLOTS - 500);
    slots_begin(&slots[0], "0123456789ab");
    slots_give(&slots[0], first[0]);
    CHECK(slots_take(&slots[0]) == first[0]); /* the same place at every start */
}

static void slots_come_round_late(void)
{
    static struct slots slots;

    CHECK_INT(slots_take(&slots), 0);
    slots_give(&slots, 0);
    CHECK_INT(slots_take(&slots), 1);
    slots_mark(&slots, 2);
    CHECK_INT(slots_take(&slots), 3);
    for (int i = 4; i < KEEPER_UID_SLOTS; i++) {
        CHECK_INT(slots_take(&slots), i);
    }
    CHECK_INT(slots_take(&slots), 0);
    CHECK(slots_take(&slots) == SLOT_NONE);
    slots_give(&slots, SLOT_NONE);
    slots_give(&slots, 77);
    CHECK_INT(slots_take(&slots), 77);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"finds by id", finds_by_id},
        {"pages cover all, once, both ways", pages_cover_all_once},
        {"pages are stable under change", pages_are_stable_under_change},
        {"may be emptied while walked", may_be_emptied_while_walked},
        {"starting ones are not listed", starting_ones_are_not_listed},
        {"slots of two daemons differ", slots_of_two_daemons_differ},
        {"uid ranges come round late", slots_come_round_late},
    };

    return check_run(tests, countof(tests));
}
