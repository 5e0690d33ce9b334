#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "serve/daemon/config.h"
#include "tmpdir.h"

enum { WORDS_MAX = 8 };

/* Loads with a file of the given text, or none, and up to three arguments. */
static int load(struct config *config, const char *text, const char *a, const char *b, int *words_n,
                struct err *err)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[64];
    char first[128] = "";
    char second[128] = "";
    static char name[] = "serve";
    char *argv[WORDS_MAX] = {name, first, second};

    (void)snprintf(path, sizeof(path), "%s/atoll.conf", dir.path);
    FILE *file = fopen(path, "w");
    if (!file) {
        abort();
    }
    (void)fputs(text, file);
    (void)fclose(file);
    (void)setenv("ATOLL_CONFIG", path, 1);
    (void)snprintf(first, sizeof(first), "%s", a ? a : "");
    (void)snprintf(second, sizeof(second), "%s", b ? b : "");
    int r = config_load(config, 1 + (a != NULL) + (b != NULL), argv, words_n, err);
    (void)unsetenv("ATOLL_CONFIG");
    return r;
}

static void precedence(void)
{
    struct config config;
    struct err err;
    int words_n;

    CHECK_INT(load(&config, "", NULL, NULL, &words_n, &err), 0);
    CHECK_STR(config.listen, "127.0.0.1:3000");

    CHECK_INT(load(&config, "# a comment\n listen = 127.0.0.1:1\n\n", NULL, NULL, &words_n, &err),
              0);
    CHECK_STR(config.listen, "127.0.0.1:1");

    (void)setenv("ATOLL_LISTEN", "127.0.0.1:2", 1);
    CHECK_INT(load(&config, "listen=127.0.0.1:1\n", NULL, NULL, &words_n, &err), 0);
    CHECK_STR(config.listen, "127.0.0.1:2");

    CHECK_INT(load(&config, "listen=127.0.0.1:1", "--listen=127.0.0.1:3", NULL, &words_n, &err), 0);
    CHECK_STR(config.listen, "127.0.0.1:3");
    (void)unsetenv("ATOLL_LISTEN");
}

static void sizes(void)
{
    struct config config;
    struct err err;
    int words_n;

    CHECK_INT(load(&config, "pool_size = 20G", NULL, NULL, &words_n, &err), 0);
    CHECK(config.pool_bytes == UINT64_C(20) << 30);
    CHECK_INT(load(&config, "", "--pool-size", "512m", &words_n, &err), 0);
    CHECK(config.pool_bytes == UINT64_C(512) << 20);
    CHECK_INT(load(&config, "", "--pool-size", "99999999999999T", &words_n, &err), -EINVAL);
    CHECK_STR(err.msg, "--pool-size: '99999999999999T' is not a size such as 512M or 20G");
}

static void counts_may_be_left_to_the_host(void)
{
    struct config config;
    struct err err;
    int words_n;

    CHECK_INT(load(&config, "", NULL, NULL, &words_n, &err), 0);
    CHECK(config.parked_min == CONFIG_AUTO);
    CHECK_INT(load(&config, "", "--parked-min", "0", &words_n, &err), 0);
    CHECK(config.parked_min == 0);
    CHECK_INT(load(&config, "parked_min = 7", "--parked-min", "auto", &words_n, &err), 0);
    CHECK(config.parked_min == CONFIG_AUTO);
    CHECK_INT(load(&config, "", "--parked-min", "some", &words_n, &err), -EINVAL);
    CHECK_STR(err.msg, "--parked-min: 'some' is neither a number nor auto");
    CHECK_INT(load(&config, "", "--parked-max", "auto", &words_n, &err), -EINVAL);
}

static void an_address_may_be_left_to_the_start(void)
{
    struct config config;
    struct err err;
    int words_n;

    CHECK_INT(load(&config, "", NULL, NULL, &words_n, &err), 0);
    CHECK_STR(config.tls_listen, CONFIG_AUTO_TEXT);
    CHECK_INT(load(&config, "tls_listen = none", NULL, NULL, &words_n, &err), 0);
    CHECK_STR(config.tls_listen, "");
    CHECK_INT(load(&config, "tls_listen = none", "--tls-listen", "auto", &words_n, &err), 0);
    CHECK_STR(config.tls_listen, CONFIG_AUTO_TEXT);
    CHECK_INT(load(&config, "listen = auto", NULL, NULL, &words_n, &err), -EINVAL);
}

/* Every refusal names where the value stands. */
static void refusals(void)
{
    static const struct {
        const char *text, *a, *b, *says;
    } cases[] = {
        {"\nlisten = nowhere\n", NULL, NULL, "atoll.conf:2: 'nowhere' is not an address"},
        {"", "--domain", "bad domain!", "--domain: 'bad domain!' is not a domain name"},
        {"domain = a..b", NULL, NULL, "'a..b' is not a domain name"},
        {"domain = a.b.", NULL, NULL, "'a.b.' is not a domain name"},
        {"domain = -a.b", NULL, NULL, "'-a.b' is not a domain name"},
        {"domain = a.b:x", NULL, NULL, "'a.b:x' is not a domain name"},
        {"lisen = 127.0.0.1:1", NULL, NULL, "atoll.conf:1: there is no setting 'lisen'"},
        {"listen", NULL, NULL, "atoll.conf:1: expected a line 'name = value'"},
        {"", "--lisen", "x", "there is no flag '--lisen'"},
        {"", "--listen", NULL, "flag --listen needs a value"},
        {"", "--listen", "127.0.0.1:70000", "--listen: '127.0.0.1:70000' is not an address"},
        {"", "--connections-max", "0", "--connections-max: 0 is not between 1 and"},
        {"", "--connections-max", "-1", "--connections-max: '-1' is not a number"},
        {"", "--log-level", "loud", "--log-level: 'loud' is not one of"},
        {"", "--data", "", "may not be empty"},
        {"tls_listen = 127.0.0.1:1\ntls_cert = /x", NULL, NULL, "need each other"},
        {"tls_key = /x", NULL, NULL, "need each other"},
        {"tls_listen = none\ntls_cert = /x\ntls_key = /x", NULL, NULL,
         "tls_cert and tls_key need tls_listen"},
    };
    struct config config;
    struct err err;
    int words_n;

    for (size_t i = 0; i < countof(cases); i++) {
        int r = load(&config, cases[i].text, cases[i].a, cases[i].b, &words_n, &err);
        CHECK_THAT(r < 0, "case %zu passes", i);
        CHECK_THAT(strstr(err.msg, cases[i].says), "case %zu says '%s'", i, err.msg);
    }
}

static void words_come_first(void)
{
    static char arguments[][16] = {"key", "--data", "/x", "create", "--user=me", "name"};
    char *argv[countof(arguments)];
    struct config config;
    struct err err;
    int words_n;

    for (size_t i = 0; i < countof(arguments); i++) {
        argv[i] = arguments[i];
    }
    CHECK_INT(config_load(&config, (int)countof(argv), argv, &words_n, &err), 0);
    CHECK_INT(words_n, 2);
    CHECK_STR(argv[1], "create");
    CHECK_STR(argv[2], "name");
    CHECK_STR(config.data, "/x");
    CHECK_STR(config.user, "me");
}

/* What the keeper is started with must mean what we were started with. */
static void argv_round_trip(void)
{
    struct config config;
    struct config again;
    struct err err;
    int words_n;
    static char name[] = "keeper";
    char *argv[1 + CONFIG_ARGV_MAX] = {name};

    CHECK_INT(load(&config, "domain = a.b:80\npool_size = 3G\nlog_level = warn\n", "--data", "rel",
                   &words_n, &err),
              0);
    int n = config_argv(&config, argv + 1);
    CHECK_INT(config_load(&again, 1 + n, argv, &words_n, &err), 0);
    CHECK_STR(again.domain, "a.b:80");
    CHECK_STR(again.data, config.data);
    CHECK(again.data[0] == '/');
    CHECK(again.pool_bytes == UINT64_C(3) << 30);
    CHECK_INT(again.log_level, LOG_WARN);
    CHECK_STR(again.tls_cert, "");
    config_argv_free(argv + 1, n);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"flags beat variables beat the file beat defaults", precedence},
        {"sizes have units", sizes},
        {"counts may be left to the host", counts_may_be_left_to_the_host},
        {"an address may be left to the start", an_address_may_be_left_to_the_start},
        {"refusals name their place", refusals},
        {"words that are no flags come first", words_come_first},
        {"settings survive as flags", argv_round_trip},
    };
    return check_run(tests, countof(tests));
}
