/* Addresses in every spelling, what is reserved, and what a sandbox's rules make of them. */
#include "check.h"
#include "serve/egress/address.h"
#include "serve/egress/policy.h"

/* ---- addresses ---- */

static struct address address(const char *text)
{
    struct address out = {{0}};

    if (address_parse(str_of(text), &out) < 0) {
        printf("# %s is no address\n", text);
        check_failed = true;
    }
    return out;
}

static void two_spellings_are_one_address(void)
{
    struct address plain = address("127.0.0.1"), mapped = address("::ffff:127.0.0.1");
    char text[ADDRESS_TEXT_BYTES];

    CHECK(address_eq(&plain, &mapped));
    CHECK(address_is_v4(&mapped));
    address_text(&mapped, text);
    CHECK_STR(text, "127.0.0.1");
}

static void blocks_have_their_addresses(void)
{
    static const struct {
        const char *block, *address;
        bool has;
    } rows[] = {
        {"10.0.0.0/8", "10.255.255.255", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/8", "::ffff:10.1.1.1", true},
        {"192.168.1.1", "192.168.1.1", true},
        {"192.168.1.1", "192.168.1.2", false},
        {"172.16.0.0/12", "172.31.255.255", true},
        {"172.16.0.0/12", "172.32.0.0", false},
        {"1.2.3.4/31", "1.2.3.5", true},
        {"1.2.3.4/31", "1.2.3.6", false},
        {"0.0.0.0/0", "8.8.8.8", true},
        {"0.0.0.0/0", "2001:db8::1", true}, /* the word for everything, whatever the family */
        {"0.0.0.0/1", "2001:db8::1", false},
        {"::/0", "2001:db8::1", true},
        {"::/0", "8.8.8.8", false},
        {"2001:db8::/33", "2001:db8:7fff::", true},
        {"2001:db8::/33", "2001:db8:8000::", false},
        {"::1", "::1", true},
        {"::1", "127.0.0.1", false},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        struct address at = address(rows[i].address);
        struct block block;

        CHECK_INT(block_parse(str_of(rows[i].block), &block), 0);
        CHECK_THAT(block_has(&block, &at) == rows[i].has, "%s in %s", rows[i].address,
                   rows[i].block);
    }
}

static void bad_blocks_are_refused(void)
{
    static const char *const rows[] = {"",           "1.2.3",     "1.2.3.4/33",    "1.2.3.4/",
                                       "1.2.3.4/x",  "::/129",    "1.2.3.4/-1",    "0x7f.1",
                                       "2130706433", "010.0.0.1", "1.2.3.4/24/24", "example.com"};

    for (size_t i = 0; i < countof(rows); i++) {
        struct block block;
        CHECK_THAT(block_parse(str_of(rows[i]), &block) < 0, "'%s' was taken", rows[i]);
    }
}

static void endpoints_are_read_and_told(void)
{
    static const struct {
        const char *text, *told; /* NULL: refused */
    } rows[] = {
        {"1.2.3.4:80", "1.2.3.4:80"},
        {"1.2.3.4", "1.2.3.4:0"},
        {"[2001:db8::1]:443", "[2001:db8::1]:443"},
        {"2001:db8::1", "[2001:db8::1]:0"},
        {"[::ffff:1.2.3.4]:80", "1.2.3.4:80"},
        {"1.2.3.4:", NULL},
        {"1.2.3.4:0", NULL},
        {"1.2.3.4:65536", NULL},
        {"1.2.3.4:80x", NULL},
        {"[::1", NULL},
        {"[::1]80", NULL},
        {":80", NULL},
        {"host:80", NULL},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        char text[ENDPOINT_TEXT_BYTES];
        struct endpoint endpoint;
        int r = endpoint_parse(str_of(rows[i].text), &endpoint);

        CHECK_THAT((r == 0) == (rows[i].told != NULL), "'%s': %d", rows[i].text, r);
        if (r == 0) {
            endpoint_text(&endpoint, text);
            CHECK_STR(text, rows[i].told);
        }
    }
}

static void sockets_addresses_come_back_the_same(void)
{
    static const char *const rows[] = {"1.2.3.4:80", "[2001:db8::1]:443"};

    for (size_t i = 0; i < countof(rows); i++) {
        struct endpoint there, back;
        struct sockaddr_storage storage;

        CHECK_INT(endpoint_parse(str_of(rows[i]), &there), 0);
        endpoint_to_sockaddr(&there, &storage);
        CHECK_INT(endpoint_from_sockaddr(&storage, &back), 0);
        CHECK(address_eq(&there.address, &back.address));
        CHECK_INT(there.port, back.port);
    }
}

static void what_is_not_public_is_known(void)
{
    static const char *const reserved[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.1",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "fe80::1",
        "fd00::1",
        "fc00::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:0:127.0.0.1",
        "::ffff:0:7f00:1",
        "::ffff:0:a00:1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "64:ff9b:1:ffff::1",
        "100::1",
        "100:0:0:1::1",
        "192.88.99.1",
        "2001:2::1",
        "2001:10::1",
        "2001:2f:ffff::1",
        "2002:7f00:1::",
        "5f00::1",
        "fec0::1",
        "fd00:ec2::254",
        "2001::1",
    };
    static const char *const public[] = {"1.1.1.1",        "8.8.8.8",      "172.32.0.1",
                                         "100.128.0.1",    "192.167.0.1",  "2606:4700:4700::1111",
                                         "::ffff:1.1.1.1", "2001:4860::1", "2400:cb00::1",
                                         "100:0:0:2::1",   "64:ff9c::1",   "192.88.98.1"};

    for (size_t i = 0; i < countof(reserved); i++) {
        struct address at = address(reserved[i]);
        CHECK_THAT(address_reserved(&at), "%s counts as public", reserved[i]);
    }
    for (size_t i = 0; i < countof(public); i++) {
        struct address at = address(public[i]);
        CHECK_THAT(!address_reserved(&at), "%s counts as reserved", public[i]);
    }
}

/* ---- rules ---- */

enum { ALLOW = VERDICT_ALLOW, DENY = VERDICT_DENY, BY_NAME = VERDICT_BY_NAME };

static const struct row {
    const char *options;
    const char *address;
    int want;
    const char *rule;
} rows[] = {
    {"{}", "8.8.8.8", ALLOW, ""},
    {"{'network': {}}", "8.8.8.8", ALLOW, ""},
    {"{'allowInternetAccess': true}", "8.8.8.8", ALLOW, ""},
    {"{'allowInternetAccess': false}", "8.8.8.8", DENY, "allow_internet_access: false"},
    {"{'allowInternetAccess': false}", "2606:4700::1", DENY, "allow_internet_access: false"},
    {"{'allowInternetAccess': false, 'network': {'allowOut': ['8.8.8.8']}}", "8.8.8.8", ALLOW, ""},
    {"{'network': {'denyOut': ['8.8.8.8']}}", "8.8.8.8", DENY, "denyOut 8.8.8.8"},
    {"{'network': {'denyOut': ['8.8.8.8']}}", "::ffff:8.8.8.8", DENY, "denyOut 8.8.8.8"},
    {"{'network': {'denyOut': ['8.8.8.8']}}", "1.1.1.1", ALLOW, ""},
    {"{'network': {'denyOut': ['8.8.8.0/24', '1.0.0.0/8']}}", "1.1.1.1", DENY, "denyOut 1.0.0.0/8"},
    {"{'network': {'denyOut': ['0.0.0.0/0']}}", "1.1.1.1", DENY, "denyOut 0.0.0.0/0"},
    {"{'network': {'denyOut': ['0.0.0.0/0']}}", "2606:4700::1", DENY, "denyOut 0.0.0.0/0"},
    {"{'network': {'denyOut': ['::/0']}}", "1.1.1.1", ALLOW, ""},
    {"{'network': {'denyOut': ['0.0.0.0/0'], 'allowOut': ['1.1.1.1']}}", "1.1.1.1", ALLOW, ""},
    {"{'network': {'denyOut': ['0.0.0.0/0'], 'allowOut': ['1.1.1.1']}}", "8.8.8.8", DENY,
     "denyOut 0.0.0.0/0"},
    {"{'network': {'denyOut': ['1.1.1.1'], 'allowOut': ['1.1.1.0/24']}}", "1.1.1.1", ALLOW, ""},
    {"{'network': {'denyOut': ['0.0.0.0/0'], 'allowOut': ['a.test']}}", "1.1.1.1", BY_NAME,
     "denyOut 0.0.0.0/0"},
    {"{'network': {'denyOut': ['0.0.0.0/0'], 'allowOut': ['a.test', '1.1.1.1']}}", "1.1.1.1", ALLOW,
     ""},
    /* what cannot be understood allows nothing */
    {"{'network': {'denyOut': ['nonsense']}}", "1.1.1.1", DENY, "a rule that cannot be read"},
    {"{'network': {'denyOut': [7]}}", "1.1.1.1", DENY, "a rule that cannot be read"},
    {"{'network': {'denyOut': 'all'}}", "1.1.1.1", DENY, "a list that cannot be read"},
};

static struct policy *policy(const char *text)
{
    char json[512];

    (void)snprintf(json, sizeof(json), "%s", text);
    for (char *c = json; *c; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    json_t *options = json_loads(json, 0, NULL);
    struct policy *out = policy_new(options);
    json_decref(options);
    return out;
}

static void rules_decide(void)
{
    for (size_t i = 0; i < countof(rows); i++) {
        const struct row *row = &rows[i];
        struct address at = address(row->address);
        char rule[POLICY_RULE_BYTES];
        struct policy *p = policy(row->options);
        int got = (int)policy_address(p, &at, rule);

        policy_free(p);
        CHECK_THAT(got == row->want && strcmp(rule, row->rule) == 0,
                   "%s: %s: %d '%s', want %d '%s'", row->options, row->address, got, rule,
                   row->want, row->rule);
    }
}

static void names_match(void)
{
    struct policy *p = policy("{'network': {'denyOut': ['0.0.0.0/0'],"
                              " 'allowOut': ['a.test', '*.B.test', '1.1.1.1']}}");
    static const struct {
        const char *name;
        bool allowed;
    } names[] = {
        {"a.test", true},   {"A.TEST", true},    {"a.test.", true},      {"x.a.test", false},
        {"xa.test", false}, {"b.test", false},   {"x.b.test", true},     {"y.x.b.test", true},
        {"xb.test", false}, {".b.test", false},  {"a.test.evil", false}, {"", false},
        {"1.1.1.1", false}, {"a.test..", false},
    };

    for (size_t i = 0; i < countof(names); i++) {
        CHECK_THAT(policy_name(p, str_of(names[i].name)) == names[i].allowed, "'%s'",
                   names[i].name);
        CHECK(policy_resolves(p, str_of(names[i].name)) == names[i].allowed);
    }
    policy_free(p);
}

static void any_name_where_not_everything_is_denied(void)
{
    struct policy *open = policy("{'network': {'denyOut': ['8.8.8.8']}}");
    struct policy *all = policy("{'network': {'denyOut': ['0.0.0.0/0'], 'allowOut': ['*']}}");
    struct policy *shut = policy("{'allowInternetAccess': false}");

    CHECK(policy_resolves(open, STR("any.test")));
    CHECK(policy_resolves(all, STR("any.test")));
    CHECK(policy_name(all, STR("any.test")));
    CHECK(!policy_resolves(shut, STR("any.test")));
    CHECK(policy_opens(open) && policy_opens(all) && !policy_opens(shut));
    policy_free(open);
    policy_free(all);
    policy_free(shut);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"two spellings are one address", two_spellings_are_one_address},
        {"blocks have their addresses", blocks_have_their_addresses},
        {"bad blocks are refused", bad_blocks_are_refused},
        {"endpoints are read and told", endpoints_are_read_and_told},
        {"sockets' addresses come back the same", sockets_addresses_come_back_the_same},
        {"what is not public is known", what_is_not_public_is_known},
        {"rules decide", rules_decide},
        {"names match", names_match},
        {"any name where not everything is denied", any_name_where_not_everything_is_denied},
    };
    return check_run(tests, countof(tests));
}
