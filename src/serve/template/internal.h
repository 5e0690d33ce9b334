/* internal.h - the entries of the table of templates (entry.c and builtin.c make and free it). */
#ifndef TEMPLATE_INTERNAL_H
#define TEMPLATE_INTERNAL_H

#include "serve/store/mirror.h"
#include "serve/template/name.h"
#include "serve/template/template.h"

/* A tag, and what it names. The tag `default` of a template is its entry's own `t` as well. */
struct tagged {
    struct tagged *prev, *next;
    char tag[TEMPLATE_NAME_MAX + 1];
    int64_t created_ms;
    struct template t;
};

struct entry {
    struct template t;   /* layers "": nothing has the tag `default` */
    struct tagged *tags; /* oldest first; none of a built-in one */
    struct mirrored as;
};

/* A team and the namespace that its name gives it. */
struct owner {
    char *id;
    char space[TEMPLATE_NAME_MAX + 1]; /* "": the name cannot stand before a '/' */
    struct owner *next;
};

/* A built-in template that is still being made. */
struct awaited {
    char *alias;
    char *sentence;
    struct awaited *next;
};

struct entry *entry_from_row(const struct template_row *row);
struct entry *entry_builtin(const char *alias);             /* without layers yet */
struct template_row template_row(const struct template *t); /* borrows from it */
bool entry_is(const struct entry *entry, const struct template_builtin *what);
void entry_become(struct entry *entry, const struct template_builtin *what);
void entry_free(struct entry *entry);
struct entry *entry_new(const char *team_id, const char *alias, uint32_t cpu_count,
                        uint32_t memory_mb, uint32_t disk_mb); /* not built yet */

/* Fills t with the result of the build. */
void entry_take_build(struct template *t, const struct build_row *build);
struct tagged *entry_tagged(const struct entry *entry, const char *tag); /* NULL: no such tag */
/* A tag that names that build; NULL: none does. */
struct tagged *entry_built(const struct entry *entry, const char *build_id);
struct tagged *entry_tag(struct entry *entry, const char *tag, int64_t created_ms,
                         const struct build_row *build);
void entry_untag(struct entry *entry, struct tagged *tagged);

struct owner *owner_new(const char *id);
void owner_free(struct owner *owner);

struct awaited *awaited_new(const char *alias, const char *sentence);
void awaited_free(struct awaited *awaited);

#endif
