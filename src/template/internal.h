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

struct entry *entry_from_row(const struct template_row *row);
struct entry *entry_builtin(const char *alias);                 /* without layers yet */
struct template_row template_row(const struct template *t);     /* borrows from it */
void entry_set_layers(struct entry *entry, const char *layers); /* a new build */
void entry_free(struct entry *entry);

struct owner *owner_new(const char *id);
void owner_free(struct owner *owner);

#endif
