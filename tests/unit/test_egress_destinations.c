/* Where a sandbox has been: entries are counted, bounded and harmless to show. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "lib/base/json.h"
#include "serve/egress/destinations.h"

static struct endpoint endpoint(const char *text)
{
    struct endpoint out = {0};

    if (endpoint_parse(str_of(text), &out) < 0) {
        abort();
    }
    return out;
}

static struct destination *note(struct destinations *all, enum destination_verdict verdict,
                                const char *to, const char *host, const char *rule, int64_t now)
{
    struct endpoint at = endpoint(to);

    return destinations_note(all,
                             &(struct destination_seen){
                                 .verdict = verdict, .to = &at, .host = str_of(host), .rule = rule},
                             now);
}

static const json_t *row(const json_t *all, size_t i)
{
    return json_array_get(json_object_get(all, "connections"), i);
}

static void targets_are_counted(void)
{
    struct destinations *all = destinations_new();

    note(all, DESTINATION_REACHED, "1.2.3.4:443", "a.test", "", 1000)->bytes_out = 7;
    (void)note(all, DESTINATION_REFUSED, "1.2.3.4:443", "a.test", "denyOut 1.2.3.4", 2000);
    note(all, DESTINATION_REACHED, "1.2.3.4:443", "a.test", "", 3000)->bytes_out += 5;
    scoped_json *json = destinations_json(all);
    const json_t *newest = row(json, 0), *other = row(json, 1);
    CHECK_INT(json_array_size(json_object_get(json, "connections")), 2);
    CHECK_STR(json_string_of(newest, "verdict"), "reached");
    CHECK_INT(json_integer_value(json_object_get(newest, "count")), 2);
    CHECK_INT(json_integer_value(json_object_get(newest, "bytesSent")), 12);
    CHECK_STR(json_string_of(newest, "firstAt"), "1970-01-01T00:00:01.000Z");
    CHECK_STR(json_string_of(newest, "lastAt"), "1970-01-01T00:00:03.000Z");
    CHECK(json_is_null(json_object_get(newest, "rule")));
    CHECK_STR(json_string_of(other, "rule"), "denyOut 1.2.3.4");
    CHECK_STR(json_string_of(other, "address"), "1.2.3.4");
    destinations_release(all);
}

static void the_oldest_goes(void)
{
    struct destinations *all = destinations_new();
    struct destination *held =
        destination_hold(note(all, DESTINATION_REACHED, "9.9.9.9:1", "first.test", "", 1));

    for (int i = 0; i < DESTINATIONS_MAX; i++) {
        char host[32];
        (void)snprintf(host, sizeof(host), "h%d.test", i);
        (void)note(all, DESTINATION_REACHED, "1.1.1.1:443", host, "", 2 + i);
    }
    held->bytes_in += 1; /* its connection may still copy */
    destination_release(held);
    scoped_json *json = destinations_json(all);
    CHECK_INT(json_array_size(json_object_get(json, "connections")), DESTINATIONS_MAX);
    CHECK_INT(json_integer_value(json_object_get(json, "dropped")), 1);
    CHECK_STR(json_string_of(row(json, 0), "host"), "h255.test");
    CHECK_STR(json_string_of(row(json, DESTINATIONS_MAX - 1), "host"), "h0.test");
    destinations_release(all);
}

static void names_are_made_harmless(void)
{
    struct destinations *all = destinations_new();
    char longest[1000];

    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    (void)note(all, DESTINATION_REFUSED, "[2001:db8::1]:80", "<b>\xff\n\"evil\".test", "why", 1);
    (void)note(all, DESTINATION_REFUSED, "1.1.1.1:80", longest, longest, 2);
    scoped_json *json = destinations_json(all);
    CHECK_STR(json_string_of(row(json, 1), "host"), "?b????evil?.test");
    CHECK_STR(json_string_of(row(json, 1), "address"), "2001:db8::1");
    CHECK_INT(strlen(json_string_of(row(json, 0), "host")), DESTINATION_HOST_BYTES - 1);
    CHECK_INT(strlen(json_string_of(row(json, 0), "rule")), DESTINATION_RULE_BYTES - 1);
    destinations_release(all);
}

static void addresses_have_the_names_that_dns_gave(void)
{
    struct destinations *all = destinations_new();
    struct endpoint at = endpoint("1.2.3.4:80"), stand_in = endpoint("198.18.0.1:80");

    destinations_name(all, &at.address, "old.test");
    destinations_name(all, &at.address, "new.test");
    for (int i = 0; i < 3 * DESTINATION_NAMES_MAX; i++) {
        struct endpoint other = at;
        other.address.bytes[0] = 0x20;
        other.address.bytes[1] = (uint8_t)i;
        other.address.bytes[2] = (uint8_t)(i >> 8);
        if (i == DESTINATION_NAMES_MAX - 2) { /* the table is full, and the first is still there */
            (void)note(all, DESTINATION_REACHED, "1.2.3.4:80", "", "", 1);
        }
        destinations_name(all, &other.address, "many.test");
    }
    (void)note(all, DESTINATION_REACHED, "1.2.3.4:81", "", "", 2);
    (void)destinations_note(
        all,
        &(struct destination_seen){
            .to = &stand_in, .no_address = true, .host = STR("by-proxy.test"), .rule = ""},
        3);
    scoped_json *json = destinations_json(all);
    CHECK_STR(json_string_of(row(json, 2), "host"), "new.test");
    CHECK(json_is_null(json_object_get(row(json, 1), "host")));
    CHECK(json_is_null(json_object_get(row(json, 0), "address")));
    CHECK_STR(json_string_of(row(json, 0), "host"), "by-proxy.test");
    destinations_release(all);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"targets are counted", targets_are_counted},
        {"the oldest goes", the_oldest_goes},
        {"names are made harmless", names_are_made_harmless},
        {"addresses have the names that DNS gave", addresses_have_the_names_that_dns_gave},
    };

    return check_run(tests, countof(tests));
}
