#include "keeper/jail/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"

#define KSM_DIR "/sys/kernel/mm/ksm"

#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif

enum {
    KERNEL_MAJOR = 6,
    KERNEL_MINOR = 9, /* since then a process stays opted in after exec() */
    VALUE_BYTES = 32,
};

/* In the order in which they are set; they are restored in reverse order. The kernel's advisor,
 * which adapts the pace, used as much processor time for little memory as for much. */
static const struct setting {
    const char *name;
    int value;
    const char *word; /* for a setting that is not a number */
} settings[] = {
    {"advisor_mode", 0, "none"},
    {"pages_to_scan", MERGE_PAGES_AT_ONCE, NULL},
    {"sleep_millisecs", MERGE_REST_MS, NULL},
    {"run", 1, NULL},
};

/* The previous values; "" for a setting that the kernel does not have. */
struct record {
    char values[countof(settings)][VALUE_BYTES];
};

/* ---- settings ---- */

/* The kernel writes a choice as "none [this]". */
static void chosen_keep(char value[VALUE_BYTES])
{
    char *from = strchr(value, '[');

    if (from) {
        size_t n = strcspn(from + 1, "]");
        memmove(value, from + 1, n);
        value[n] = '\0';
    }
}

static void setting_read(int dir_fd, const char *name, char value[VALUE_BYTES])
{
    (void)small_file_read(dir_fd, name, value, VALUE_BYTES);
    value[strcspn(value, "\n")] = '\0';
    chosen_keep(value);
}

/* Not all kernels have all settings. One that cannot be set changes only the pace. */
static void setting_write(int dir_fd, const char *name, const char *value)
{
    scoped_fd fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);

    if (fd < 0 ? errno != ENOENT : write(fd, value, strlen(value)) < 0) {
        log_warn("set " KSM_DIR "/%s to %s: %s", name, value, strerrordesc_np(errno));
    }
}

/* ---- the record ---- */

static bool is_running(const struct merge *merge)
{
    char run[VALUE_BYTES];

    setting_read(merge->ksm_fd, "run", run);
    return strcmp(run, "1") == 0;
}

/* No other keeper uses KSM: records the settings and starts it. If KSM runs already, either a
 * killed keeper left it running, and its record exists, or someone else runs it, and there is
 * none. */
static int settings_take(const struct merge *merge, struct err *err)
{
    struct record record = {0};
    char number[VALUE_BYTES];

    if (is_running(merge)) {
        log_info("equal pages are merged at the pace that is set already");
        return 0;
    }
    for (size_t i = 0; i < countof(settings); i++) {
        setting_read(merge->ksm_fd, settings[i].name, record.values[i]);
    }
    if (pwrite(merge->record_fd, &record, sizeof(record), 0) != (ssize_t)sizeof(record)) {
        return err_sys(err, "write " MERGE_RECORD);
    }
    for (size_t i = 0; i < countof(settings); i++) {
        (void)snprintf(number, sizeof(number), "%d", settings[i].value);
        setting_write(merge->ksm_fd, settings[i].name,
                      settings[i].word ? settings[i].word : number);
    }
    return 0;
}

static void settings_put_back(const struct merge *merge)
{
    struct record record;

    if (pread(merge->record_fd, &record, sizeof(record), 0) != (ssize_t)sizeof(record)) {
        return; /* this keeper did not set them */
    }
    for (size_t i = countof(settings); i-- > 0;) {
        record.values[i][VALUE_BYTES - 1] = '\0';
        if (record.values[i][0]) {
            setting_write(merge->ksm_fd, settings[i].name, record.values[i]);
        }
    }
    (void)!ftruncate(merge->record_fd, 0);
}

/* ---- the whole ---- */

int merge_check(struct err *err)
{
    struct utsname name;
    int major = 0, minor = 0;

    (void)uname(&name);
    if (sscanf(name.release, "%d.%d", &major, &minor) != 2 || // NOLINT(cert-err34-c)
        major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR)) {
        return err_set(err, ENOSYS, "kernel %s is older than %d.%d", name.release, KERNEL_MAJOR,
                       KERNEL_MINOR);
    }
    return access(KSM_DIR "/run", F_OK) < 0
               ? err_set(err, ENOSYS, "this kernel was built without KSM")
               : 0;
}

static void merge_closep(struct merge *merge)
{
    fd_closep(&merge->ksm_fd);
    fd_closep(&merge->record_fd);
}

static int merge_open(struct merge *merge, int flags)
{
    merge->ksm_fd = open(KSM_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    merge->record_fd = open(MERGE_RECORD, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    return merge->ksm_fd < 0 || merge->record_fd < 0 ? -errno : 0;
}

int merge_start(struct merge *out, struct err *err)
{
    scoped(merge_closep) struct merge merge = MERGE_NONE;
    int r = merge_check(err);

    if (r < 0) {
        return r;
    }
    if (merge_open(&merge, O_CREAT) < 0) {
        return err_sys(err, "open " KSM_DIR " and " MERGE_RECORD);
    }
    if (flock(merge.record_fd, LOCK_EX | LOCK_NB) == 0) {
        r = settings_take(&merge, err);
    }
    if (r == 0 && flock(merge.record_fd, LOCK_SH) < 0) {
        r = err_sys(err, "lock " MERGE_RECORD);
    }
    if (r == 0) {
        *out = merge;
        merge = MERGE_NONE;
    }
    return r;
}

void merge_stop(struct merge *merge)
{
    if (merge->record_fd >= 0 && flock(merge->record_fd, LOCK_EX | LOCK_NB) == 0) {
        settings_put_back(merge);
    }
    merge_closep(merge);
}

void merge_leave(struct merge *merge)
{
    merge_closep(merge);
}

void merge_sweep(void)
{
    struct merge merge = MERGE_NONE;

    (void)!merge_open(&merge, 0); /* mostly there is no record */
    merge_stop(&merge);
}

void merge_join(void)
{
    (void)prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0); /* merge_check() has found it to work */
}
