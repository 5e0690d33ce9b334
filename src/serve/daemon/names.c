#include "serve/daemon/names.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/utf8.h"

enum { NAME_SHOWN_MAX = 100 };

static bool is_loopback(const char *listen)
{
    return strncmp(listen, "127.", strlen("127.")) == 0 ||
           strncmp(listen, "[::1]:", strlen("[::1]:")) == 0;
}

void names_init(struct names *names, const struct config *config)
{
    if (gethostname(names->machine, sizeof(names->machine) - 1) < 0) {
        names->machine[0] = '\0';
    }
    names->machine[sizeof(names->machine) - 1] = '\0';
    names->hosts = (struct hosts){
        .domain = config->domain,
        .allowed = config->allowed_hosts,
        .issuer = config->identity_issuer,
        .machine = names->machine,
        .beyond_loopback = !is_loopback(config->listen) ||
                           (config->tls_listen[0] && !is_loopback(config->tls_listen)),
    };
}

void names_certified(struct names *names, struct tls_context *tls)
{
    names->tls = tls;
}

bool names_refuse(const struct names *names, struct http_exchange *ex)
{
    struct str name = http_request(ex)->authority;

    if (hosts_serve(&names->hosts, name) ||
        (names->tls && tls_context_names(names->tls, hosts_name(name)))) {
        return false;
    }
    if (name.len > NAME_SHOWN_MAX || !utf8_valid(name)) {
        name = STR("this name");
    }
    json_t *message = json_sprintf(
        "%.*s is not a name of this daemon: use its address or localhost, or add the name to the "
        "setting allowed_hosts",
        (int)name.len, name.at);
    json_t *body = json_pack("{si so}", "code", 421, "message", message);
    char *text = json_dumps(body, JSON_COMPACT);
    http_answer(ex, 421, "application/json", text, text ? strlen(text) : 0);
    free(text);
    json_decref(body);
    return true;
}
