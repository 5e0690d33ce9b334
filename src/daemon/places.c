#include "daemon/places.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/fd.h"

enum { INSTANCE_HEX_LEN = 8 };

struct below {
    size_t at;
    const char *name;
};

#define PLACE(field, name)                                                                         \
    {                                                                                              \
        offsetof(struct places, field), name                                                       \
    }

static const struct below below_data[] = {
    PLACE(state, "state"),
    PLACE(run, "run"),
    PLACE(pool, "pool"),
    PLACE(database, "state/atoll.db"),
    PLACE(logs, "state/logs"),
    PLACE(files, "state/files"),
    PLACE(default_key, "state/default.key"),
    PLACE(ca, "state/ca.pem"),
    PLACE(secret_key, "state/secret.key"),
    PLACE(endpoint, "run/endpoint"),
    PLACE(notices, "run/notices"),
    PLACE(keeper_socket, "run/keeper.sock"),
    PLACE(serve_lock, "run/serve.lock"),
    PLACE(keeper_lock, "run/keeper.lock"),
    PLACE(prepare_lock, "run/prepare.lock"),
    PLACE(layers_lock, "run/layers.lock"),
};

/* The first of the candidates that exists, seen from the program's own directory: the build tree
 * first, then an installed one. Empty when none does: only root needs them, and says so then. */
static void find_beside_program(const char *const *candidates, size_t n, char out[PLACE_BYTES])
{
    char self[PATH_MAX] = "";
    char path[PATH_MAX];

    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *dir = len > 0 ? dirname(self) : "";
    for (size_t i = 0; i < n; i++) {
        int whole = snprintf(path, sizeof(path), "%s/%s", dir, candidates[i]);
        if (whole > 0 && whole < PLACE_BYTES && access(path, R_OK) == 0) {
            memcpy(out, path, (size_t)whole + 1);
            return;
        }
    }
    out[0] = '\0';
}

static int put(char out[PLACE_BYTES], const char *dir, const char *name, struct err *err)
{
    int n = snprintf(out, PLACE_BYTES, "%s/%s", dir, name);

    if (n < 0 || n >= PLACE_BYTES) {
        return err_set(err, ENAMETOOLONG, "the path %.80s... is too long", dir);
    }
    return 0;
}

static int find_program_files(const struct config *config, struct places *out, struct err *err)
{
    static const char *const agents[] = {"src/agent/atoll-agent", "../lib/atoll/atoll-agent"};
    static const char *const keepers[] = {"src/keeper/atoll-keeper", "../lib/atoll/atoll-keeper"};
    static const char *const interpreters[] = {"src/interpreter/atoll-interpreter",
                                               "../lib/atoll/atoll-interpreter"};
    static const char *const gateways[] = {"src/gateway/mcp-gateway", "../lib/atoll/mcp-gateway"};
    static const char *const templates[] = {"../templates", "../share/atoll/templates"};
    int r = 0;

    if (config->agent[0]) {
        r = str_copy(out->agent, sizeof(out->agent), str_of(config->agent))
                ? 0
                : err_set(err, ENAMETOOLONG, "the path of the agent is too long");
    } else {
        find_beside_program(agents, countof(agents), out->agent);
    }
    find_beside_program(keepers, countof(keepers), out->keeper);
    find_beside_program(interpreters, countof(interpreters), out->interpreter);
    find_beside_program(gateways, countof(gateways), out->gateway);
    if (r == 0 && config->templates[0]) {
        return str_copy(out->templates, sizeof(out->templates), str_of(config->templates))
                   ? 0
                   : err_set(err, ENAMETOOLONG, "the path of the templates is too long");
    }
    find_beside_program(templates, countof(templates), out->templates);
    return r;
}

int places_find(const struct config *config, struct places *out, struct err *err)
{
    char digest[SHA256_HEX_LEN + 1];
    int r;

    *out = (struct places){0};
    for (size_t i = 0; i < countof(below_data); i++) {
        r = put((char *)out + below_data[i].at, config->data, below_data[i].name, err);
        if (r < 0) {
            return r;
        }
    }
    if (strlen(out->keeper_socket) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        return err_set(err, ENAMETOOLONG,
                       "the data directory's path is too long for a socket below it: %.80s...",
                       config->data);
    }
    sha256_hex(config->data, strlen(config->data), digest);
    memcpy(out->instance, digest, INSTANCE_HEX_LEN);
    return find_program_files(config, out, err);
}

int place_read(const char *path, char *out, size_t size, struct err *err)
{
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

    if (n < 0) {
        return err_sys(err, "read %s", path);
    }
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return 0;
}
