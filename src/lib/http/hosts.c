#include "lib/http/hosts.h"

#include <arpa/inet.h>

enum { NAME_BYTES_MAX = 253 };

struct str hosts_name(struct str authority)
{
    if (str_starts(authority, STR("["))) {
        struct str inner = str_skip(authority, 1);
        return (struct str){inner.at, str_find(inner, ']')};
    }
    struct str name = {authority.at, str_find(authority, ':')};
    if (name.len > 0 && name.at[name.len - 1] == '.') {
        name.len--;
    }
    return name;
}

/* Browsers take every host whose last label is a number for an IPv4 address, never for a name. */
static bool ends_in_number(struct str name)
{
    size_t digits = 0;

    while (digits < name.len && name.at[name.len - digits - 1] >= '0' &&
           name.at[name.len - digits - 1] <= '9') {
        digits++;
    }
    return digits > 0 && (digits == name.len || name.at[name.len - digits - 1] == '.');
}

static bool is_address(struct str authority, struct str name)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr any;

    if (str_starts(authority, STR("["))) {
        return str_copy(text, sizeof(text), name) && inet_pton(AF_INET6, text, &any) == 1;
    }
    return ends_in_number(name);
}

static bool is_below(struct str name, struct str domain)
{
    return domain.len > 0 && name.len > domain.len + 1 &&
           name.at[name.len - domain.len - 1] == '.' &&
           str_ieq(str_skip(name, name.len - domain.len), domain);
}

static bool is_in(struct str name, struct str domain)
{
    return (domain.len > 0 && str_ieq(name, domain)) || is_below(name, domain);
}

static bool entry_covers(struct str entry, struct str name)
{
    if (str_eq(entry, STR("*"))) {
        return true;
    }
    return str_starts(entry, STR("*.")) ? is_below(name, str_skip(entry, 2))
                                        : str_ieq(name, hosts_name(entry));
}

static bool list_covers(struct str list, struct str name)
{
    struct str entry;

    while (str_split(&list, ',', &entry)) {
        entry = str_trim(entry);
        if (entry.len > 0 && entry_covers(entry, name)) {
            return true;
        }
    }
    return false;
}

/* "https://issuer.example.org/path" -> "issuer.example.org" */
static struct str url_name(struct str url)
{
    struct str rest = str_skip(url, str_find(url, ':'));

    if (!str_starts(rest, STR("://"))) {
        return (struct str){0};
    }
    rest = str_skip(rest, 3);
    return hosts_name((struct str){rest.at, str_find(rest, '/')});
}

/* With the suffix that multicast DNS gives it, too. */
static bool is_machine(struct str name, struct str machine)
{
    static const struct str local = {".local", 6};
    struct str shorter = {machine.at, str_find(machine, '.')};

    if (machine.len > 0 && str_ieq(name, machine)) {
        return true;
    }
    return shorter.len > 0 && name.len == shorter.len + local.len &&
           str_ieq((struct str){name.at, shorter.len}, shorter) &&
           str_ieq(str_skip(name, shorter.len), local);
}

bool hosts_serve(const struct hosts *hosts, struct str authority)
{
    struct str name = hosts_name(authority);
    struct str issuer = url_name(str_of(hosts->issuer));

    if (authority.len == 0 || is_address(authority, name) || is_in(name, STR("localhost")) ||
        is_in(name, hosts_name(str_of(hosts->domain))) || (issuer.len && str_ieq(name, issuer)) ||
        list_covers(str_of(hosts->allowed), name)) {
        return true;
    }
    return hosts->beyond_loopback && name.len > 0 &&
           (str_find(name, '.') == name.len || is_machine(name, str_of(hosts->machine)));
}

static bool is_name(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = char_lower(text.at[i]);
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
              c == '_')) {
            return false;
        }
    }
    return text.len > 0 && text.len <= NAME_BYTES_MAX && text.at[0] != '.';
}

bool hosts_list_ok(struct str text)
{
    struct str entry;

    while (str_split(&text, ',', &entry)) {
        entry = str_trim(entry);
        bool whole = entry.len == 0 || str_eq(entry, STR("*"));
        if (!whole && !is_name(str_starts(entry, STR("*.")) ? str_skip(entry, 2) : entry)) {
            return false;
        }
    }
    return true;
}
