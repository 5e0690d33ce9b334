/* config.h - the settings: each is a flag, a variable ATOLL_* and a line of the configuration file,
 * in that order of precedence, and has a default.
 *
 * A table in config.c drives all of them and the help text. A setting `tls_cert` is the flag
 * --tls-cert, the variable ATOLL_TLS_CERT and the line "tls_cert = /path". An unknown setting or a
 * bad value is refused with a sentence that names its place.
 */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define CONFIG_FILE "/etc/atoll/atoll.conf"
#define CONFIG_DATA "/var/lib/atoll"

enum { CONFIG_TEXT_BYTES = 1024 }; /* of any one value */

#define CONFIG_AUTO UINT64_MAX  /* a number that the host decides */
#define CONFIG_AUTO_TEXT "auto" /* of a setting that is settled when the daemon starts */

struct config { /* paths are absolute, or empty where that has a meaning */
    char listen[CONFIG_TEXT_BYTES];
    char tls_listen[CONFIG_TEXT_BYTES]; /* empty: no TLS; CONFIG_AUTO_TEXT until it is settled */
    char tls_cert[CONFIG_TEXT_BYTES];
    char tls_key[CONFIG_TEXT_BYTES];
    char domain[CONFIG_TEXT_BYTES];        /* as the operator has named it; empty: not at all */
    char domain_served[CONFIG_TEXT_BYTES]; /* no setting: what clients are told (tls_address.h) */
    char allowed_hosts[CONFIG_TEXT_BYTES]; /* names, separated by commas: lib/http/hosts.h */
    char data[CONFIG_TEXT_BYTES];
    char cache[CONFIG_TEXT_BYTES];
    char templates[CONFIG_TEXT_BYTES];      /* empty: beside the program */
    char with_templates[CONFIG_TEXT_BYTES]; /* names, separated by commas, or "none" */
    char agent[CONFIG_TEXT_BYTES];          /* empty: beside the program */
    char user[CONFIG_TEXT_BYTES];
    char egress_allow[CONFIG_TEXT_BYTES]; /* lists, separated by commas */
    char egress_map[CONFIG_TEXT_BYTES];
    char http_proxy[CONFIG_TEXT_BYTES]; /* URLs; empty: none */
    char https_proxy[CONFIG_TEXT_BYTES];
    char no_proxy[CONFIG_TEXT_BYTES];
    char egress_dns[CONFIG_TEXT_BYTES];      /* empty: the host's resolvers */
    char egress_ca[CONFIG_TEXT_BYTES];       /* empty: the host's authorities alone */
    char identity_issuer[CONFIG_TEXT_BYTES]; /* empty: where the API is served */
    uint64_t pool_bytes;                     /* 0: by what is free */
    uint64_t connections_max;
    uint64_t sandbox_connections_max;
    uint64_t header_timeout_s;
    uint64_t idle_timeout_s;
    uint64_t team_sandboxes_max;
    uint64_t parked_min; /* or CONFIG_AUTO */
    uint64_t parked_max;
    uint64_t parked_free_bytes; /* 0: a tenth of the memory */
    uint64_t volume_bytes;
    uint64_t builds_max;
    uint64_t build_step_s;
    uint64_t build_ready_s;
    uint64_t start_ready_s;
    uint64_t sandbox_hours_max;
    uint64_t code_timeout_s;
    char image_map[CONFIG_TEXT_BYTES]; /* empty: the default */
    char image_dir[CONFIG_TEXT_BYTES];
    char registry_mirror[CONFIG_TEXT_BYTES];
    bool registry_local;
    uint64_t paused_days_max;
    uint64_t pack_after_s;
    uint64_t lazy_resume_mb;
    bool merge_pages;
    bool bpf_figures;
    uint64_t keeper_workers; /* or CONFIG_AUTO */
    bool webhook_allow_local;
    uint64_t audit_days;
    char access_log[CONFIG_TEXT_BYTES];    /* "-": standard output; empty: none */
    char otlp_endpoint[CONFIG_TEXT_BYTES]; /* empty: none */
    char otlp_headers[CONFIG_TEXT_BYTES];
    char otlp_sample[CONFIG_TEXT_BYTES];
    bool otlp_metrics;
    bool otlp_logs;
    enum log_level log_level;
};

/* Reads defaults, file, environment and the flags in argv[1..]; words that are no flags are moved
 * to the front of argv[1..] and counted in *words_n. */
must_check int config_load(struct config *config, int argc, char **argv, int *words_n,
                           struct err *err);

/* Whether that is a host name as DNS has it, perhaps with the port that clients see it on. */
bool config_domain_ok(struct str whole);

/* The table, as a list of flags with defaults. */
void config_help(FILE *out);

/* The flag of the setting with that number, and its value as help names it; false when there are no
 * more. --config is one of them. */
enum { CONFIG_FLAG_BYTES = 64 };
bool config_flag_at(size_t i, char name[CONFIG_FLAG_BYTES], const char **value);

/* Whether that is the flag of a setting. */
bool config_has_flag(struct str name);

/* Whether an environment variable of that name is a setting. */
bool config_has_variable(struct str name);

/* The settings as flags that make another program of ours read the same: argv must have room for
 * CONFIG_ARGV_MAX. Returns their number; config_argv_free() frees them. */
enum { CONFIG_ARGV_MAX = 64 };
int config_argv(const struct config *config, char **argv);
void config_argv_free(char **argv, int n);

#endif
