/* The parts of saving that need no kernel: handles, reasons, features, and CRIU's images. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "image.pb-c.h"
#include "keeper/checkpoint/images.h"
#include "keeper/checkpoint/manifest.h"
#include "keeper/checkpoint/reason.h"
#include "keeper/checkpoint/volume_mounts.h"
#include "keeper/disk/disk_repair.h"
#include "lib/base/fd.h"
#include "tmpdir.h"
#include "wire/keeper.h"

/* ---- handles ---- */

static void a_handle_names_the_disk_it_is_given(void)
{
    unsigned char handle[41] = {0, 0xfb, 41, 0, 0x4d, [21] = 1, [29] = 7};
    unsigned char other[41] = {0, 0xfb, 41, 0, 0x81};

    CHECK_INT(handle_repair(handle, sizeof(handle), 0x0102030405060708), 1);
    CHECK_INT(handle[29], 8);
    CHECK_INT(handle[36], 1);
    CHECK_INT(handle[21], 1);
    CHECK_INT(handle[37], 0);
    CHECK_INT(handle_repair(handle, sizeof(handle), 0x0102030405060708), 0);
    CHECK_INT(handle_repair(handle, sizeof(handle) - 1, 1), -EINVAL);
    CHECK_INT(handle_repair(other, sizeof(other), 1), -EINVAL); /* not btrfs's */
    other[1] = 0;
    CHECK_INT(handle_repair(other, sizeof(other), 1), -EINVAL);
}

/* ---- reasons ---- */

static void the_first_error_and_its_process_are_found(void)
{
    static const char log[] =
        "(00.063026) Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self\n"
        "(00.045686) Dumping task (pid: 101 comm: agent)\n"
        "(00.045700) Dumping task (pid: 13206 comm: python3)\n"
        "(00.047567) Error (criu/files-ext.c:98): Can't dump file 7 of that type [anon] "
        "(unknown /anon_inode:[userfaultfd])\n"
        "(00.047590) Error (criu/cr-dump.c:1545): Dump files (pid: 13206) failed with -1\n"
        "(00.047907) Error (criu/cr-dump.c:1975): Dumping FAILED.\n";
    struct reason reason;

    reason_find(log, &reason);
    CHECK_INT(reason.pid, 13206);
    CHECK_STR(reason.what, "a userfaultfd");
    CHECK(strncmp(reason.detail, "Can't dump file 7", 17) == 0);
    CHECK(!reason.passes);
}

static void what_may_pass_is_told_from_what_stays(void)
{
    struct reason reason;

    reason_find("(00.04) Dumping task (pid: 9 comm: agent)\n"
                "(00.05)      1: Error (criu/sk-unix.c:351): unix: Unix socket 77 not found\n",
                &reason);
    CHECK_INT(reason.pid, 9);
    CHECK_STR(reason.what, "a unix socket whose other end is outside the sandbox");
    CHECK(reason.passes);
    reason_find("(00.05) Error (criu/x.c:1): something new\n", &reason);
    CHECK_STR(reason.what, "");
    CHECK_STR(reason.detail, "something new");
    reason_find("", &reason);
    CHECK_INT(reason.pid, 0);
    CHECK_STR(reason.detail, "");
}

/* ---- features ---- */

static void a_feature_that_is_missing_is_named(void)
{
    CHECK(manifest_lacking("sse4_1 avx ", "avx sse4_1 avx2 ") == NULL);
    CHECK(manifest_lacking("", "") == NULL);
    const char *lacking = manifest_lacking("sse4_1 avx512f avx ", "avx sse4_1 ");
    CHECK(lacking && strncmp(lacking, "avx512f", 7) == 0);
    lacking = manifest_lacking("avx2 ", "avx avx512f ");
    CHECK(lacking && strncmp(lacking, "avx2", 4) == 0);
}

/* ---- images ---- */

static void entry_write(FILE *file, const ProtobufCMessage *message)
{
    uint8_t bytes[512];
    uint32_t n = (uint32_t)protobuf_c_message_pack(message, bytes);

    CHECK_INT(fwrite(&n, 4, 1, file), 1);
    CHECK_INT(fwrite(bytes, 1, n, file), n);
}

static uint32_t length_at(const uint8_t *bytes, size_t at)
{
    uint32_t length;

    memcpy(&length, bytes + at, sizeof(length));
    return length;
}

/* The timer of the index-th entry; zeros when there is none. */
static Image__Timer timer_read(const char *path, int index)
{
    Image__Timer timer = IMAGE__TIMER__INIT;
    uint8_t bytes[4096] = {0};
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, bytes, sizeof(bytes));
    size_t at = 8;

    for (; index > 0 && (ssize_t)at < n; index--) {
        at += 4 + length_at(bytes, at);
    }
    if ((ssize_t)at >= n) {
        return timer;
    }
    Image__File *entry = image__file__unpack(NULL, length_at(bytes, at), bytes + at + 4);
    if (entry && entry->tfd) {
        timer = *entry->tfd;
        image__file__free_unpacked(entry, NULL);
    }
    return timer;
}

static void image_make(const char *path)
{
    FILE *file = fopen(path, "we");
    Image__File entry = IMAGE__FILE__INIT;
    Image__Timer timer = IMAGE__TIMER__INIT;

    if (!file || fwrite("12345678", 8, 1, file) != 1) {
        abort();
    }
    entry.type = 17;
    entry.tfd = &timer;
    timer.ticks = 3, timer.isec = 1, timer.insec = 5; /* periodic, went off while frozen */
    entry_write(file, &entry.base);
    timer.ticks = 0, timer.vnsec = 9; /* periodic, will go off */
    entry_write(file, &entry.base);
    timer.ticks = 1, timer.vnsec = 0, timer.isec = 0, timer.insec = 0; /* once, and did */
    entry_write(file, &entry.base);
    (void)fclose(file);
}

static void periodic_timers_go_off_again(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[64];
    struct err err = {0};

    (void)snprintf(path, sizeof(path), "%s/files.img", dir.path);
    image_make(path);
    CHECK_INT(images_correct(dir.fd, &err), 0);
    Image__Timer timer = timer_read(path, 0);
    CHECK(timer.vsec == 1 && timer.vnsec == 5 && timer.ticks == 3);
    timer = timer_read(path, 1);
    CHECK(timer.vsec == 0 && timer.vnsec == 9);
    timer = timer_read(path, 2);
    CHECK(timer.vsec == 0 && timer.vnsec == 0);

    CHECK_INT(truncate(path, 20), 0); /* cut in the middle of an entry */
    CHECK_INT(images_correct(dir.fd, &err), -EINVAL);
    CHECK_STR(err.msg, "the image files.img cannot be read");
}

/* Areas of memory that are told apart by their advice. */
static void memory_is_never_saved_as_merged(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[64];
    uint8_t bytes[256] = {0};
    struct err err = {0};
    Image__Area merged = IMAGE__AREA__INIT, plain = IMAGE__AREA__INIT;
    Image__Area *areas[] = {&merged, &plain};
    Image__Memory memory = IMAGE__MEMORY__INIT;

    merged.has_madv = true, merged.madv = 1 << MADV_MERGEABLE | 1 << MADV_DONTDUMP;
    memory.n_vmas = countof(areas), memory.vmas = areas;
    (void)snprintf(path, sizeof(path), "%s/mm-7.img", dir.path);
    FILE *file = fopen(path, "we");
    if (!file || fwrite("12345678", 8, 1, file) != 1) {
        abort();
    }
    entry_write(file, &memory.base);
    (void)fclose(file);

    CHECK_INT(images_correct(dir.fd, &err), 0);
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(read(fd, bytes, sizeof(bytes)) > 12);
    Image__Memory *mended = image__memory__unpack(NULL, length_at(bytes, 8), bytes + 12);
    CHECK(mended && mended->n_vmas == countof(areas));
    CHECK(mended->vmas[0]->madv == 1 << MADV_DONTDUMP && !mended->vmas[1]->has_madv);
    image__memory__free_unpacked(mended, NULL);
}

/* An image whose map reaches into the ranges of others. */
static void a_restored_jail_has_its_own_ids_alone(void)
{
    scoped_tmpdir from = tmpdir_make();
    scoped_tmpdir to = tmpdir_make();
    const struct images_change change = {.uid_base = 0x10030000, .hostname = "jail"};
    char path[64];
    uint8_t bytes[256] = {0};
    struct err err = {0};
    Image__Extent extent = IMAGE__EXTENT__INIT;
    Image__Extent *map[] = {&extent};
    Image__Ids ids = IMAGE__IDS__INIT;

    extent.first = 7, extent.lower_first = 1, extent.count = 0x70000000;
    ids.n_uid_map = ids.n_gid_map = 1, ids.uid_map = ids.gid_map = map;
    (void)snprintf(path, sizeof(path), "%s/userns-1.img", from.path);
    FILE *file = fopen(path, "we");
    if (!file || fwrite("12345678", 8, 1, file) != 1) {
        abort();
    }
    entry_write(file, &ids.base);
    (void)fclose(file);

    CHECK_INT(images_change(from.fd, to.fd, &change, &err), 0);
    scoped_fd fd = openat(to.fd, "userns-1.img", O_RDONLY | O_CLOEXEC);
    CHECK(read(fd, bytes, sizeof(bytes)) > 12);
    Image__Ids *changed = image__ids__unpack(NULL, length_at(bytes, 8), bytes + 12);
    CHECK(changed && changed->n_uid_map == 1 && changed->n_gid_map == 1);
    CHECK_INT(changed->uid_map[0]->first, 0);
    CHECK_INT(changed->uid_map[0]->lower_first, 0x10030000);
    CHECK_INT(changed->uid_map[0]->count, KEEPER_UID_RANGE);
    CHECK_INT(changed->gid_map[0]->count, KEEPER_UID_RANGE);
    image__ids__free_unpacked(changed, NULL);
}

/* ---- mounts ---- */

static void volumes_and_what_is_gone_are_told_from_the_rest(void)
{
    static const char mountinfo[] =
        "40 1 0:30 / / rw - overlay atoll rw\n"
        "41 40 0:31 /atoll/boot_id//deleted /proc/sys/kernel/random/boot_id ro - tmpfs none rw\n"
        "42 40 0:31 /atoll/shm//deleted /dev/shm rw - tmpfs none rw\n"
        "43 40 0:32 /volumes/a /data\\040one rw shared:1 - btrfs /dev/loop0 rw\n"
        "44 40 0:32 /agents/x /run/atoll/agent ro - btrfs /dev/loop0 rw\n"
        "45 40 0:31 /deleted /plain rw - tmpfs none rw\n";
    struct volume_mounts mounted;

    volume_mounts_read(mountinfo, &mounted);
    CHECK_INT(mounted.n, 1);
    CHECK_STR(mounted.path[0], "/data one");
    CHECK_STR(mounted.gone, "/proc/sys/kernel/random/boot_id");
    volume_mounts_read(strstr(mountinfo, "43 "), &mounted);
    CHECK_STR(mounted.gone, "");
    volume_mounts_read("", &mounted);
    CHECK_INT(mounted.n, 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a handle names the disk it is given", a_handle_names_the_disk_it_is_given},
        {"the first error and its process are found", the_first_error_and_its_process_are_found},
        {"what may pass is told from what stays", what_may_pass_is_told_from_what_stays},
        {"a feature that is missing is named", a_feature_that_is_missing_is_named},
        {"periodic timers go off again", periodic_timers_go_off_again},
        {"volumes, and what is gone, are told from the rest",
         volumes_and_what_is_gone_are_told_from_the_rest},
        {"memory is never saved as merged", memory_is_never_saved_as_merged},
        {"a restored jail has its own ids alone", a_restored_jail_has_its_own_ids_alone},
    };
    return check_run(tests, countof(tests));
}
