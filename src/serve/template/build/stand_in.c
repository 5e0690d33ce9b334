#include "serve/template/build/stand_in.h"

#include <errno.h>
#include <string.h>

#include "lib/base/str.h"

/* The npm of `base` does not run on every Node. */
const char stand_in_node_script[] =
    "set -e\n"
    "case $1 in\n"
    "[0-9]*) case $(node -p process.versions.node 2>/dev/null) in \"$1\" | \"$1\".*) exit 0 ;; "
    "esac ;;\n"
    "esac\n"
    "case $1 in 18* | 20* | 22*) npm=10 ;; *) npm=11 ;; esac\n"
    "npm install --global --prefix /usr/local --no-audit --no-fund --no-update-notifier \\\n"
    "  --loglevel=error \"node@$1\" \"npm@$npm\" yarn@1 >&2\n"
    "/usr/local/bin/node --version\n";

/* ---- names ---- */

/* "docker.io/library/node:22-slim" is "node", and "22-slim". */
static struct str tag_of(const char *image, struct str *name)
{
    const char *slash = strrchr(image, '/');
    struct str last = str_of(slash ? slash + 1 : image);
    struct str whole = {last.at, str_find(last, '@')};
    size_t colon = str_find(whole, ':');

    *name = (struct str){whole.at, colon};
    return str_skip(whole, colon + 1);
}

/* The number that a tag begins with: "22.5.1-slim" is "22.5.1". A tag with none, or "lts", says
 * which line it means in another way. 24 is the line with long support that npm has. */
static struct str node_version(struct str tag)
{
    size_t n = 0;

    while (n < tag.len && ((tag.at[n] >= '0' && tag.at[n] <= '9') || tag.at[n] == '.')) {
        n++;
    }
    if (n > 0) {
        return (struct str){tag.at, n};
    }
    return str_starts(tag, STR("lts")) ? STR("24") : STR("latest");
}

int stand_in_read(const char *mapped, const char *image, struct stand_in *out, struct err *err)
{
    struct str value = str_of(mapped), name;
    size_t plus = str_find(value, '+');
    struct str added = str_skip(value, plus + 1);

    *out = (struct stand_in){.node = ""};
    if (!str_copy(out->template, sizeof(out->template), (struct str){value.at, plus})) {
        return err_set(err, EINVAL, "image_map names a template that is too long for %s", image);
    }
    if (added.len == 0) {
        return 0;
    }
    if (!str_eq(added, STR("node"))) {
        return err_set(err, EINVAL, "image_map adds '%.*s' to a template: it can add node alone",
                       (int)added.len, added.at);
    }
    return str_copy(out->node, sizeof(out->node), node_version(tag_of(image, &name)))
               ? 0
               : err_set(err, EINVAL, "%s names no version of Node", image);
}

const char *stand_in_instead(const char *image)
{
    static const struct {
        struct str name;
        const char *instead;
    } known[] = {
        {STR("python"), "python:3.13-slim"},
        {STR("node"), "node:22-slim, or another number"},
        {STR("debian"), "debian:13"},
        {STR("ubuntu"), "debian:13"},
        {STR("buildpack-deps"), "buildpack-deps:trixie"},
    };
    struct str name;

    (void)tag_of(image, &name);
    for (size_t i = 0; i < countof(known); i++) {
        if (str_eq(name, known[i].name)) {
            return known[i].instead;
        }
    }
    return NULL;
}
