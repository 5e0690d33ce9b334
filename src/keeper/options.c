/* options.c - the keeper's options as the words of its command line. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/keeper.h"

enum {
    WORD_NAME,
    WORD_COMMAND,
    WORD_SOCKET,
    WORD_POOL,
    WORD_AGENT,
    WORD_INSTANCE,
    WORD_UID,
    WORD_GID,
    WORD_LOG_LEVEL,
    WORD_LOCK,
    WORD_MERGE_PAGES,
    WORD_BPF_FIGURES,
    WORD_WORKERS,
    WORD_LAZY_MB,
    WORDS,
    NUMBER_BYTES = 16,
};

static char *plain(const char *text)
{
    return (char *)(uintptr_t)text; /* execv() does not change them */
}

int keeper_options_exec(const char *program, const struct keeper_options *options, struct err *err)
{
    char uid[NUMBER_BYTES], gid[NUMBER_BYTES], level[NUMBER_BYTES], lock[NUMBER_BYTES];
    char workers[NUMBER_BYTES], lazy_mb[NUMBER_BYTES];
    char *words[WORDS + 1] = {
        [WORD_NAME] = plain("atoll"),
        [WORD_COMMAND] = plain("keeper"), /* shown by ps */
        [WORD_SOCKET] = plain(options->socket_path),
        [WORD_POOL] = plain(options->pool_path),
        [WORD_AGENT] = plain(options->agent_path),
        [WORD_INSTANCE] = plain(options->instance),
        [WORD_UID] = uid,
        [WORD_GID] = gid,
        [WORD_LOG_LEVEL] = level,
        [WORD_LOCK] = lock,
        [WORD_MERGE_PAGES] = plain(options->merge_pages ? "1" : "0"),
        [WORD_BPF_FIGURES] = plain(options->bpf_figures ? "1" : "0"),
        [WORD_WORKERS] = workers,
        [WORD_LAZY_MB] = lazy_mb,
    };

    (void)snprintf(uid, sizeof(uid), "%" PRIu32, options->client_uid);
    (void)snprintf(gid, sizeof(gid), "%" PRIu32, options->client_gid);
    (void)snprintf(level, sizeof(level), "%d", (int)options->log_level);
    (void)snprintf(lock, sizeof(lock), "%d", options->lock_fd);
    (void)snprintf(workers, sizeof(workers), "%" PRIu32, options->workers);
    (void)snprintf(lazy_mb, sizeof(lazy_mb), "%" PRIu32, options->lazy_mb);
    if (fcntl(options->lock_fd, F_SETFD, 0) < 0) {
        return err_sys(err, "hand over the lock");
    }
    (void)execv(program, words);
    return err_sys(err, "run %s", program);
}

static bool number_read(const char *text, uint32_t most, uint32_t *out)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);

    *out = (uint32_t)value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value <= most;
}

int keeper_options_read(int words_n, char **words, struct keeper_options *out, struct err *err)
{
    uint32_t level = 0, lock = 0, merge_pages = 0, bpf_figures = 0;

    *out = (struct keeper_options){0}; /* defaults */
    if (words_n != WORDS || !number_read(words[WORD_UID], UINT32_MAX, &out->client_uid) ||
        !number_read(words[WORD_GID], UINT32_MAX, &out->client_gid) ||
        !number_read(words[WORD_LOG_LEVEL], LOG_ERROR, &level) ||
        !number_read(words[WORD_LOCK], INT32_MAX, &lock) ||
        !number_read(words[WORD_MERGE_PAGES], true, &merge_pages) ||
        !number_read(words[WORD_BPF_FIGURES], true, &bpf_figures) ||
        !number_read(words[WORD_WORKERS], UINT32_MAX, &out->workers) ||
        !number_read(words[WORD_LAZY_MB], UINT32_MAX, &out->lazy_mb)) {
        return err_set(err, EINVAL, "this is started by `atoll keeper`");
    }
    out->socket_path = words[WORD_SOCKET];
    out->pool_path = words[WORD_POOL];
    out->agent_path = words[WORD_AGENT];
    out->instance = words[WORD_INSTANCE];
    out->log_level = (enum log_level)level;
    out->lock_fd = (int)lock;
    out->merge_pages = merge_pages;
    out->bpf_figures = bpf_figures;
    return 0;
}
