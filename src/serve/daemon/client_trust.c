#include "serve/daemon/client_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"
#include "lib/base/str.h"
#include "lib/pki/pki.h"

#define PEM_BEGIN "-----BEGIN CERTIFICATE-----"
#define PEM_END "-----END CERTIFICATE-----\n"

enum {
    CA_BYTES_MAX = 16 * 1024,
    PEM_BEGIN_LEN = sizeof(PEM_BEGIN) - 1,
    PEM_END_LEN = sizeof(PEM_END) - 1,
};

static int file_add(const char *path, struct buf *out, struct err *err)
{
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int r = fd < 0 ? -errno : small_file_append(fd, out);

    if (r == -ENOBUFS) {
        return err_set(err, EFBIG, "%s: more than %d bytes of authorities", path,
                       CLIENT_TRUST_BYTES_MAX);
    }
    return r < 0 ? err_code(err, -r, "read %s", path) : 0;
}

/* The daemon's own authority, which must limit itself to the daemon's own names. */
static int own_read(const struct paths *paths, const char *domain, char out[CA_BYTES_MAX],
                    struct err *err)
{
    char name[CONFIG_TEXT_BYTES];
    struct str whole = str_of(domain);
    const char *const names[] = {"localhost", name};
    int r = server_file_read_ca(paths, out, CA_BYTES_MAX, err);

    if (r < 0) {
        return r;
    }
    (void)str_copy(name, sizeof(name), (struct str){whole.at, str_find(whole, ':')});
    return pki_ca_is_for(out, names, countof(names))
               ? 0
               : err_set(err, EPERM, "the authority in %s is not for names below %s alone",
                         paths->ca, name);
}

static bool holds(const struct buf *text, struct str part)
{
    struct str whole = buf_str(text);

    return whole.len > 0 && memmem(whole.at, whole.len, part.at, part.len);
}

/* Written as a whole or not at all: programs read it at any time. */
static int replace(const char *path, struct str text, struct err *err)
{
    char beside[DATA_PATH_BYTES + 8];

    (void)snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
    scoped_fd fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0 || write(fd, text.at, text.len) != (ssize_t)text.len || fchmod(fd, 0644) < 0 ||
        rename(beside, path) < 0) {
        int r = err_sys(err, "write %s", path);
        (void)(fd < 0 ? 0 : unlink(beside));
        return r;
    }
    return 0;
}

/* The certificates that are not there yet: a shell that knows two daemons would name the file of
 * each to the other, and both would grow. */
static int missing_add(const struct buf *from, struct buf *out)
{
    struct str rest = buf_str(from);
    const char *begin, *end;
    int r = 0;

    while (r == 0 && rest.len > 0 &&
           (begin = memmem(rest.at, rest.len, PEM_BEGIN, PEM_BEGIN_LEN))) {
        rest = str_skip(rest, (size_t)(begin - rest.at));
        end = memmem(rest.at, rest.len, PEM_END, PEM_END_LEN);
        if (!end) {
            break;
        }
        struct str one = {begin, (size_t)(end - begin) + PEM_END_LEN};
        if (!holds(out, one)) {
            r = buf_append(out, one.at, one.len);
        }
        rest = str_skip(rest, one.len);
    }
    return r;
}

/* The host's and those that this shell was told of. A host may have none, and a shell may have been
 * told of a file that is gone. */
static int others_add(const struct paths *paths, struct buf *out, struct err *err)
{
    scoped_buf(text, CLIENT_TRUST_BYTES_MAX);
    const char *named = getenv("SSL_CERT_FILE");
    struct err none;
    int r = access(CLIENT_TRUST_HOST, R_OK) == 0 ? file_add(CLIENT_TRUST_HOST, out, err) : 0;

    if (r == 0 && named && strcmp(named, paths->ca_bundle) != 0 &&
        file_add(named, &text, &none) == 0 && missing_add(&text, out) < 0) {
        return err_set(err, EFBIG, "%s: more than %d bytes of authorities", named,
                       CLIENT_TRUST_BYTES_MAX);
    }
    return r;
}

int client_trust_write(const struct paths *paths, const char *domain, struct err *err)
{
    char own[CA_BYTES_MAX];
    scoped_buf(old, CLIENT_TRUST_BYTES_MAX);
    scoped_buf(new, CLIENT_TRUST_BYTES_MAX);
    const char *named = getenv("SSL_CERT_FILE");
    struct err none;

    if (geteuid() != 0) {
        return access(paths->ca_bundle, R_OK) == 0 ? 0 : err_sys(err, "read %s", paths->ca_bundle);
    }
    int r = own_read(paths, domain, own, err);
    bool known = r == 0 && file_add(paths->ca_bundle, &old, &none) == 0 && holds(&old, str_of(own));
    if (r < 0 || (known && named && strcmp(named, paths->ca_bundle) == 0)) {
        return r;
    }
    r = others_add(paths, &new, err);
    if (r == 0 && !holds(&new, str_of(own))) {
        r = buf_printf(&new, "%s", own);
    }
    if (r < 0 || (known && str_eq(buf_str(&old), buf_str(&new)))) {
        return r;
    }
    return replace(paths->ca_bundle, buf_str(&new), err);
}
