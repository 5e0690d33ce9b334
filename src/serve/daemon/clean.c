#include "serve/daemon/clean.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "serve/daemon/config.h"

/* Besides the settings: where programs, files and languages are, which authorities TLS trusts, and
 * where recipes of templates find their packages. */
static const char *const known[] = {
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "APT_CONFIG",
    "PIP_INDEX_URL",
    "PIP_DEFAULT_TIMEOUT",
    "npm_config_registry",
    "LISTEN_FDS", /* sockets that a service manager opened for us */
    "LISTEN_FDNAMES",
    "LISTEN_PID",
#if defined(__SANITIZE_ADDRESS__)
    "ASAN_OPTIONS",
    "LSAN_OPTIONS",
    "UBSAN_OPTIONS",
#endif
};

static bool is_known(const char *variable)
{
    const struct str name = {variable, strcspn(variable, "=")};

    for (size_t i = 0; i < countof(known); i++) {
        if (str_eq(str_of(known[i]), name)) {
            return true;
        }
    }
    return config_has_variable(name);
}

int clean_start(char **argv, struct err *err)
{
    size_t all = 0, kept = 0;

    while (environ[all]) {
        all++;
    }
    char **clean = xcalloc(all + 1, sizeof(*clean));
    for (size_t i = 0; i < all; i++) {
        if (is_known(environ[i])) {
            clean[kept++] = environ[i];
        }
    }
    int r = 0;
    if (kept < all) {
        (void)execve("/proc/self/exe", argv, clean);
        r = err_sys(err, "start anew with a clean environment");
    }
    free(clean);
    return r;
}
