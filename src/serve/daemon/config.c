#include "serve/daemon/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/http/hosts.h"

enum {
    LINE_BYTES_MAX = 8192,
    NAME_BYTES = CONFIG_FLAG_BYTES,
    SOURCE_BYTES = 128,
    DOMAIN_LABEL_MAX = 63,
    DOMAIN_BYTES_MAX = 200, /* leaves room for a port and an id in front */
};

enum kind {
    TEXT,
    DOMAIN,
    NAMES,
    ADDRESS,
    ADDRESS_OR_AUTO, /* or none, which is empty */
    FILE_PATH,
    FILE_OR_OUTPUT, /* or -, or none, which is empty */
    BYTES,
    COUNT,
    COUNT_OR_NONE,
    COUNT_OR_AUTO, /* or none: the host decides unless a number does */
    SWITCH,
    LEVEL
};

static const char automatic[] = CONFIG_AUTO_TEXT;

struct setting {
    const char *name;
    enum kind kind;
    size_t at; /* of its field in struct config */
    const char *fallback;
    const char *hint;
    const char *help;
    const char *usual; /* an environment variable that others know it by; NULL: none */
    bool secret;       /* may hold a password: not for the process list */
};

#define FIELD(name) #name, .at = offsetof(struct config, name)

static const struct setting settings[] = {
    {FIELD(listen), .kind = ADDRESS, .fallback = "127.0.0.1:3000", .hint = "ADDR:PORT",
     .help = "address of the API and of all sandbox traffic; port 0 takes a free port"},
    {FIELD(tls_listen), .kind = ADDRESS_OR_AUTO, .fallback = automatic, .hint = "ADDR:PORT",
     .help = "address for TLS, or none; auto: port 443 on loopback, else 3443, else a "
             "free port; with --domain: the domain's port on the address of --listen"},
    {FIELD(tls_cert), .kind = FILE_PATH, .fallback = "", .hint = "FILE",
     .help = "certificate chain (PEM), read again when it changes; default: a certificate "
             "of the daemon's own authority (atoll ca)"},
    {FIELD(tls_key), .kind = FILE_PATH, .fallback = "", .hint = "FILE",
     .help = "private key of the certificate (PEM), readable by the serving user"},
    {FIELD(domain), .kind = DOMAIN, .fallback = "", .hint = "NAME",
     .help = "domain of sandbox ports (<port>-<id>.NAME) and of the API (api.NAME); "
             "default: localhost, with the TLS port unless it is 443"},
    {FIELD(allowed_hosts), .kind = NAMES, .fallback = "", .hint = "NAMES",
     .help = "further names of the daemon, as box.example.org,*.box.lan; *: any name, for "
             "a proxy that checks names itself"},
    {FIELD(data), .kind = FILE_PATH, .fallback = CONFIG_DATA, .hint = "DIR",
     .help = "directory of the state, the sockets and the pool of sandbox disks"},
    {FIELD(cache), .kind = FILE_PATH, .fallback = "/var/cache/atoll", .hint = "DIR",
     .help = "directory of built templates; several data directories may share it"},
    {FIELD(templates), .kind = FILE_PATH, .fallback = "", .hint = "DIR",
     .help =
         "directory of the recipes of built-in templates; default: the one beside this program"},
    {FIELD(with_templates), .kind = TEXT, .fallback = "mcp-gateway,code-interpreter-v1",
     .hint = "NAMES",
     .help = "built-in templates to build in the background after `base`, or none"},
    {FIELD(agent), .kind = FILE_PATH, .fallback = "", .hint = "FILE",
     .help = "program that runs as pid 1 of a sandbox; default: atoll-agent beside this "
             "program"},
    {FIELD(user), .kind = TEXT, .fallback = "atoll", .hint = "NAME",
     .help = "system user of the server; created if it is missing"},
    {.name = "pool_size",
     .at = offsetof(struct config, pool_bytes),
     .kind = BYTES,
     .fallback = "0",
     .hint = "SIZE",
     .help = "maximum size of the pool, as 20G; 0: four fifths of the free space"},
    {FIELD(connections_max), .kind = COUNT, .fallback = "10000", .hint = "N",
     .help = "maximum number of connections; three quarters may lead into sandboxes, "
             "shared fairly by teams; one more is answered 503"},
    {FIELD(sandbox_connections_max), .kind = COUNT, .fallback = "1024", .hint = "N",
     .help = "maximum number of requests in progress to one sandbox; one more is answered "
             "429"},
    {FIELD(header_timeout_s), .kind = COUNT, .fallback = "10", .hint = "SECONDS",
     .help = "time limit for the head of a request"},
    {FIELD(idle_timeout_s), .kind = COUNT, .fallback = "75", .hint = "SECONDS",
     .help = "time limit for an idle connection between two requests"},
    {FIELD(egress_allow), .kind = TEXT, .fallback = "", .hint = "BLOCKS",
     .help = "private addresses and addresses of this host that sandboxes may reach, as "
             "10.1.0.0/16,192.168.0.9"},
    {FIELD(egress_map), .kind = TEXT, .fallback = "", .hint = "PAIRS",
     .help = "addresses to replace in outgoing connections, as "
             "192.0.2.1:443=127.0.0.1:8443"},
    {FIELD(egress_dns), .kind = TEXT, .fallback = "", .hint = "SERVERS",
     .help = "DNS servers for sandboxes, as 192.0.2.53,127.0.0.1:5353; default: the "
             "host's"},
    {FIELD(http_proxy), .kind = TEXT, .fallback = "", .hint = "URL", .usual = "http_proxy",
     .secret = true,
     .help = "proxy for outgoing connections of sandboxes to port 80, as "
             "http://user:word@host:3128"},
    {FIELD(https_proxy), .kind = TEXT, .fallback = "", .hint = "URL", .usual = "https_proxy",
     .secret = true, .help = "proxy for outgoing connections of sandboxes to all other ports"},
    {FIELD(no_proxy), .kind = TEXT, .fallback = "", .hint = "LIST", .usual = "no_proxy",
     .help = "names and address blocks to reach without a proxy, as "
             ".corp.example,10.0.0.0/8"},
    {FIELD(egress_ca), .kind = FILE_PATH, .fallback = "", .hint = "FILE",
     .help = "additional certificate authorities (PEM), trusted for servers that network rules "
             "send headers to"},
    {FIELD(identity_issuer), .kind = TEXT, .fallback = "", .hint = "URL",
     .help = "issuer of workload tokens; default: https://api.DOMAIN, or the address of "
             "the API"},
    {FIELD(team_sandboxes_max), .kind = COUNT, .fallback = "10000", .hint = "N",
     .help = "maximum number of sandboxes of a team; one more is answered 429"},
    {FIELD(parked_min), .kind = COUNT_OR_AUTO, .fallback = automatic, .hint = "N",
     .help =
         "parked jails (idle, kept ready) per built-in template (1 if it is restored with running "
         "processes); auto: by the host's memory and processors for base, 8 for others"},
    {FIELD(parked_max), .kind = COUNT_OR_NONE, .fallback = "128", .hint = "N",
     .help =
         "maximum number of parked jails per template, while many are created; 0: keep none ready"},
    {.name = "parked_free",
     .at = offsetof(struct config, parked_free_bytes),
     .kind = BYTES,
     .fallback = "0",
     .hint = "SIZE",
     .help =
         "keep no parked jails while less memory than this is available; 0: a tenth of the memory"},
    {FIELD(sandbox_hours_max), .kind = COUNT, .fallback = "24", .hint = "HOURS",
     .help = "maximum life of a sandbox, extensions included"},
    {FIELD(start_ready_s), .kind = COUNT, .fallback = "45", .hint = "SECONDS",
     .help = "how long a create waits for the start command of its template"},
    {FIELD(code_timeout_s), .kind = COUNT, .fallback = "300", .hint = "SECONDS",
     .help = "time limit for code of run_code and /api/code/execute"},
    {.name = "volume_size",
     .at = offsetof(struct config, volume_bytes),
     .kind = BYTES,
     .fallback = "10G",
     .hint = "SIZE",
     .help = "maximum size of a volume, as 20G"},
    {FIELD(builds_max), .kind = COUNT, .fallback = "4", .hint = "N",
     .help = "maximum number of builds at one time; further builds wait in a queue"},
    {FIELD(build_step_s), .kind = COUNT, .fallback = "3600", .hint = "SECONDS",
     .help = "time limit for one command of a build"},
    {FIELD(build_ready_s), .kind = COUNT, .fallback = "600", .hint = "SECONDS",
     .help = "how long a build waits for its ready command to succeed"},
    {FIELD(image_map), .kind = TEXT, .fallback = "", .hint = "PAIRS",
     .help =
         "templates to use in place of images, as ubuntu:*=base,node:22=mine; default: base for "
         "the versions of debian, python and node that it has; none: pull every image"},
    {FIELD(image_dir), .kind = FILE_PATH, .fallback = "", .hint = "DIR",
     .help = "directory of oci: and docker-archive: images; default: no such image may be read"},
    {FIELD(registry_mirror), .kind = TEXT, .fallback = "", .hint = "HOST",
     .help = "registry to ask instead of docker.io; for several: "
             "ghcr.io=HOST,docker.io=HOST"},
    {FIELD(registry_local), .kind = SWITCH, .fallback = "false", .hint = "true|false",
     .help = "allow registries on this machine, without TLS on loopback"},
    {FIELD(paused_days_max), .kind = COUNT, .fallback = "30", .hint = "DAYS",
     .help = "how long a sandbox may stay paused before it is removed"},
    {FIELD(pack_after_s), .kind = COUNT_OR_NONE, .fallback = "300", .hint = "SECONDS",
     .help = "delay after a pause before its memory is compressed on disk; 0: never "
             "compress"},
    {FIELD(lazy_resume_mb), .kind = COUNT_OR_NONE, .fallback = "64", .hint = "MB",
     .help = "a sandbox with more memory than this runs before its memory is read, if the "
             "kernel and CRIU can; 0: never"},
    {FIELD(merge_pages), .kind = SWITCH, .fallback = "false", .hint = "true|false",
     .help = "share equal memory pages between sandboxes; a sandbox can then detect by "
             "timing that another has a page"},
    {FIELD(bpf_figures), .kind = SWITCH, .fallback = "true", .hint = "true|false",
     .help = "make df and sysinfo() in a sandbox report its own limits, by three BPF "
             "programs, where the kernel allows it"},
    {FIELD(keeper_workers), .kind = COUNT_OR_AUTO, .fallback = "1", .hint = "N",
     .help = "processes that start and end sandboxes, for machines with many processors; 1: the "
             "keeper alone; auto: one per processor, at most 8"},
    {FIELD(webhook_allow_local), .kind = SWITCH, .fallback = "false", .hint = "true|false",
     .help = "allow webhooks to addresses of this machine"},
    {FIELD(audit_days), .kind = COUNT, .fallback = "90", .hint = "DAYS",
     .help = "how long the audit log keeps who changed what"},
    {FIELD(access_log), .kind = FILE_OR_OUTPUT, .fallback = "", .hint = "FILE",
     .help = "file for a line of JSON per request, or - for standard output; default: none"},
    {FIELD(otlp_endpoint), .kind = TEXT, .fallback = "", .hint = "URL",
     .help = "OpenTelemetry collector for traces, as http://127.0.0.1:4318; default: none"},
    {FIELD(otlp_headers), .kind = TEXT, .fallback = "", .hint = "PAIRS", .secret = true,
     .help = "headers for the collector, as Authorization=Bearer%20WORD,Name=value"},
    {FIELD(otlp_sample), .kind = TEXT, .fallback = "1", .hint = "RATIO",
     .help = "share of new traces to export, 0 to 1; a trace of the caller's keeps its own flag"},
    {FIELD(otlp_metrics), .kind = SWITCH, .fallback = "false", .hint = "true|false",
     .help = "export metrics of sandboxes and of the daemon to the collector"},
    {FIELD(otlp_logs), .kind = SWITCH, .fallback = "false", .hint = "true|false",
     .help = "export log lines of sandboxes to the collector"},
    {FIELD(log_level), .kind = LEVEL, .fallback = "info", .hint = "LEVEL",
     .help = "debug, info, warn or error"},
};

_Static_assert(countof(settings) <= CONFIG_ARGV_MAX, "config_argv() has too little room");

/* ---- a single value ---- */

static void *field_of(const struct setting *s, struct config *config)
{
    return (char *)config + s->at;
}

static int set_text(char *field, const char *value, struct err *err)
{
    if (!str_copy(field, CONFIG_TEXT_BYTES, str_of(value))) {
        return err_set(err, ENAMETOOLONG, "the value is longer than %d bytes",
                       CONFIG_TEXT_BYTES - 1);
    }
    return 0;
}

/* A relative path means the directory the program was started in, which `serve` leaves. */
static int set_path(char *field, const char *value, struct err *err)
{
    char cwd[PATH_MAX];
    char whole[2 * PATH_MAX];

    if (value[0] == '/' || value[0] == '\0') {
        return set_text(field, value, err);
    }
    if (!getcwd(cwd, sizeof(cwd))) {
        return err_sys(err, "find the working directory");
    }
    (void)snprintf(whole, sizeof(whole), "%s/%s", cwd, value);
    return set_text(field, whole, err);
}

static bool is_label(struct str label)
{
    if (label.len == 0 || label.len > DOMAIN_LABEL_MAX || label.at[0] == '-' ||
        label.at[label.len - 1] == '-') {
        return false;
    }
    for (size_t i = 0; i < label.len; i++) {
        if (!isalnum((unsigned char)label.at[i]) && label.at[i] != '-') {
            return false;
        }
    }
    return true;
}

static bool is_port(struct str text)
{
    size_t digits = 0;

    while (digits < text.len && isdigit((unsigned char)text.at[digits])) {
        digits++;
    }
    return digits > 0 && digits == text.len && strtoul(text.at, NULL, 10) <= UINT16_MAX;
}

bool config_domain_ok(struct str whole)
{
    size_t colon = str_find(whole, ':');
    struct str name = {whole.at, colon};
    struct str label;
    bool good = name.len > 0 && name.len <= DOMAIN_BYTES_MAX &&
                (colon == whole.len || is_port(str_skip(whole, colon + 1)));

    while (good && str_split(&name, '.', &label)) {
        good = is_label(label);
    }
    return good;
}

/* Empty: nobody named one. */
static int set_domain(char *field, const char *value, struct err *err)
{
    if (value[0] && !config_domain_ok(str_of(value))) {
        return err_set(err, EINVAL, "'%s' is not a domain name such as sandboxes.example.com",
                       value);
    }
    return set_text(field, value, err);
}

static int set_names(char *field, const char *value, struct err *err)
{
    if (!hosts_list_ok(str_of(value))) {
        return err_set(err, EINVAL,
                       "'%s' is not a list of names such as box.example.org,*.box.lan (without "
                       "scheme and port)",
                       value);
    }
    return set_text(field, value, err);
}

static int set_address(char *field, const char *value, struct err *err)
{
    const char *colon = strrchr(value, ':');
    char *end = NULL;

    if (value[0] == '\0') {
        return set_text(field, value, err);
    }
    if (!colon || colon == value || !isdigit((unsigned char)colon[1]) ||
        strtoul(colon + 1, &end, 10) > UINT16_MAX || *end != '\0') {
        return err_set(err, EINVAL, "'%s' is not an address with a port such as 127.0.0.1:3000",
                       value);
    }
    return set_text(field, value, err);
}

static int set_address_or_auto(char *field, const char *value, struct err *err)
{
    if (strcmp(value, automatic) == 0) {
        return set_text(field, value, err);
    }
    return set_address(field, strcmp(value, "none") == 0 ? "" : value, err);
}

static int set_number(uint64_t *field, const char *value, enum kind kind, struct err *err)
{
    static const char units[] = "KMGT";
    const uint64_t least = kind == COUNT ? 1 : 0;
    const bool is_bytes = kind == BYTES;
    char *end = NULL;
    unsigned shift = 0;

    errno = 0;
    uint64_t n = strtoull(value, &end, 10);
    if (is_bytes && *end != '\0' && strchr(units, toupper((unsigned char)*end))) {
        shift = 10 * (unsigned)(strchr(units, toupper((unsigned char)*end)) - units + 1);
        end++;
    }
    if (!isdigit((unsigned char)value[0]) || *end != '\0' || errno || n > (UINT64_MAX >> shift)) {
        return err_set(err, EINVAL,
                       is_bytes ? "'%s' is not a size such as 512M or 20G" : "'%s' is not a number",
                       value);
    }
    if (!is_bytes && (n < least || n > INT32_MAX / 1000)) {
        return err_set(err, ERANGE, "%" PRIu64 " is not between %" PRIu64 " and %d", n, least,
                       INT32_MAX / 1000);
    }
    *field = n << shift;
    return 0;
}

static int set_count_or_auto(uint64_t *field, const char *value, struct err *err)
{
    if (strcmp(value, automatic) == 0) {
        *field = CONFIG_AUTO;
        return 0;
    }
    if (!isdigit((unsigned char)value[0])) {
        return err_set(err, EINVAL, "'%s' is neither a number nor %s", value, automatic);
    }
    return set_number(field, value, COUNT_OR_NONE, err);
}

static int set_switch(bool *field, const char *value, struct err *err)
{
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
        return err_set(err, EINVAL, "'%s' is neither true nor false", value);
    }
    *field = value[0] == 't';
    return 0;
}

static int set_level(enum log_level *field, const char *value, struct err *err)
{
    if (log_level_parse(value, field) < 0) {
        return err_set(err, EINVAL, "'%s' is not one of debug, info, warn, error", value);
    }
    return 0;
}

static int set(const struct setting *s, struct config *config, const char *value, struct err *err)
{
    void *field = field_of(s, config);

    switch (s->kind) {
    case TEXT:
        return set_text(field, value, err);
    case DOMAIN:
        return set_domain(field, value, err);
    case NAMES:
        return set_names(field, value, err);
    case FILE_PATH:
        return set_path(field, value, err);
    case FILE_OR_OUTPUT:
        return (strcmp(value, "-") == 0 ? set_text : set_path)(field, value, err);
    case ADDRESS:
        return set_address(field, value, err);
    case ADDRESS_OR_AUTO:
        return set_address_or_auto(field, value, err);
    case BYTES:
    case COUNT:
    case COUNT_OR_NONE:
        return set_number(field, value, s->kind, err);
    case COUNT_OR_AUTO:
        return set_count_or_auto(field, value, err);
    case SWITCH:
        return set_switch(field, value, err);
    case LEVEL:
        return set_level(field, value, err);
    }
    abort();
}

/* As set(), with the place the value came from before the sentence. */
static int set_from(const char *source, const struct setting *s, struct config *config,
                    const char *value, struct err *err)
{
    int r = set(s, config, value, err);

    return r < 0 ? err_wrap(err, "%s", source) : 0;
}

/* ---- names ---- */

static void flag_name(const struct setting *s, char out[NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "--%s", s->name);
    for (char *p = out; *p; p++) {
        if (*p == '_') {
            *p = '-';
        }
    }
}

static void variable_name(const struct setting *s, char out[NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "ATOLL_%s", s->name);
    for (char *p = out; *p; p++) {
        *p = (char)toupper((unsigned char)*p);
    }
}

static const struct setting *setting_by_flag(struct str flag)
{
    char name[NAME_BYTES];

    for (size_t i = 0; i < countof(settings); i++) {
        flag_name(&settings[i], name);
        if (str_eq(str_of(name), flag)) {
            return &settings[i];
        }
    }
    return NULL;
}

static const struct setting *setting_by_name(struct str name)
{
    for (size_t i = 0; i < countof(settings); i++) {
        if (str_eq(str_of(settings[i].name), name)) {
            return &settings[i];
        }
    }
    return NULL;
}

/* ---- the sources, from the weakest ---- */

/* Spelled in lower or upper case, as with curl. */
static const char *usual_value(const struct setting *s)
{
    char name[NAME_BYTES] = "";
    const char *value = s->usual ? getenv(s->usual) : NULL;

    for (size_t i = 0; s->usual && s->usual[i] && i < sizeof(name) - 1; i++) {
        name[i] = (char)toupper((unsigned char)s->usual[i]);
    }
    return value ? value : s->usual ? getenv(name) : NULL;
}

static bool is_usual(const struct setting *s, struct str name)
{
    return s->usual && strlen(s->usual) == name.len &&
           strncasecmp(s->usual, name.at, name.len) == 0;
}

bool config_has_variable(struct str name)
{
    char own[NAME_BYTES];

    for (size_t i = 0; i < countof(settings); i++) {
        variable_name(&settings[i], own);
        if (str_eq(str_of(own), name) || is_usual(&settings[i], name)) {
            return true;
        }
    }
    return str_eq(STR("ATOLL_CONFIG"), name);
}

static int load_defaults(struct config *config, struct err *err)
{
    for (size_t i = 0; i < countof(settings); i++) {
        const char *usual = usual_value(&settings[i]);
        int r = set(&settings[i], config, usual ? usual : settings[i].fallback, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int load_line(struct config *config, const char *source, struct str line, struct err *err)
{
    char value[LINE_BYTES_MAX];

    line = str_trim(line);
    if (line.len == 0 || line.at[0] == '#') {
        return 0;
    }
    size_t equals = str_find(line, '=');
    struct str name = str_trim((struct str){line.at, equals});
    if (equals == line.len) {
        return err_set(err, EINVAL, "%s: expected a line 'name = value'", source);
    }
    const struct setting *s = setting_by_name(name);
    if (!s) {
        return err_set(err, EINVAL, "%s: there is no setting '%.*s'", source, (int)name.len,
                       name.at);
    }
    if (!str_copy(value, sizeof(value), str_trim(str_skip(line, equals + 1)))) {
        return err_set(err, EINVAL, "%s: the value of '%s' contains a NUL byte", source, s->name);
    }
    return set_from(source, s, config, value, err);
}

static void filep_close(FILE **file)
{
    if (*file) {
        (void)fclose(*file);
    }
}

static int load_file(struct config *config, const char *path, bool named, struct err *err)
{
    char line[LINE_BYTES_MAX];
    char source[SOURCE_BYTES];
    int r = 0;

    scoped(filep_close) FILE *file = fopen(path, "re");
    if (!file) {
        return errno == ENOENT && !named ? 0 : err_sys(err, "read %s", path);
    }
    for (int number = 1; r == 0 && fgets(line, sizeof(line), file); number++) {
        (void)snprintf(source, sizeof(source), "%s:%d", path, number);
        size_t len = strlen(line);
        if (len == sizeof(line) - 1) {
            return err_set(err, EINVAL, "%s: the line is too long", source);
        }
        if (len && line[len - 1] == '\n') {
            len--;
        }
        r = load_line(config, source, (struct str){line, len}, err);
    }
    return r;
}

static int load_environment(struct config *config, struct err *err)
{
    char name[NAME_BYTES];

    for (size_t i = 0; i < countof(settings); i++) {
        variable_name(&settings[i], name);
        const char *value = getenv(name);
        int r = value ? set_from(name, &settings[i], config, value, err) : 0;
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* ---- flags ---- */

struct flag {
    struct str name; /* "--listen" */
    const char *value;
};

/* Reads the flag at argv[*i] and its value, and moves *i to the last word used. */
static int flag_next(int argc, char **argv, int *i, struct flag *out, struct err *err)
{
    struct str word = str_of(argv[*i]);
    size_t equals = str_find(word, '=');

    out->name = (struct str){word.at, equals};
    if (!setting_by_flag(out->name) && !str_eq(out->name, STR("--config"))) {
        return err_set(err, EINVAL, "there is no flag '%.*s'", (int)equals, word.at);
    }
    if (equals < word.len) {
        out->value = word.at + equals + 1;
    } else if (*i + 1 < argc) {
        out->value = argv[++*i];
    } else {
        return err_set(err, EINVAL, "flag %s needs a value", word.at);
    }
    return 0;
}

/* Calls for each flag; `config` NULL: only looks for --config. Gathers the other words in front. */
static int load_flags(struct config *config, int argc, char **argv, const char **file, int *words_n,
                      struct err *err)
{
    struct flag flag = {.value = NULL};

    *words_n = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            if (config) {
                argv[1 + *words_n] = argv[i];
            }
            ++*words_n;
            continue;
        }
        int r = flag_next(argc, argv, &i, &flag, err);
        if (r < 0) {
            return r;
        }
        const struct setting *s = setting_by_flag(flag.name);
        if (!s) {
            *file = flag.value;
        } else if (config) {
            char source[NAME_BYTES];
            flag_name(s, source);
            r = set_from(source, s, config, flag.value, err);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int check_whole(const struct config *config, struct err *err)
{
    if (!config->tls_cert[0] != !config->tls_key[0]) {
        return err_set(err, EINVAL, "tls_cert and tls_key need each other");
    }
    if (!config->tls_listen[0] && (config->tls_cert[0] || config->tls_key[0])) {
        return err_set(err, EINVAL, "tls_cert and tls_key need tls_listen");
    }
    if (!config->listen[0] || !config->data[0] || !config->cache[0] || !config->user[0]) {
        return err_set(err, EINVAL, "listen, data, cache and user may not be empty");
    }
    return 0;
}

int config_load(struct config *config, int argc, char **argv, int *words_n, struct err *err)
{
    const char *file = getenv("ATOLL_CONFIG");

    *config = (struct config){0};
    int r = load_flags(NULL, argc, argv, &file, words_n, err);
    if (r == 0) {
        r = load_defaults(config, err);
    }
    if (r == 0) {
        r = load_file(config, file ? file : CONFIG_FILE, file != NULL, err);
    }
    if (r == 0) {
        r = load_environment(config, err);
    }
    if (r == 0) {
        r = load_flags(config, argc, argv, &file, words_n, err);
    }
    return r == 0 ? check_whole(config, err) : r;
}

/* ---- out again ---- */

bool config_flag_at(size_t i, char name[CONFIG_FLAG_BYTES], const char **value)
{
    if (i == countof(settings)) {
        (void)snprintf(name, CONFIG_FLAG_BYTES, "--config");
        *value = "FILE";
        return true;
    }
    if (i > countof(settings)) {
        return false;
    }
    flag_name(&settings[i], name);
    *value = settings[i].hint;
    return true;
}

bool config_has_flag(struct str name)
{
    return setting_by_flag(name) || str_eq(name, STR("--config"));
}

void config_help(FILE *out)
{
    char flag[NAME_BYTES];
    char left[2 * NAME_BYTES];

    for (size_t i = 0; i < countof(settings); i++) {
        const struct setting *s = &settings[i];
        flag_name(s, flag);
        (void)snprintf(left, sizeof(left), "%s %s", flag, s->hint);
        (void)fprintf(out, "  %-32s %s", left, s->help);
        (void)fprintf(out, s->fallback[0] ? " [%s]\n" : "\n", s->fallback);
    }
    (void)fprintf(out, "  %-32s %s [%s]\n", "--config FILE", "configuration file", CONFIG_FILE);
}

static void number_text(uint64_t n, char *out, size_t size)
{
    if (n == CONFIG_AUTO) {
        (void)snprintf(out, size, "%s", automatic);
    } else {
        (void)snprintf(out, size, "%" PRIu64, n);
    }
}

static void value_text(const struct setting *s, const struct config *config, char *out, size_t size)
{
    const char *field = (const char *)config + s->at;

    switch (s->kind) {
    case TEXT:
    case DOMAIN:
    case NAMES:
    case ADDRESS:
    case ADDRESS_OR_AUTO:
    case FILE_PATH:
    case FILE_OR_OUTPUT:
        (void)snprintf(out, size, "%s", field);
        return;
    case BYTES:
    case COUNT:
    case COUNT_OR_NONE:
    case COUNT_OR_AUTO:
        number_text(*(const uint64_t *)(const void *)field, out, size);
        return;
    case SWITCH:
        (void)snprintf(out, size, "%s", *(const bool *)(const void *)field ? "true" : "false");
        return;
    case LEVEL:
        (void)snprintf(out, size, "%s",
                       log_level_name(*(const enum log_level *)(const void *)field));
        return;
    }
}

int config_argv(const struct config *config, char **argv)
{
    char value[CONFIG_TEXT_BYTES];
    char flag[NAME_BYTES];
    int n = 0;

    for (size_t i = 0; i < countof(settings); i++) {
        flag_name(&settings[i], flag);
        value_text(&settings[i], config, value, sizeof(value));
        if (settings[i].secret) {
            variable_name(&settings[i], flag);
            (void)setenv(flag, value, 1); /* those that are started inherit it */
            continue;
        }
        argv[n] = NULL;
        if (asprintf(&argv[n++], "%s=%s", flag, value) < 0) {
            abort();
        }
    }
    return n;
}

void config_argv_free(char **argv, int n)
{
    for (int i = 0; i < n; i++) {
        free(argv[i]);
    }
}
