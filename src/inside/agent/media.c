#include "inside/agent/media.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/compiler.h"

static const struct {
    const char *extension, *type;
} types[] = {
    {"avif", "image/avif"},
    {"css", "text/css; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"gif", "image/gif"},
    {"htm", "text/html; charset=utf-8"},
    {"html", "text/html; charset=utf-8"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"md", "text/markdown; charset=utf-8"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"svg", "image/svg+xml"},
    {"txt", "text/plain; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webp", "image/webp"},
    {"xml", "text/xml; charset=utf-8"},
    {"zip", "application/zip"},
};

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const char *media_type(const char *path)
{
    const char *dot = strrchr(base_of(path), '.');

    for (size_t i = 0; dot && i < countof(types); i++) {
        if (strcasecmp(dot + 1, types[i].extension) == 0) {
            return types[i].type;
        }
    }
    return "application/octet-stream";
}

static bool all_in(const char *name, bool (*ok)(char c))
{
    for (; *name; name++) {
        if (!ok(*name)) {
            return false;
        }
    }
    return true;
}

static bool is_bare(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._+!#$&^|~", c));
}

static bool is_quotable(char c)
{
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

void media_disposition(const char *path, char *out, size_t size)
{
    const char *name = base_of(path);

    if (*name && all_in(name, is_bare)) {
        (void)snprintf(out, size, "inline; filename=%s", name);
        return;
    }
    if (all_in(name, is_quotable)) {
        (void)snprintf(out, size, "inline; filename=\"%s\"", name);
        return;
    }
    size_t n = (size_t)snprintf(out, size, "inline; filename*=utf-8''");
    for (; *name && n + 4 < size; name++) {
        n += (size_t)(is_bare(*name) ? snprintf(out + n, size - n, "%c", *name)
                                     : snprintf(out + n, size - n, "%%%02X", (unsigned char)*name));
    }
}
