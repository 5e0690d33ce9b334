/* env.c - the environment of processes: the agent's own variables, then those of /init, then those
 * of the request; the last one wins. */
#include "inside/agent/env.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static int name_check(const char *name, struct err *err)
{
    if (name[0] == '\0' || strchr(name, '=')) {
        return err_set(err, EINVAL, "'%.64s' cannot be the name of an environment variable", name);
    }
    return 0;
}

static struct agent_env *env_find(const struct agent *agent, const char *name)
{
    for (size_t i = 0; i < agent->envs_n; i++) {
        if (strcmp(agent->envs[i].name, name) == 0) {
            return &agent->envs[i];
        }
    }
    return NULL;
}

/* The texts are stored in an array that grows, where the analyzer loses sight of them. */
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

static struct agent_env *env_append(struct agent *agent, const char *name)
{
    size_t bytes = (agent->envs_n + 1) * sizeof(*agent->envs);
    struct agent_env *envs = realloc(agent->envs, bytes);

    if (!envs) {
        abort();
    }
    agent->envs = envs;
    envs[agent->envs_n] = (struct agent_env){.name = xstrdup(name)};
    return &envs[agent->envs_n++];
}

int agent_env_set(struct agent *agent, const char *name, const char *value, struct err *err)
{
    struct agent_env *env = env_find(agent, name);
    size_t freed = env ? strlen(env->value) : 0;
    size_t bytes = strlen(value) + (env ? 0 : strlen(name) + 2);

    if (name_check(name, err) < 0) {
        return -err->code;
    }
    if (agent->env_bytes - freed + bytes > AGENT_ENV_BYTES_MAX ||
        (!env && agent->envs_n == AGENT_ENVS_MAX)) {
        return err_set(err, ENOBUFS, "there are too many environment variables");
    }
    if (!env) {
        env = env_append(agent, name);
    }
    agent->env_bytes += bytes - freed;
    free(env->value);
    env->value = xstrdup(value);
    return 0;
}

#pragma GCC diagnostic pop

void agent_env_clear(struct agent *agent)
{
    for (size_t i = 0; i < agent->envs_n; i++) {
        free(agent->envs[i].name);
        free(agent->envs[i].value);
    }
    free(agent->envs);
    agent->envs = NULL;
    agent->envs_n = agent->env_bytes = 0;
}

void env_fini(struct env *env)
{
    for (size_t i = 0; i < env->n; i++) {
        free(env->vars[i]);
    }
    free(env->vars);
    *env = (struct env){0};
}

/* The place of a variable in the list, or the end of the list. */
static size_t place_of(const struct env *env, const char *name)
{
    assert(name); /* name_check() has refused a variable without one */
    size_t len = strlen(name);
    size_t i = 0;

    while (i < env->n && (strncmp(env->vars[i], name, len) != 0 || env->vars[i][len] != '=')) {
        i++;
    }
    return i;
}

static void put(struct env *env, const char *name, const char *value)
{
    size_t i = place_of(env, name);
    char *var = NULL;

    if (asprintf(&var, "%s=%s", name, value) < 0) {
        abort();
    }
    free(env->vars[i]); /* NULL at the end of the list */
    env->vars[i] = var;
    env->n += i == env->n;
}

int env_make(const struct agent *agent, const struct user *user,
             const Process__ProcessConfig *config, struct env *out, struct err *err)
{
    enum { OWN_VARS = 5 };

    if (config->n_envs > AGENT_ENVS_MAX) {
        return err_set(err, EINVAL, "a process may have at most %d environment variables",
                       AGENT_ENVS_MAX);
    }
    for (size_t i = 0; i < config->n_envs; i++) {
        if (name_check(config->envs[i]->key ? config->envs[i]->key : "", err) < 0) {
            return -err->code;
        }
    }
    struct env env = {
        .vars = xcalloc(OWN_VARS + agent->envs_n + config->n_envs + 1, sizeof(*env.vars))};
    put(&env, "PATH", default_path);
    put(&env, "HOME", user->home);
    put(&env, "USER", user->name);
    put(&env, "LOGNAME", user->name);
    put(&env, "SHELL", user->shell);
    for (size_t i = 0; i < agent->envs_n; i++) {
        put(&env, agent->envs[i].name, agent->envs[i].value);
    }
    for (size_t i = 0; i < config->n_envs; i++) {
        put(&env, config->envs[i]->key, config->envs[i]->value ? config->envs[i]->value : "");
    }
    *out = env;
    return 0;
}
