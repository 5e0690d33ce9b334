#include "serve/daemon/host_trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"

static int certificates_take(const char *text, struct buf *out)
{
    const char *from = text, *to;
    int r = 0;

    while (r == 0 && (from = strstr(from, BEGIN)) && (to = strstr(from, END))) {
        to += strlen(END);
        r = buf_append(out, from, (size_t)(to - from));
        r = r < 0 ? r : buf_append(out, "\n", 1);
        from = to;
    }
    return r;
}

static void file_take(int dir_fd, const char *name, struct buf *out)
{
    scoped_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    scoped_buf(text, HOST_TRUST_BYTES_MAX);

    if (fd < 0 || small_file_append(fd, &text) < 0 || buf_append(&text, "", 1) < 0 ||
        certificates_take(buf_at(&text), out) < 0) {
        log_warn("sandboxes will not trust the authorities in %s: it cannot be read, or there are"
                 " too many",
                 name);
    }
}

static int by_ending(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot && strcmp(dot, ".crt") == 0;
}

static void dir_take(const char *path, struct buf *out)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, by_ending, alphasort);
    scoped_fd dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < n; i++) {
        file_take(dir, entries[i]->d_name, out);
        free(entries[i]);
    }
    free(entries);
}

char *host_trust_read(const char *extra_path)
{
    scoped_buf(pem, HOST_TRUST_BYTES_MAX);

    dir_take(HOST_TRUST_DIR, &pem);
    if (extra_path[0]) {
        file_take(AT_FDCWD, extra_path, &pem);
    }
    return buf_len(&pem) && buf_append(&pem, "", 1) == 0 ? xstrdup(buf_at(&pem)) : xstrdup("");
}
