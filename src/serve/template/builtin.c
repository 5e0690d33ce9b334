#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/id.h"
#include "lib/base/text.h"
#include "serve/template/internal.h"

static const char *or_text(const char *text, const char *otherwise)
{
    return text ? text : otherwise;
}

/* Compares how a sandbox starts; its limits do not count. */
static bool begins_as(const struct template *t, const struct template_builtin *what)
{
    return text_same(t->layers, what->layers) && text_same(t->start_cmd, what->start_cmd) &&
           text_same(t->ready_cmd, what->ready_cmd) &&
           text_same(t->user, or_text(what->user, "user")) &&
           text_same(t->workdir, or_text(what->workdir, "")) &&
           text_same(t->env_json, or_text(what->env_json, "{}"));
}

bool entry_is(const struct entry *entry, const struct template_builtin *what)
{
    const struct template *t = &entry->t;

    return begins_as(t, what) && t->cpu_count == what->cpu_count &&
           t->memory_mb == what->memory_mb && t->disk_mb == what->disk_mb;
}

void entry_become(struct entry *entry, const struct template_builtin *what)
{
    struct template *t = &entry->t;
    char build_id[ID_UUID_LEN + 1];

    if (!begins_as(t, what)) {
        id_uuid(build_id);
        text_set(&t->build_id, build_id);
        text_set(&t->layers, what->layers);
        text_set(&t->user, or_text(what->user, "user"));
        text_set(&t->workdir, or_text(what->workdir, ""));
        text_set(&t->env_json, or_text(what->env_json, "{}"));
        text_set(&t->start_cmd, what->start_cmd);
        text_set(&t->ready_cmd, what->ready_cmd);
    }
    /* The save has the old limits, so it is of no use. */
    text_set(&t->saved, NULL);
    t->cpu_count = what->cpu_count;
    t->memory_mb = what->memory_mb;
    t->disk_mb = what->disk_mb;
}

struct awaited *awaited_new(const char *alias, const char *sentence)
{
    struct awaited *awaited = xnew(struct awaited);

    awaited->alias = xstrdup(alias);
    awaited->sentence = xstrdup(sentence);
    return awaited;
}

void awaited_free(struct awaited *awaited)
{
    free(awaited->alias);
    free(awaited->sentence);
    free(awaited);
}
