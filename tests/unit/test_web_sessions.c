/* Sessions of the dashboard, links and failed logins, over a real store. */
#include <stdlib.h>

#include "check.h"
#include "serve/web/sessions.h"
#include "store_fixture.h"

#define KEY "11111111-1111-1111-1111-111111111111"
#define OTHER "22222222-2222-2222-2222-222222222222"

static const int64_t START_MS = INT64_C(1700000000000);
static const int64_t HOUR_MS = (int64_t)3600 * 1000;

static bool keys_save(struct fixture *f)
{
    struct answer team = {0}, key = {0}, other = {0};

    store_team_save(f->store, &(struct team_row){.id = "team", .name = "team"}, on_done, &team);
    store_key_save(f->store,
                   &(struct key_row){.id = KEY,
                                     .team_id = "team",
                                     .name = "a",
                                     .hash = "h1",
                                     .prefix = "e2b_",
                                     .masked = "m"},
                   on_done, &key);
    store_key_save(f->store,
                   &(struct key_row){.id = OTHER,
                                     .team_id = "team",
                                     .name = "b",
                                     .hash = "h2",
                                     .prefix = "e2b_",
                                     .masked = "m"},
                   on_done, &other);
    wait_for(f, &other);
    return team.error == 0 && key.error == 0 && other.error == 0;
}

struct house {
    struct fixture f;
    struct sessions *sessions;
};

static bool house_open(struct house *h, const struct tmpdir *dir)
{
    struct err err;

    *h = (struct house){0};
    return fixture_init(&h->f, dir) && keys_save(&h->f) &&
           sessions_new(h->f.store, START_MS, &h->sessions, &err) == 0;
}

static bool house_restart(struct house *h, int64_t now_ms)
{
    struct err err;

    sessions_free(h->sessions);
    h->sessions = NULL;
    store_close(h->f.store);
    (void)uv_run(&h->f.loop, UV_RUN_DEFAULT);
    return open_store(&h->f) && sessions_new(h->f.store, now_ms, &h->sessions, &err) == 0;
}

static void house_close(struct house *h)
{
    sessions_free(h->sessions);
    fixture_fini(&h->f);
}

static struct session *begin(struct house *h, const char *key, int64_t now_ms,
                             char token[WEB_TOKEN_LEN + 1])
{
    struct answer answer = {0};
    struct session *session = sessions_begin(h->sessions, key, "", now_ms, token, on_done, &answer);

    wait_for(&h->f, &answer);
    return answer.error == 0 ? session : NULL;
}

static struct session *find(struct house *h, const char *token, int64_t now_ms)
{
    return sessions_find(h->sessions, str_of(token), now_ms);
}

static void a_session_is_found_by_its_token_alone(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char token[WEB_TOKEN_LEN + 1], hash[SHA256_HEX_LEN + 1];
    struct house h;

    CHECK(house_open(&h, &dir));
    const struct session *session = begin(&h, KEY, START_MS, token);
    CHECK(session && find(&h, token, START_MS) == session);
    CHECK_INT((int)strlen(token), WEB_TOKEN_LEN);
    sha256_hex(token, WEB_TOKEN_LEN, hash);
    CHECK_STR(session->hash, hash);
    CHECK(!find(&h, hash, START_MS)); /* what the store has opens nothing */
    CHECK(!find(&h, "", START_MS));
    token[0] = token[0] == '0' ? '1' : '0';
    CHECK(!find(&h, token, START_MS));
    CHECK(sessions_find_handle(h.sessions, str_of(session->handle), START_MS) == session);
    CHECK(!sessions_find_handle(h.sessions, STR(SESSION_HANDLE_PREFIX), START_MS));
    house_close(&h);
}

static void a_session_survives_a_restart(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char token[WEB_TOKEN_LEN + 1], handle[64];
    struct answer answer = {0};
    struct house h;

    CHECK(house_open(&h, &dir));
    struct session *session = begin(&h, KEY, START_MS, token);
    CHECK(session);
    (void)snprintf(handle, sizeof(handle), "%s", session->handle);
    sessions_elevate(h.sessions, session, OTHER, on_done, &answer);
    wait_for(&h.f, &answer);
    CHECK(house_restart(&h, START_MS + HOUR_MS));
    session = find(&h, token, START_MS + HOUR_MS);
    CHECK(session);
    CHECK_STR(session->key_id, KEY);
    CHECK_STR(session->admin_key_id, OTHER);
    CHECK(!sessions_find_handle(h.sessions, str_of(handle), START_MS + HOUR_MS));
    house_close(&h);
}

static void a_session_that_is_not_used_ends(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char token[WEB_TOKEN_LEN + 1];
    struct house h;

    CHECK(house_open(&h, &dir));
    CHECK(begin(&h, KEY, START_MS, token));
    CHECK(find(&h, token, START_MS + 12 * HOUR_MS - 1));
    CHECK(!find(&h, token, START_MS + 12 * HOUR_MS));
    CHECK(!find(&h, token, START_MS)); /* it is gone for good */
    CHECK_INT((int)sessions_count(h.sessions), 0);
    CHECK(house_restart(&h, START_MS));
    CHECK_INT((int)sessions_count(h.sessions), 0);
    house_close(&h);
}

static void use_makes_a_session_longer_but_not_forever(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char token[WEB_TOKEN_LEN + 1];
    struct session *session = NULL;
    struct house h;
    int64_t now_ms = START_MS;

    CHECK(house_open(&h, &dir));
    CHECK(begin(&h, KEY, START_MS, token));
    for (int uses = 0; uses < 100 && (session = find(&h, token, now_ms)); uses++) {
        sessions_use(h.sessions, session, now_ms);
        now_ms += 11 * HOUR_MS;
    }
    CHECK(!session && now_ms >= START_MS + SESSION_MAX_MS);
    CHECK(now_ms < START_MS + SESSION_MAX_MS + 12 * HOUR_MS);
    house_close(&h);
}

static void rows_that_are_over_are_not_loaded(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char old[WEB_TOKEN_LEN + 1], young[WEB_TOKEN_LEN + 1];
    struct house h;

    CHECK(house_open(&h, &dir));
    CHECK(begin(&h, KEY, START_MS, old));
    CHECK(begin(&h, KEY, START_MS + 6 * HOUR_MS, young));
    CHECK(house_restart(&h, START_MS + 13 * HOUR_MS));
    CHECK(!find(&h, old, START_MS + 13 * HOUR_MS));
    CHECK(find(&h, young, START_MS + 13 * HOUR_MS));
    house_close(&h);
}

static void one_too_many_ends_the_one_used_longest_ago(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char tokens[SESSIONS_PER_KEY_MAX + 1][WEB_TOKEN_LEN + 1], other[WEB_TOKEN_LEN + 1];
    struct house h;

    CHECK(house_open(&h, &dir));
    CHECK(begin(&h, OTHER, START_MS, other));
    for (int i = 0; i < SESSIONS_PER_KEY_MAX; i++) {
        CHECK(begin(&h, KEY, START_MS + i, tokens[i]));
    }
    sessions_use(h.sessions, find(&h, tokens[0], START_MS), START_MS + HOUR_MS);
    CHECK(begin(&h, KEY, START_MS + HOUR_MS, tokens[SESSIONS_PER_KEY_MAX]));
    CHECK(find(&h, tokens[0], START_MS + HOUR_MS));
    CHECK(!find(&h, tokens[1], START_MS + HOUR_MS));
    CHECK(find(&h, other, START_MS + HOUR_MS));
    CHECK_INT((int)sessions_count(h.sessions), SESSIONS_PER_KEY_MAX + 1);
    house_close(&h);
}

static void a_key_takes_its_sessions_and_links_along(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char mine[WEB_TOKEN_LEN + 1], theirs[WEB_TOKEN_LEN + 1], link[WEB_TOKEN_LEN + 1];
    char key_id[ID_UUID_LEN + 1], admin_id[ID_UUID_LEN + 1];
    struct answer gone = {0};
    struct house h;

    CHECK(house_open(&h, &dir));
    CHECK(begin(&h, KEY, START_MS, mine) && begin(&h, OTHER, START_MS, theirs));
    links_make(h.sessions, KEY, "", START_MS, link);
    sessions_end_of_key(h.sessions, KEY);
    CHECK(!find(&h, mine, START_MS) && find(&h, theirs, START_MS));
    CHECK(!links_take(h.sessions, str_of(link), START_MS, key_id, admin_id));
    store_key_delete(h.f.store, OTHER, on_done, &gone);
    wait_for(&h.f, &gone);
    CHECK(house_restart(&h, START_MS));
    CHECK_INT((int)sessions_count(h.sessions), 0); /* the row went with that of its key */
    house_close(&h);
}

static void a_link_works_once_and_for_a_minute(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char first[WEB_TOKEN_LEN + 1], second[WEB_TOKEN_LEN + 1], others[WEB_TOKEN_LEN + 1];
    char key_id[ID_UUID_LEN + 1], admin_id[ID_UUID_LEN + 1];
    struct house h;

    CHECK(house_open(&h, &dir));
    links_make(h.sessions, KEY, OTHER, START_MS, first);
    links_make(h.sessions, OTHER, "", START_MS, second);
    CHECK(!links_take(h.sessions, STR(""), START_MS, key_id, admin_id));
    CHECK(links_take(h.sessions, str_of(first), START_MS + LINK_MS - 1, key_id, admin_id));
    CHECK_STR(key_id, KEY);
    CHECK_STR(admin_id, OTHER);
    CHECK(!links_take(h.sessions, str_of(first), START_MS, key_id, admin_id));
    CHECK(!links_take(h.sessions, str_of(second), START_MS + LINK_MS, key_id, admin_id));
    links_make(h.sessions, OTHER, "", START_MS, others);
    for (int i = 0; i <= LINKS_MAX; i++) {
        links_make(h.sessions, KEY, "", START_MS, i == 0 ? first : second);
    }
    CHECK(!links_take(h.sessions, str_of(first), START_MS, key_id, admin_id));
    CHECK(links_take(h.sessions, str_of(second), START_MS, key_id, admin_id));
    CHECK(links_take(h.sessions, str_of(others), START_MS, key_id, admin_id)); /* pushed by none */
    CHECK_STR(key_id, OTHER);
    house_close(&h);
}

static void failed_logins_have_to_wait_each_for_itself(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct str bad = STR("192.0.2.1"), good = STR("192.0.2.2");
    struct house h;

    CHECK(house_open(&h, &dir));
    for (int i = 0; i < LOGIN_FAILURES_MAX; i++) {
        CHECK_INT((int)logins_wait_s(h.sessions, bad, START_MS), 0);
        logins_failed(h.sessions, bad, START_MS);
    }
    CHECK_INT((int)logins_wait_s(h.sessions, bad, START_MS), LOGIN_WINDOW_MS / 1000);
    CHECK_INT((int)logins_wait_s(h.sessions, bad, START_MS + LOGIN_WINDOW_MS - 1), 1);
    CHECK_INT((int)logins_wait_s(h.sessions, bad, START_MS + LOGIN_WINDOW_MS), 0);
    CHECK_INT((int)logins_wait_s(h.sessions, good, START_MS), 0);
    logins_failed(h.sessions, bad, START_MS + LOGIN_WINDOW_MS);
    CHECK_INT((int)logins_wait_s(h.sessions, bad, START_MS + LOGIN_WINDOW_MS), 0);
    for (int i = 0; i < 2 * LOGIN_SOURCES_MAX; i++) { /* memory has an end */
        char name[LOGIN_SOURCE_BYTES];

        (void)snprintf(name, sizeof(name), "2001:db8::%x", i);
        logins_failed(h.sessions, str_of(name), START_MS);
    }
    house_close(&h);
}

static void the_token_for_pages_follows_from_the_cookie(void)
{
    char a[SHA256_HEX_LEN + 1], b[SHA256_HEX_LEN + 1], hash[SHA256_HEX_LEN + 1];
    char token[WEB_TOKEN_LEN + 1];

    id_hex(token, WEB_TOKEN_BYTES);
    session_csrf(str_of(token), a);
    session_csrf(str_of(token), b);
    CHECK_STR(a, b);
    sha256_hex(token, WEB_TOKEN_LEN, hash);
    CHECK(strcmp(a, hash) != 0 && strcmp(a, token) != 0);
    token[5] = token[5] == '0' ? '1' : '0';
    session_csrf(str_of(token), b);
    CHECK(strcmp(a, b) != 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a session is found by its token alone", a_session_is_found_by_its_token_alone},
        {"a session survives a restart", a_session_survives_a_restart},
        {"a session that is not used ends", a_session_that_is_not_used_ends},
        {"use makes a session longer, but not forever", use_makes_a_session_longer_but_not_forever},
        {"rows that are over are not loaded", rows_that_are_over_are_not_loaded},
        {"one too many ends the one used longest ago", one_too_many_ends_the_one_used_longest_ago},
        {"a key takes its sessions and links along", a_key_takes_its_sessions_and_links_along},
        {"a link works once, and for a minute", a_link_works_once_and_for_a_minute},
        {"failed logins have to wait, each for itself", failed_logins_have_to_wait_each_for_itself},
        {"the token for pages follows from the cookie",
         the_token_for_pages_follows_from_the_cookie},
    };

    return check_run(tests, countof(tests));
}
