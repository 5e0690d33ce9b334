#include "keeper/checkpoint/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "keeper/jail/keeper_root.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"
#include "lib/base/str.h"
#include "wire/channel.h"

#define AGENT_FILE "agent"
#define AGENTS_DIR "agents"

enum {
    TEXT_BYTES = 4096,
    CPUINFO_BYTES = 16 * 1024,
};

/* Processor features that programs look for at their start and then rely on. Features that the
 * kernel makes up differ from boot to boot, and are not listed. */
static const char *const cpu_features[] = {
    "sse4_1",  "sse4_2",   "ssse3",    "avx",      "avx2",     "fma",       "bmi1",
    "bmi2",    "popcnt",   "movbe",    "aes",      "sha_ni",   "pclmulqdq", "f16c",
    "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd", "avx_vnni",  "amx_tile",
    "erms",    "fsrm",     "rdrand",   "rdseed",   "xsave",    "xsavec",    "xsaveopt",
    "pku",     "ospke",    "asimd",    "atomics",  "sve",      "sve2",
};

static bool word_in(struct str words, const char *word)
{
    struct str part;

    while (str_split(&words, ' ', &part)) {
        if (str_eq(str_trim(part), str_of(word))) {
            return true;
        }
    }
    return false;
}

/* Writes the listed features that /proc/cpuinfo has, each followed by a blank. */
static void cpu_read(char *out, size_t size)
{
    char *text = xcalloc(1, CPUINFO_BYTES);
    size_t len = 0;

    (void)small_file_read(AT_FDCWD, "/proc/cpuinfo", text, CPUINFO_BYTES);
    char *line = strstr(text, "\nflags");
    line = line ? line : strstr(text, "\nFeatures");
    line = line ? strchr(line, ':') : NULL;
    out[0] = '\0';
    if (line) {
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < countof(cpu_features); i++) {
            if (word_in(str_of(line + 1), cpu_features[i]) && len < size) {
                len += (size_t)snprintf(out + len, size - len, "%s ", cpu_features[i]);
            }
        }
    }
    free(text);
}

const char *manifest_lacking(const char *had, const char *has)
{
    struct str rest = str_of(had);
    struct str word;

    while (str_split(&rest, ' ', &word)) {
        char text[32];
        if (word.len && (!str_copy(text, sizeof(text), word) || !word_in(str_of(has), text))) {
            return word.at;
        }
    }
    return NULL;
}

/* ---- beside the images ---- */

int manifest_write(int memory_fd, const char *id, const struct criu_program *criu,
                   const char *agent, int channel, struct err *err)
{
    char text[TEXT_BYTES], cpu[sizeof(((struct manifest *)0)->cpu)];
    struct utsname host;

    (void)uname(&host);
    cpu_read(cpu, sizeof(cpu));
    int n = snprintf(text, sizeof(text),
                     "id %s\nmachine %s\nrelease %s\ncriu %d\ncpu %s\nagent %s\nchannel %d\n", id,
                     host.machine, host.release, criu->version, cpu, agent, channel);
    scoped_fd fd = openat(memory_fd, MANIFEST_FILE,
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, text, (size_t)n) != n) {
        return err_sys(err, "write what the images are");
    }
    return 0;
}

/* Copies the rest of the line that begins with that word. */
static void field_read(const char *text, const char *word, char *out, size_t size)
{
    struct str rest = str_of(text);
    struct str line;
    size_t len = strlen(word);

    out[0] = '\0';
    while (str_split(&rest, '\n', &line)) {
        if (line.len > len && strncmp(line.at, word, len) == 0 && line.at[len] == ' ') {
            (void)str_copy(out, size, (struct str){line.at + len + 1, line.len - len - 1});
            return;
        }
    }
}

static int fit_check(const struct manifest *manifest, const struct criu_program *criu,
                     struct err *err)
{
    char cpu[sizeof(manifest->cpu)];
    struct utsname host;

    (void)uname(&host);
    if (strcmp(manifest->machine, host.machine) != 0) {
        return err_set(err, ENOTSUP, "the memory was saved on another kind of machine: %s, not %s",
                       manifest->machine, host.machine);
    }
    if (manifest->criu_version > criu->version) {
        return err_set(err, ENOTSUP,
                       "the memory was saved by CRIU %d.%d, which is newer than %d.%d",
                       manifest->criu_version / 10000, manifest->criu_version / 100 % 100,
                       criu->version / 10000, criu->version / 100 % 100);
    }
    cpu_read(cpu, sizeof(cpu));
    const char *lacking = manifest_lacking(manifest->cpu, cpu);
    if (lacking) {
        return err_set(err, ENOTSUP,
                       "the memory was saved on a processor that has %.*s, which this one lacks",
                       (int)strcspn(lacking, " "), lacking);
    }
    return 0;
}

static void text_read(const char *text, struct manifest *out)
{
    char number[16];

    field_read(text, "id", out->id, sizeof(out->id));
    field_read(text, "machine", out->machine, sizeof(out->machine));
    field_read(text, "release", out->release, sizeof(out->release));
    field_read(text, "criu", number, sizeof(number));
    field_read(text, "cpu", out->cpu, sizeof(out->cpu));
    field_read(text, "agent", out->agent, sizeof(out->agent));
    out->criu_version = (int)strtol(number, NULL, 10);
    field_read(text, "channel", number, sizeof(number));
    out->channel = number[0] ? (int)strtol(number, NULL, 10) : CHANNEL_VERSION_FIRST;
}

int manifest_read(int memory_fd, const struct criu_program *criu, struct manifest *out,
                  struct err *err)
{
    char text[TEXT_BYTES];

    if (small_file_read(memory_fd, MANIFEST_FILE, text, sizeof(text)) < 0) {
        return err_sys(err, "read what the images are");
    }
    text_read(text, out);
    return fit_check(out, criu, err);
}

int manifest_fits(const char *text, const struct criu_program *criu, struct err *err)
{
    struct manifest manifest;

    text_read(text, &manifest);
    return fit_check(&manifest, criu, err);
}

bool manifest_has_memory(const char *text)
{
    struct manifest manifest;

    text_read(text, &manifest);
    return manifest.criu_version != 0;
}

int manifest_machine_fits(const char *text, const char *machine, struct err *err)
{
    struct manifest manifest;

    text_read(text, &manifest);
    return strcmp(manifest.machine, machine) == 0
               ? 0
               : err_set(err, ENOTSUP, "it was saved on another kind of machine: %s, not %s",
                         manifest.machine, machine);
}

/* ---- the agent ---- */

static int size_check(const struct stat *st, struct err *err)
{
    if (!S_ISREG(st->st_mode) || st->st_size == 0 || st->st_size > KEEPER_ROOT_AGENT_BYTES_MAX) {
        return err_set(err, ENOTSUP, "the agent is not a program of at most %d bytes",
                       KEEPER_ROOT_AGENT_BYTES_MAX);
    }
    return 0;
}

static int file_copy(int in, int out, char hash[SHA256_HEX_LEN + 1], struct err *err)
{
    struct stat st;
    int r = fstat(in, &st) < 0 ? err_sys(err, "look at the agent") : size_check(&st, err);
    void *bytes =
        r < 0 ? MAP_FAILED : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, in, 0);

    if (r == 0 && bytes == MAP_FAILED) {
        r = err_sys(err, "read the agent");
    }
    if (r < 0) {
        return r;
    }
    sha256_hex(bytes, (size_t)st.st_size, hash);
    for (off_t done = 0; r == 0 && done < st.st_size;) {
        ssize_t n = write(out, (const char *)bytes + done, (size_t)(st.st_size - done));
        r = n <= 0 ? err_sys(err, "copy the agent into the pool") : 0;
        done += n > 0 ? n : 0;
    }
    (void)munmap(bytes, (size_t)st.st_size);
    return r;
}

int manifest_agent_keep(struct pool *pool, const char *agent_path, char hash[SHA256_HEX_LEN + 1],
                        struct err *err)
{
    scoped_fd in = open(agent_path, O_RDONLY | O_CLOEXEC);
    (void)unlinkat(pool_fd(pool), "." AGENT_FILE, 0);
    scoped_fd out =
        openat(pool_fd(pool), "." AGENT_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
    if (in < 0 || out < 0) {
        return err_sys(err, "open the agent %s", agent_path);
    }
    int r = file_copy(in, out, hash, err);
    if (r == 0 && renameat(pool_fd(pool), "." AGENT_FILE, pool_fd(pool), AGENT_FILE) < 0) {
        r = err_sys(err, "keep the agent in the pool");
    }
    return r;
}

static bool bytes_same(int a, int b, size_t size)
{
    void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, a, 0);
    void *bt = mmap(NULL, size, PROT_READ, MAP_PRIVATE, b, 0);
    bool same = at != MAP_FAILED && bt != MAP_FAILED && memcmp(at, bt, size) == 0;

    if (at != MAP_FAILED) {
        (void)munmap(at, size);
    }
    if (bt != MAP_FAILED) {
        (void)munmap(bt, size);
    }
    return same;
}

/* True for the file that all jails of this keeper have, and for an agent of an earlier keeper with
 * the same bytes. */
bool manifest_agent_same(struct pool *pool, int keeper_root_fd, int in, int out)
{
    struct stat st, own_st, keeper_root;
    scoped_fd own = openat(pool_fd(pool), AGENT_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (own < 0 || fstat(in, &st) < 0 || fstat(own, &own_st) < 0 || st.st_size == 0 ||
        st.st_size != own_st.st_size || fstatat(keeper_root_fd, "agent", &keeper_root, 0) < 0) {
        return false;
    }
    bool same = st.st_ino == keeper_root.st_ino && st.st_dev == keeper_root.st_dev;
    return (same || bytes_same(in, own, (size_t)st.st_size)) && ioctl(out, FICLONE, own) == 0;
}

static int bytes_hash(int fd, size_t size, char hash[SHA256_HEX_LEN + 1], struct err *err)
{
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);

    if (bytes == MAP_FAILED) {
        return err_sys(err, "read an agent");
    }
    sha256_hex(bytes, size, hash);
    (void)munmap(bytes, size);
    return 0;
}

static int agents_open(struct pool *pool)
{
    (void)mkdirat(pool_fd(pool), AGENTS_DIR, 0700);
    return openat(pool_fd(pool), AGENTS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Writes the agent under a temporary name of this process, and renames it when it is complete. */
static int agent_add(int dir, const char *name, int in, struct err *err)
{
    char half[SHA256_HEX_LEN + 16];

    (void)snprintf(half, sizeof(half), ".%s.%d", name, getpid());
    scoped_fd out = openat(dir, half, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
    if (out < 0 || ioctl(out, FICLONE, in) < 0 || renameat(dir, half, dir, name) < 0) {
        int r = err_sys(err, "keep the jail's agent");
        (void)unlinkat(dir, half, 0);
        return r;
    }
    return 0;
}

/* Finds the agent of an earlier keeper by the hash of its bytes. */
static int agent_earlier(struct pool *pool, int in, const struct stat *st,
                         char path[MANIFEST_PATH_BYTES], struct err *err)
{
    char name[SHA256_HEX_LEN + 1];
    int r = size_check(st, err);

    if (r == 0) {
        r = bytes_hash(in, (size_t)st->st_size, name, err);
    }
    if (r < 0) {
        return r;
    }
    (void)snprintf(path, MANIFEST_PATH_BYTES, "/pool/" AGENTS_DIR "/%s", name);
    scoped_fd dir = agents_open(pool);
    if (dir < 0) {
        return err_sys(err, "open " AGENTS_DIR " in the pool");
    }
    return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : agent_add(dir, name, in, err);
}

static bool agent_is_whole(int dir, const char *name)
{
    char hash[SHA256_HEX_LEN + 1];
    struct stat st;
    struct err err;
    scoped_fd fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    return fd >= 0 && fstat(fd, &st) == 0 && size_check(&st, &err) == 0 &&
           bytes_hash(fd, (size_t)st.st_size, hash, &err) == 0 && strcmp(hash, name) == 0;
}

static void agent_sweep(void *ctx, const char *name)
{
    const int *dir = ctx;

    if (!agent_is_whole(*dir, name)) {
        log_info("the pool's agent %s is not whole: removed", name);
        (void)unlinkat(*dir, name, 0);
    }
}

void manifest_agents_sweep(struct pool *pool)
{
    struct err err;
    scoped_fd dir = agents_open(pool);

    if (dir < 0 || pool_names_each(dir, POOL_HIDDEN, agent_sweep, &dir, &err) < 0 ||
        pool_names_each(dir, POOL_SHOWN, agent_sweep, &dir, &err) < 0) {
        log_warn("the pool's agents cannot be read");
    }
}

int manifest_agent_place(struct pool *pool, const struct manifest *manifest, const char *own_hash,
                         int memory_fd, char path[MANIFEST_PATH_BYTES], struct err *err)
{
    struct stat st, own;

    (void)snprintf(path, MANIFEST_PATH_BYTES, "/agent"); /* so that all jails share its pages */
    if (manifest->agent[0] && strcmp(manifest->agent, own_hash) == 0) {
        return 0;
    }
    scoped_fd in = openat(memory_fd, MANIFEST_AGENT, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    scoped_fd now = open("/agent", O_RDONLY | O_CLOEXEC);

    if (in < 0 || now < 0 || fstat(in, &st) < 0 || fstat(now, &own) < 0) {
        return err_sys(err, "open the jail's agent");
    }
    if (st.st_size == own.st_size && bytes_same(in, now, (size_t)st.st_size)) {
        return 0;
    }
    return agent_earlier(pool, in, &st, path, err);
}
