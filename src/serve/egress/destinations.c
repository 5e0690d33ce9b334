#include "serve/egress/destinations.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/table.h"

enum { NAMES_FIRST = 8 };

struct key { /* compared as bytes, so it has no padding; the texts follow it, each with a NUL */
    uint8_t verdict, has_address;
    uint16_t port;
    struct address address;
    uint16_t rule_at; /* the host is at 0 */
};
_Static_assert(sizeof(struct key) == 22, "no padding");

struct entry {
    struct destination shown;
    uint32_t refs;
    struct entry *prev, *next; /* oldest first; the table's */
    UT_hash_handle hh;
    size_t key_len;
    struct key key;
    char texts[];
};

struct named {
    struct address address;
    char *name;
};

struct destinations {
    uint32_t refs;
    struct entry *by_key;
    struct entry *order;
    size_t n;
    uint64_t dropped;
    struct named *names;
    size_t names_n, names_cap, names_next;
};

/* ---- life ---- */

struct destinations *destinations_new(void)
{
    struct destinations *all = xnew(struct destinations);

    all->refs = 1;
    return all;
}

struct destinations *destinations_hold(struct destinations *all)
{
    all->refs++;
    return all;
}

static struct entry *entry_of(struct destination *one)
{
    return container_of(one, struct entry, shown);
}

struct destination *destination_hold(struct destination *one)
{
    entry_of(one)->refs++;
    return one;
}

void destination_release(struct destination *one)
{
    if (one && --entry_of(one)->refs == 0) {
        free(entry_of(one));
    }
}

static void entry_drop(struct destinations *all, struct entry *entry)
{
    HASH_DEL(all->by_key, entry);
    DL_DELETE(all->order, entry);
    all->n--;
    destination_release(&entry->shown);
}

void destinations_release(struct destinations *all)
{
    if (!all || --all->refs > 0) {
        return;
    }
    while (all->order) {
        entry_drop(all, all->order);
    }
    for (size_t i = 0; i < all->names_n; i++) {
        free(all->names[i].name);
    }
    free(all->names);
    free(all);
}

/* ---- names of addresses ---- */

static struct named *named_find(const struct destinations *all, const struct address *address)
{
    for (size_t i = 0; i < all->names_n; i++) {
        if (address_eq(&all->names[i].address, address)) {
            return &all->names[i];
        }
    }
    return NULL;
}

static struct named *named_new(struct destinations *all)
{
    if (all->names_n == DESTINATION_NAMES_MAX) {
        return &all->names[all->names_next++ % DESTINATION_NAMES_MAX];
    }
    if (all->names_n == all->names_cap) {
        all->names_cap = all->names_cap ? 2 * all->names_cap : NAMES_FIRST;
        all->names = reallocarray(all->names, all->names_cap, sizeof(struct named));
        if (!all->names) {
            abort();
        }
    }
    struct named *named = &all->names[all->names_n++];
    *named = (struct named){0};
    return named;
}

void destinations_name(struct destinations *all, const struct address *address, const char *name)
{
    struct named *named = named_find(all, address);

    named = named ? named : named_new(all);
    named->address = *address;
    free(named->name);
    named->name = xstrdup(name);
}

/* ---- entries ---- */

static bool is_of_host(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == ':';
}

static size_t host_copy(char *out, struct str host)
{
    size_t n = host.len < DESTINATION_HOST_BYTES - 1 ? host.len : DESTINATION_HOST_BYTES - 1;

    for (size_t i = 0; i < n; i++) {
        out[i] = (char)(is_of_host(host.at[i]) ? host.at[i] : '?');
    }
    out[n] = '\0';
    return n + 1;
}

static struct str host_of(const struct destinations *all, const struct destination_seen *seen)
{
    const struct named *named =
        seen->to && !seen->no_address ? named_find(all, &seen->to->address) : NULL;

    return seen->host.len == 0 && named ? str_of(named->name) : seen->host;
}

/* With room for the longest texts. */
struct draft {
    struct key key;
    char texts[DESTINATION_HOST_BYTES + DESTINATION_RULE_BYTES];
};

static size_t draft_make(struct draft *draft, const struct destinations *all,
                         const struct destination_seen *seen)
{
    *draft = (struct draft){.key.verdict = (uint8_t)seen->verdict};
    if (seen->to) {
        draft->key.port = seen->to->port;
    }
    if (seen->to && !seen->no_address) {
        draft->key.has_address = 1;
        draft->key.address = seen->to->address;
    }
    size_t at = host_copy(draft->texts, host_of(all, seen));
    draft->key.rule_at = (uint16_t)at;
    size_t rule = strnlen(seen->rule, DESTINATION_RULE_BYTES - 1);
    memcpy(draft->texts + at, seen->rule, rule);
    return at + rule + 1;
}

static struct entry *entry_new(struct destinations *all, const struct draft *draft, size_t texts)
{
    struct entry *entry = xcalloc(1, sizeof(struct entry) + texts);

    if (all->n == DESTINATIONS_MAX) {
        entry_drop(all, all->order);
        all->dropped++;
    }
    entry->refs = 1;
    entry->key = draft->key;
    memcpy(entry->texts, draft->texts, texts);
    entry->key_len = sizeof(struct key) + texts;
    HASH_ADD(hh, all->by_key, key, entry->key_len, entry);
    DL_APPEND(all->order, entry);
    all->n++;
    return entry;
}

struct destination *destinations_note(struct destinations *all, const struct destination_seen *seen,
                                      int64_t now_ms)
{
    struct draft draft;
    struct entry *entry = NULL;
    size_t texts = draft_make(&draft, all, seen);

    HASH_FIND(hh, all->by_key, &draft.key, sizeof(struct key) + texts, entry);
    if (!entry) {
        entry = entry_new(all, &draft, texts);
        entry->shown.first_ms = now_ms;
    } else {
        DL_DELETE(all->order, entry); /* the newest is last */
        DL_APPEND(all->order, entry);
    }
    entry->shown.count++;
    entry->shown.last_ms = now_ms;
    return &entry->shown;
}

/* ---- out ---- */

static json_t *stamp(int64_t wall_ms)
{
    char text[CLOCK_STAMP_BYTES];

    clock_stamp(wall_ms, text);
    return json_string(text);
}

static json_t *entry_json(const struct entry *entry)
{
    static const char *const verdicts[] = {"reached", "refused", "failed"};
    const struct destination *shown = &entry->shown;
    const char *rule = entry->texts + entry->key.rule_at;
    char address[ADDRESS_TEXT_BYTES];
    json_t *out = json_object();

    (void)json_object_set_new(out, "host",
                              entry->texts[0] ? json_string(entry->texts) : json_null());
    address_text(&entry->key.address, address);
    (void)json_object_set_new(out, "address",
                              entry->key.has_address ? json_string(address) : json_null());
    (void)json_object_set_new(out, "port",
                              entry->key.port ? json_integer(entry->key.port) : json_null());
    (void)json_object_set_new(out, "verdict", json_string(verdicts[entry->key.verdict]));
    (void)json_object_set_new(out, "rule", rule[0] ? json_sentence(rule) : json_null());
    (void)json_object_set_new(out, "count", json_integer((json_int_t)shown->count));
    (void)json_object_set_new(out, "bytesSent", json_integer((json_int_t)shown->bytes_out));
    (void)json_object_set_new(out, "bytesReceived", json_integer((json_int_t)shown->bytes_in));
    (void)json_object_set_new(out, "firstAt", stamp(shown->first_ms));
    (void)json_object_set_new(out, "lastAt", stamp(shown->last_ms));
    return out;
}

json_t *destinations_json(const struct destinations *all)
{
    json_t *list = json_array();
    const struct entry *entry;

    if (all) {
        DL_FOREACH (all->order, entry) {
            (void)json_array_insert_new(list, 0, entry_json(entry));
        }
    }
    return json_pack("{sosI}", "connections", list, "dropped",
                     (json_int_t)(all ? all->dropped : 0));
}
