/* What a jail is shown of its size: the texts of the files. */
#include <string.h>

#include "check.h"
#include "lib/base/compiler.h"
#include "lib/base/procfile.h"

static const struct procfile_figures half = {
    .memory_bytes = UINT64_C(1) << 30,
    .used_bytes = UINT64_C(512) << 20,
    .cache_bytes = UINT64_C(128) << 20,
    .cpus = 2,
    .cpu_usec = 40 * 1000000,
    .up_usec = 100 * 1000000,
    .boot_s = 1700000000,
};

static void memory_adds_up(void)
{
    char text[PROCFILE_MEMINFO_BYTES];

    CHECK_INT(procfile_meminfo(&half, text), strlen(text));
    CHECK(strncmp(text, "MemTotal:           1048576 kB\n", 31) == 0);
    CHECK(strstr(text, "\nMemFree:             524288 kB\n"));
    CHECK(strstr(text, "\nMemAvailable:        655360 kB\n"));
    CHECK(strstr(text, "\nCached:              131072 kB\n"));
    CHECK(strstr(text, "\nSwapTotal:                0 kB\n"));
}

static void more_than_there_is_cannot_be_used(void)
{
    struct procfile_figures over = half;
    char text[PROCFILE_MEMINFO_BYTES];

    over.used_bytes = UINT64_MAX;
    over.cache_bytes = 0;
    (void)procfile_meminfo(&over, text);
    CHECK(strstr(text, "\nMemFree:                  0 kB\n"));
    CHECK(strstr(text, "\nMemAvailable:             0 kB\n"));
}

/* A reader never finds half of an old line behind the last one. */
static void the_length_is_the_same_whatever_is_used(void)
{
    struct procfile_figures other = half;
    char text[PROCFILE_MEMINFO_BYTES];
    static char stat[PROCFILE_STAT_BYTES];

    other.used_bytes = other.cache_bytes = 0;
    other.cpu_usec = 0;
    CHECK_INT(procfile_meminfo(&half, text), procfile_meminfo(&other, text));
    CHECK_INT(procfile_stat(&half, stat), procfile_stat(&other, stat));
}

static void time_is_shared_by_the_processors(void)
{
    static char stat[PROCFILE_STAT_BYTES];

    CHECK_INT(procfile_stat(&half, stat), strlen(stat));
    CHECK(strncmp(stat, "cpu                4000 0 0          16000 ", 42) == 0);
    CHECK(strstr(stat, "\ncpu1               2000 0 0           8000 "));
    CHECK(!strstr(stat, "cpu2"));
    CHECK(strstr(stat, "\nbtime 1700000000\n"));
}

static void the_largest_machine_fits(void)
{
    struct procfile_figures large = half;
    static char stat[PROCFILE_STAT_BYTES];

    large.cpus = PROCFILE_CPUS_MAX;
    CHECK(procfile_stat(&large, stat) < sizeof(stat));
    CHECK(strstr(stat, "\ncpu1023 "));
}

static const char host[] = "processor\t: 0\nmodel name\t: Fast\nsiblings\t: 3\ncpu cores\t: 3\n\n"
                           "processor\t: 1\nmodel name\t: Fast\nsiblings\t: 3\ncpu cores\t: 3\n\n"
                           "processor\t: 2\nmodel name\t: Fast\nsiblings\t: 3\ncpu cores\t: 3\n\n";

static void processors_that_it_has_not_are_left_out(void)
{
    char text[sizeof(host)];

    CHECK_INT(procfile_cpuinfo(host, 1, text, sizeof(text)), strlen(text));
    CHECK_STR(text, "processor\t: 0\nmodel name\t: Fast\nsiblings\t: 1\ncpu cores\t: 1\n\n");
    (void)procfile_cpuinfo(host, 2, text, sizeof(text));
    CHECK(strstr(text, "processor\t: 1\n") && !strstr(text, "processor\t: 2\n"));
}

static void the_list_of_processors_is_the_kernels(void)
{
    char text[32];

    CHECK_INT(procfile_online(1, text), 2);
    CHECK_STR(text, "0\n");
    CHECK_INT(procfile_online(128, text), 6);
    CHECK_STR(text, "0-127\n");
}

int main(void)
{
    static const struct check_test tests[] = {
        {"memory adds up", memory_adds_up},
        {"more than there is cannot be used", more_than_there_is_cannot_be_used},
        {"the length is the same whatever is used", the_length_is_the_same_whatever_is_used},
        {"time is shared by the processors", time_is_shared_by_the_processors},
        {"the largest machine fits", the_largest_machine_fits},
        {"processors that it has not are left out", processors_that_it_has_not_are_left_out},
        {"the list of processors is the kernel's", the_list_of_processors_is_the_kernels},
    };

    return check_run(tests, countof(tests));
}
