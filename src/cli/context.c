#include "cli/context.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <fts.h>
#include <glob.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/pid_wait.h"
#include "lib/base/small_file.h"
#include "lib/base/str.h"

enum {
    IGNORE_BYTES_MAX = 1024 * 1024,
    NAMES_BYTES_MAX = 256 * 1024 * 1024,
    PATH_BYTES = 4096,
    READ_BYTES = 256 * 1024,
};

struct context {
    char *dir;
    struct buf ignore; /* lines */
};

/* ---- .dockerignore ---- */

static bool pattern_matches(const char *pattern, const char *path)
{
    if (fnmatch(pattern, path, FNM_PATHNAME | FNM_PERIOD) == 0 ||
        fnmatch(pattern, path, FNM_PATHNAME) == 0) {
        return true;
    }
    /* Two stars and a slash stand for any number of directories. */
    if (strncmp(pattern, "**/", 3) == 0) {
        for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL) {
            if (pattern_matches(pattern + 3, p)) {
                return true;
            }
        }
    }
    return false;
}

/* A pattern that names a directory names all in it. */
static bool matches_or_holds(const char *pattern, const char *path)
{
    char prefix[PATH_BYTES];

    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        if (str_copy(prefix, sizeof(prefix), (struct str){path, (size_t)(slash - path)}) &&
            pattern_matches(pattern, prefix)) {
            return true;
        }
    }
    return pattern_matches(pattern, path);
}

bool context_ignores(struct str lines, const char *path)
{
    char pattern[PATH_BYTES];
    struct str line;
    bool ignored = false;

    while (str_split(&lines, '\n', &line)) {
        line = str_trim(str_ends(line, STR("\r")) ? (struct str){line.at, line.len - 1} : line);
        bool negated = str_starts(line, STR("!"));
        line = negated ? str_skip(line, 1) : line;
        while (str_starts(line, STR("/")) || str_starts(line, STR("./"))) {
            line = str_skip(line, line.at[0] == '/' ? 1 : 2);
        }
        while (str_ends(line, STR("/")) || str_ends(line, STR("/**"))) {
            line.len -= line.at[line.len - 1] == '/' ? 1 : 3;
        }
        if (line.len > 0 && line.at[0] != '#' && str_copy(pattern, sizeof(pattern), line) &&
            matches_or_holds(pattern, path)) {
            ignored = !negated;
        }
    }
    return ignored;
}

int context_open(const char *dir, struct context **out, struct err *err)
{
    struct context *context = xnew(struct context);
    char path[PATH_BYTES];
    struct stat st;

    if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
        free(context);
        return err_set(err, ENOTDIR, "%s is not a directory", dir);
    }
    context->dir = xstrdup(dir);
    buf_init(&context->ignore, IGNORE_BYTES_MAX);
    (void)snprintf(path, sizeof(path), "%s/.dockerignore", dir);
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!small_file_append(fd, &context->ignore); /* one that is too long is cut */
    }
    *out = context;
    return 0;
}

void context_free(struct context *context)
{
    if (context) {
        buf_fini(&context->ignore);
        free(context->dir);
        free(context);
    }
}

/* ---- the names ---- */

struct listing {
    const struct context *context;
    struct buf names; /* each with a NUL */
    size_t n;
    EVP_MD_CTX *hash; /* NULL: nobody wants it */
    int error;
};

static void hash_add(struct listing *list, const void *data, size_t len)
{
    if (EVP_DigestUpdate(list->hash, data, len) != 1) {
        abort();
    }
}

static void hash_file(struct listing *list, const char *path)
{
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    char *block = xcalloc(1, READ_BYTES);
    ssize_t n;

    while (fd >= 0 && (n = read(fd, block, READ_BYTES)) > 0) {
        hash_add(list, block, (size_t)n);
    }
    free(block);
}

static void entry_add(struct listing *list, const FTSENT *entry, const char *name)
{
    char about[64], target[PATH_BYTES];
    const struct stat *st = entry->fts_statp;

    if (context_ignores(buf_str(&list->context->ignore), name)) {
        return;
    }
    if (++list->n > CONTEXT_FILES_MAX || buf_append(&list->names, name, strlen(name) + 1) < 0) {
        list->error = -E2BIG;
        return;
    }
    (void)snprintf(about, sizeof(about), "%o %lld", st->st_mode,
                   S_ISREG(st->st_mode) ? (long long)st->st_size : 0LL);
    if (!list->hash) {
        return;
    }
    hash_add(list, name, strlen(name) + 1);
    hash_add(list, about, strlen(about) + 1);
    if (S_ISLNK(st->st_mode)) {
        ssize_t n = readlink(entry->fts_accpath, target, sizeof(target));
        hash_add(list, target, n > 0 ? (size_t)n : 0);
    } else if (S_ISREG(st->st_mode)) {
        hash_file(list, entry->fts_accpath);
    }
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void tree_add(struct listing *list, char *path)
{
    char *roots[] = {path, NULL};
    size_t skip = strlen(list->context->dir) + 1;
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);

    for (FTSENT *entry; fts && list->error == 0 && (entry = fts_read(fts));) {
        const char *name = entry->fts_pathlen > skip ? entry->fts_path + skip : "";
        if (entry->fts_info != FTS_DP && name[0] && strcmp(name, ".") != 0) {
            entry_add(list, entry, strncmp(name, "./", 2) == 0 ? name + 2 : name);
        }
    }
    if (fts) {
        (void)fts_close(fts);
    }
}

/* Refuses a source that leads out by "..", before any file is opened. */
static int source_check(const char *source, struct err *err)
{
    struct str rest = str_of(source), part;

    while (str_split(&rest, '/', &part)) {
        if (str_eq(part, STR(".."))) {
            return err_set(err, EINVAL, "COPY %s leads out of the build directory", source);
        }
    }
    return 0;
}

static int names_find(struct listing *list, const char *source, struct err *err)
{
    char pattern[2 * PATH_BYTES];
    glob_t found = {0};
    int r = source_check(source, err);

    if (r < 0) {
        return r;
    }
    while (source[0] == '/') { /* Docker's root is the context */
        source++;
    }
    (void)snprintf(pattern, sizeof(pattern), "%s/%s", list->context->dir, source[0] ? source : ".");
    for (size_t n = strlen(pattern); n > 1 && pattern[n - 1] == '/'; n--) {
        pattern[n - 1] = '\0';
    }
    r = glob(pattern, GLOB_NOSORT | GLOB_PERIOD, NULL, &found);
    for (size_t i = 0; r == 0 && i < found.gl_pathc; i++) {
        const char *last = strrchr(found.gl_pathv[i], '/') + 1;
        bool is_dots = (strcmp(last, ".") == 0 && found.gl_pathc > 1) || strcmp(last, "..") == 0;
        if (!is_dots) {
            tree_add(list, found.gl_pathv[i]);
        }
    }
    globfree(&found);
    if (list->error) {
        return err_set(err, E2BIG, "COPY %s takes more than %d files", source, CONTEXT_FILES_MAX);
    }
    return list->n > 0 ? 0
                       : err_set(err, ENOENT, "COPY %s: there is no such file in %s", source,
                                 list->context->dir);
}

/* ---- the archive ---- */

static _Noreturn void become_tar(const char *dir, int names, int out)
{
    if (dup2(names, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0) {
        (void)execlp("tar", "tar", "--create", "--format=pax", "--directory", dir, "--no-recursion",
                     "--null", "--owner=0", "--group=0", "--numeric-owner",
                     "--pax-option=delete=atime,delete=ctime", "--verbatim-files-from",
                     "--files-from=-", (char *)NULL);
    }
    _exit(127);
}

static int temporary_open(struct err *err)
{
    const char *dir = getenv("TMPDIR");
    int fd = open(dir && dir[0] ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    return fd < 0 ? err_sys(err, "make a temporary file") : fd;
}

static int tar_run(const struct listing *list, int out, struct err *err)
{
    scoped_fd names = temporary_open(err);

    if (names < 0) {
        return names;
    }
    struct str text = buf_str(&list->names);
    if (write(names, text.at, text.len) != (ssize_t)text.len || lseek(names, 0, SEEK_SET) < 0) {
        return err_sys(err, "write a temporary file");
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_tar(list->context->dir, names, out);
    }
    if (pid < 0 || !pid_wait_success(pid)) {
        return err_set(err, EIO, "tar could not pack the files");
    }
    return 0;
}

static int archive_make(const struct listing *list, struct context_archive *out, struct err *err)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    struct stat st;
    unsigned len = 0;
    scoped_fd fd = temporary_open(err);
    int r = fd < 0 ? fd : tar_run(list, fd, err);

    if (r < 0) {
        return r;
    }
    if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        return err_sys(err, "read the archive");
    }
    if (EVP_DigestFinal_ex(list->hash, digest, &len) != 1 || len != SHA256_BYTES) {
        abort();
    }
    hex_encode(out->hash, digest, len);
    out->bytes = st.st_size;
    out->fd = move_fd(&fd);
    return 0;
}

int context_check(struct context *context, const char *source, struct err *err)
{
    struct listing list = {.context = context};

    buf_init(&list.names, NAMES_BYTES_MAX);
    int r = names_find(&list, source, err);
    buf_fini(&list.names);
    return r;
}

int context_pack(struct context *context, const char *source, struct context_archive *out,
                 struct err *err)
{
    struct listing list = {.context = context, .hash = EVP_MD_CTX_new()};

    if (!list.hash || EVP_DigestInit_ex(list.hash, EVP_sha256(), NULL) != 1) {
        abort();
    }
    buf_init(&list.names, NAMES_BYTES_MAX);
    int r = names_find(&list, source, err);
    if (r == 0) {
        r = archive_make(&list, out, err);
    }
    buf_fini(&list.names);
    EVP_MD_CTX_free(list.hash);
    return r;
}

int context_archive_of(int fd, struct context_archive *out, struct err *err)
{
    struct stat st;
    scoped_fd own = fd;

    if (fstat(own, &st) < 0 || lseek(own, 0, SEEK_SET) < 0) {
        return err_sys(err, "read what another stage made");
    }
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, own, 0);
    if (st.st_size == 0 || at == MAP_FAILED) {
        return err_sys(err, "read what another stage made");
    }
    sha256_hex(at, (size_t)st.st_size, out->hash);
    (void)munmap(at, (size_t)st.st_size);
    out->bytes = st.st_size;
    out->fd = move_fd(&own);
    return 0;
}
