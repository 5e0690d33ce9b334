/* env.h - the environment of one process, ready for exec. */
#ifndef AGENT_ENV_H
#define AGENT_ENV_H

#include "inside/agent/internal.h"
#include "process.pb-c.h"

struct env {
    char **vars; /* "NAME=value", ended by NULL */
    size_t n;
};

must_check int env_make(const struct agent *agent, const struct user *user,
                        const Process__ProcessConfig *config, struct env *out, struct err *err);
void env_fini(struct env *env);
#define scoped_env scoped(env_fini) struct env

#endif
