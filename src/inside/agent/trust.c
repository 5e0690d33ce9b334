#include "inside/agent/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

#define BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define ADDED "/usr/local/share/ca-certificates/atoll-sandbox.crt"

/* The bundles of the common distributions; the first one is made where none exists. */
static const char *const bundles[] = {
    BUNDLE,
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
};

const struct trust_variable trust_variables[] = {
    {"SSL_CERT_FILE", BUNDLE},     {"REQUESTS_CA_BUNDLE", BUNDLE}, {"CURL_CA_BUNDLE", BUNDLE},
    {"PIP_CERT", BUNDLE},          {"GIT_SSL_CAINFO", BUNDLE},     {"AWS_CA_BUNDLE", BUNDLE},
    {"CARGO_HTTP_CAINFO", BUNDLE}, {"DENO_CERT", ADDED},           {"NODE_EXTRA_CA_CERTS", ADDED},
};
const size_t trust_variables_n = countof(trust_variables);

/* ---- files ---- */

static int path_make(char out[PATH_MAX], const char *root, const char *path, struct err *err)
{
    int n = snprintf(out, PATH_MAX, "%s%s", root, path);

    return n > 0 && n < PATH_MAX ? 0 : err_set(err, ENAMETOOLONG, "the path is too long");
}

static void parents_make(char path[PATH_MAX])
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755); /* the file's own error tells when there is none */
        *slash = '/';
    }
}

/* In a copy of another sandbox the files are there already. */
static bool file_says(const char *path, struct str text)
{
    struct stat st;
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    scoped_buf(now, TRUST_BUNDLE_BYTES_MAX);

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == (off_t)text.len &&
           small_file_append(fd, &now) == 0 && str_eq(buf_str(&now), text);
}

/* A file is replaced as a whole, so that no program reads half of a bundle. */
static int file_put(const char *path, struct str text, struct err *err)
{
    char fresh[PATH_MAX + 8];
    size_t done = 0;

    if (file_says(path, text)) {
        return 0;
    }

    (void)snprintf(fresh, sizeof(fresh), "%s.atoll", path);
    (void)unlink(fresh);
    scoped_fd fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return err_sys(err, "create %s", fresh);
    }
    while (done < text.len) {
        ssize_t n = write(fd, text.at + done, text.len - done);
        if (n < 0) {
            return err_sys(err, "write %s", fresh);
        }
        done += (size_t)n;
    }
    if (fchmod(fd, 0644) < 0 || rename(fresh, path) < 0) {
        return err_sys(err, "replace %s", path);
    }
    return 0;
}

/* ---- bundles ---- */

/* The next of several. */
static bool certificate_cut(struct str *rest, struct str *one)
{
    static const char end[] = "-----END CERTIFICATE-----";
    const char *at = rest->len ? memmem(rest->at, rest->len, end, sizeof(end) - 1) : NULL;

    while (rest->len && (rest->at[0] == '\n' || rest->at[0] == '\r')) {
        *rest = str_skip(*rest, 1);
    }
    *one = *rest;
    if (at) {
        one->len = (size_t)(at - rest->at) + sizeof(end) - 1;
    }
    *rest = str_skip(*rest, one->len);
    return one->len > 0;
}

/* Compared by the end of its signature, which is short and unique: a bundle is long. */
static bool certificate_has(const struct buf *text, struct str one)
{
    enum { TAIL_BYTES = 96 };
    const size_t tail = one.len < TAIL_BYTES ? one.len : TAIL_BYTES, ahead = one.len - tail;
    const char *at = buf_at(text), *end = at + buf_len(text), *hit;

    while ((hit = memmem(at, (size_t)(end - at), one.at + ahead, tail))) {
        if ((size_t)(hit - buf_at(text)) >= ahead && memcmp(hit - ahead, one.at, ahead) == 0) {
            return true;
        }
        at = hit + 1;
    }
    return false;
}

static int certificate_append(struct buf *text, struct str one)
{
    bool open_line = buf_len(text) > 0 && buf_at(text)[buf_len(text) - 1] != '\n';

    if ((open_line && buf_append(text, "\n", 1) < 0) || buf_append(text, one.at, one.len) < 0) {
        return -EFBIG;
    }
    return buf_append(text, "\n", 1);
}

static int bundle_add(const char *path, struct str pem, bool make, struct err *err)
{
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    scoped_buf(text, TRUST_BUNDLE_BYTES_MAX);

    if (fd < 0 && !make) {
        return 0; /* not there, or a link to one that is in the list */
    }
    if (fd >= 0 && small_file_append(fd, &text) < 0) {
        return err_set(err, EFBIG, "%s cannot be read", path);
    }
    size_t before = buf_len(&text);
    struct str one;
    while (certificate_cut(&pem, &one)) {
        if (!certificate_has(&text, one) && certificate_append(&text, one) < 0) {
            return err_set(err, EFBIG, "%s is too long", path);
        }
    }
    return buf_len(&text) == before ? 0 : file_put(path, buf_str(&text), err);
}

static int bundles_add(const char *root, struct str pem, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    bool any = false;
    int r = 0;

    for (size_t i = 0; i < countof(bundles); i++) {
        r = path_make(path, root, bundles[i], err);
        any = any || (r == 0 && stat(path, &st) == 0);
        r = r < 0 ? r : bundle_add(path, pem, false, err);
        if (r < 0) {
            return r;
        }
    }
    if (!any) {
        r = path_make(path, root, BUNDLE, err);
        parents_make(path);
        r = r < 0 ? r : bundle_add(path, pem, true, err);
    }
    return r;
}

/* A bundle that is a link, as on some systems, has its target in the list. */
int trust_add_below(const char *root, const char *pem, const char *hash, struct err *err)
{
    struct str text = str_of(pem);
    char path[PATH_MAX], name[64];
    int r = text.len <= TRUST_PEM_BYTES_MAX && strspn(hash, "0123456789abcdef") == strlen(hash) &&
                    strlen(hash) <= 8
                ? 0
                : err_set(err, EINVAL, "caBundle is too long, or its hash is none");

    r = r < 0 ? r : bundles_add(root, text, err);
    r = r < 0 ? r : path_make(path, root, ADDED, err);
    if (r == 0) {
        parents_make(path);
        r = file_put(path, text, err);
    }
    if (r < 0 || !hash[0]) {
        return r;
    }
    (void)snprintf(name, sizeof(name), "/etc/ssl/certs/%s.0", hash);
    r = path_make(path, root, name, err);
    if (r == 0) {
        parents_make(path);
        r = file_put(path, text, err);
    }
    return r;
}

int trust_add(const char *pem, const char *hash, struct err *err)
{
    int r = trust_add_below("", pem, hash, err);

    (void)malloc_trim(0); /* a bundle was in memory, which no later call needs */
    return r;
}
