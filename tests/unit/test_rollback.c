/* What CRIU maps and makes readable in a process is told apart from what was there. */
#include <stdlib.h>
#include <sys/mman.h>

#include "check.h"
#include "keeper/checkpoint/rollback.h"
#include "lib/base/alloc.h"
#include "lib/base/compiler.h"

static const char maps[] = "00400000-00403000 r-xp 00000000 fe:00 123   /bin/program\n"
                           "00500000-00501000 rw-p 00000000 00:00 0     [heap]\n"
                           "00501000-00502000 ---p 00000000 00:00 0\n"
                           "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

static void mappings_are_read(void)
{
    struct rollback_range *ranges = NULL;

    CHECK_INT(rollback_ranges_read(maps, &ranges), 4);
    CHECK_INT(ranges[0].start, 0x400000);
    CHECK_INT(ranges[0].end, 0x403000);
    CHECK_INT(ranges[0].prot, PROT_READ | PROT_EXEC);
    CHECK_INT(ranges[2].prot, PROT_NONE);
    free(ranges);
    CHECK_INT(rollback_ranges_read("", &ranges), 0);
    free(ranges);
    CHECK_INT(rollback_ranges_read("nonsense\n10-20\n", &ranges), 0);
    free(ranges);
}

static void what_is_as_it_was_does_not_differ(void)
{
    struct rollback_range *was = NULL, piece;
    size_t n = rollback_ranges_read(maps, &was);

    for (size_t i = 0; i < n; i++) {
        unsigned long at = was[i].start;
        CHECK(!rollback_ranges_differ(was, n, &was[i], &at, &piece));
    }
    /* two that have become one: the kernel joins neighbours that are alike */
    struct rollback_range joined = {0x400000, 0x403000, PROT_READ | PROT_EXEC};
    struct rollback_range halves[] = {{0x400000, 0x401000, PROT_READ | PROT_EXEC},
                                      {0x401000, 0x403000, PROT_READ | PROT_EXEC}};
    unsigned long at = joined.start;
    CHECK(!rollback_ranges_differ(halves, 2, &joined, &at, &piece));
    free(was);
}

static void what_was_added_or_changed_is_found(void)
{
    struct rollback_range *was = NULL, piece;
    size_t n = rollback_ranges_read(maps, &was);
    /* A new one, joined to the heap before it; and what was unreadable behind it is readable. */
    struct rollback_range now = {0x4ff000, 0x502000, PROT_READ | PROT_WRITE};
    unsigned long at = now.start;

    CHECK(rollback_ranges_differ(was, n, &now, &at, &piece));
    CHECK_INT(piece.start, 0x4ff000);
    CHECK_INT(piece.end, 0x500000);
    CHECK_INT(piece.prot, -1);
    CHECK(rollback_ranges_differ(was, n, &now, &at, &piece));
    CHECK_INT(piece.start, 0x501000);
    CHECK_INT(piece.end, 0x502000);
    CHECK_INT(piece.prot, PROT_NONE);
    CHECK(!rollback_ranges_differ(was, n, &now, &at, &piece));

    struct rollback_range beyond = {0x600000, 0x700000,
                                    PROT_READ}; /* and nothing behind it for long */
    at = beyond.start;
    CHECK(rollback_ranges_differ(was, n, &beyond, &at, &piece));
    CHECK_INT(piece.end, 0x700000);
    CHECK_INT(piece.prot, -1);
    free(was);
}

/* A process may have tens of thousands of mappings, and stands still meanwhile. */
static void many_mappings_are_compared_soon(void)
{
    enum { MANY = 1 << 17, STEP = 0x3000, LENGTH = 0x1000 };
    struct rollback_range *was = xcalloc(MANY, sizeof(*was)), piece;
    size_t differ = 0;

    for (size_t i = 0; i < MANY; i++) {
        was[i] = (struct rollback_range){i * STEP, i * STEP + LENGTH, PROT_READ};
    }
    for (size_t i = 0; i < MANY; i++) {
        struct rollback_range now = {was[i].start, was[i].end + LENGTH, PROT_READ};
        unsigned long at = now.start;
        while (rollback_ranges_differ(was, MANY, &now, &at, &piece)) {
            differ += piece.start == was[i].end && piece.end == now.end && piece.prot == -1;
        }
    }
    free(was);
    CHECK_INT(differ, MANY);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"mappings are read", mappings_are_read},
        {"what is as it was does not differ", what_is_as_it_was_does_not_differ},
        {"what was added or changed is found", what_was_added_or_changed_is_found},
        {"many mappings are compared soon", many_mappings_are_compared_soon},
    };

    return check_run(tests, countof(tests));
}
