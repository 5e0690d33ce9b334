#include "serve/daemon/announce.h"

#include <stdio.h>
#include <string.h>

void announce(const struct config *config, const char *program, const char *url)
{
    const char *domain = config->domain_served;
    char data[sizeof(config->data) + sizeof(" --data ")] = "";

    if (strcmp(config->data, CONFIG_DATA) != 0) {
        (void)snprintf(data, sizeof(data), " --data %s", config->data);
    }
    printf("\natoll " ATOLL_VERSION " serves on %s", url);
    if (config->tls_listen[0]) {
        printf(", with TLS on https://%s", domain[0] ? domain : config->tls_listen);
    }
    printf("\n\n"
           "  Open the dashboard:   %s open%s   (or %s in a browser)\n"
           "  Set the environment:  eval \"$(%s env%s)\"\n"
           "  Run a first command:  %s run%s echo hello\n\n",
           program, data, url, program, data, program, data);
    (void)fflush(stdout);
}
