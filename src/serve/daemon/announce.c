#include "serve/daemon/announce.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/log.h"

enum { LINE_BYTES = 256 };

/* Printed only to a terminal: others may read a log file or a journal. */
static void announce_key(const struct paths *paths, const char *url)
{
    char key[LINE_BYTES] = "";
    struct err err;

    if (server_file_read_key(paths, key, sizeof(key), &err) < 0) {
        log_warn("%s", err.msg);
        return;
    }
    printf("\n  export E2B_API_URL=%s\n"
           "  export E2B_SANDBOX_URL=%s\n"
           "  export E2B_API_KEY=%s\n\n",
           url, url, key);
}

void announce(const struct config *config, const struct paths *paths, const char *program,
              const char *url)
{
    bool is_default = strcmp(config->data, CONFIG_DATA) == 0;
    bool terminal = isatty(STDOUT_FILENO);

    printf("\natoll " ATOLL_VERSION " serves on %s\n", url);
    if (config->tls_listen[0]) {
        printf("and with TLS on https://%s\n",
               config->domain_served[0] ? config->domain_served : config->tls_listen);
    }
    if (config->domain_served[0]) {
        printf("sandbox ports are reached as <port>-<id>.%s\n", config->domain_served);
    }
    if (terminal) {
        announce_key(paths, url);
    }
    printf("%s: eval \"$(%s env%s%s)\"\n\n",
           terminal ? "In another terminal" : "To use it from a shell", program,
           is_default ? "" : " --data ", is_default ? "" : config->data);
    (void)fflush(stdout);
}
