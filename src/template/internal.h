/* internal.h - what the table of templates holds (entry.c makes and frees it). */
#ifndef TEMPLATE_INTERNAL_H
#define TEMPLATE_INTERNAL_H

#include "base/table.h"
#include "template/name.h"
#include "template/template.h"

struct entry {
    struct template t;
    UT_hash_handle hh; /* by id */
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
struct entry *entry_builtin(const char *alias);           /* without layers yet */
struct template_row entry_row(const struct entry *entry); /* borrows from entry */
bool entry_is(const struct entry *entry, const struct template_builtin *what);
void entry_become(struct entry *entry, const struct template_builtin *what);
void entry_free(struct entry *entry);

struct owner *owner_new(const char *id);
void owner_free(struct owner *owner);

struct awaited *awaited_new(const char *alias, const char *sentence);
void awaited_free(struct awaited *awaited);

/* NULL is like nothing but NULL. */
bool text_same(const char *a, const char *b);

#endif
