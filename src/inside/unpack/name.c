#include <errno.h>
#include <string.h>

#include "inside/unpack/internal.h"

enum { SHOWN_BYTES = 100 }; /* room for a name in a sentence */

const char *name_show(const char *name, char *out, size_t size)
{
    size_t n = 0;

    for (; name[n] && n + 1 < size; n++) {
        unsigned char c = (unsigned char)name[n];
        out[n] = (char)(c < 0x20 || c == 0x7f ? '?' : c);
    }
    out[n] = '\0';
    return out;
}

static int refuse(const char *name, const char *why, struct err *err)
{
    char shown[SHOWN_BYTES];

    return err_set(err, EINVAL, "the archive holds %s: %s", why,
                   name_show(name, shown, sizeof(shown)));
}

/* Appends one part to `out`. */
static int part_add(const char *name, struct str part, char out[PATH_BYTES], size_t *len,
                    struct err *err)
{
    if (str_eq(part, STR(".."))) {
        return refuse(name, "a name that leads out of its directory", err);
    }
    if (part.len > NAME_BYTES_MAX || *len + 1 + part.len > UNPACK_PATH_BYTES_MAX) {
        return refuse(name, "a name that is too long", err);
    }
    if (*len > 0) {
        out[(*len)++] = '/';
    }
    memcpy(out + *len, part.at, part.len);
    *len += part.len;
    return 0;
}

int name_check(const char *name, char out[PATH_BYTES], struct err *err)
{
    struct str rest = str_of(name), part;
    size_t len = 0, depth = 0;

    if (!name || name[0] == '\0') {
        return err_set(err, EINVAL, "the archive holds an entry without a name");
    }
    if (name[0] == '/') {
        return refuse(name, "an absolute name", err);
    }
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_eq(part, STR("."))) {
            continue;
        }
        int r = part_add(name, part, out, &len, err);
        if (r < 0) {
            return r;
        }
        if (++depth > UNPACK_DEPTH_MAX) {
            return refuse(name, "a name with too many directories", err);
        }
    }
    out[len] = '\0';
    return 0;
}

const char *name_last(const char *path, size_t *parent_len)
{
    const char *slash = strrchr(path, '/');

    *parent_len = slash ? (size_t)(slash - path) : 0;
    return slash ? slash + 1 : path;
}

bool name_is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    return len == 0 || (strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0'));
}
