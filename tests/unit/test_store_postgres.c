/* The store on a PostgreSQL that goes away: nothing is acknowledged that is not committed, nothing
 * is stored twice, nobody waits for ever, and the store comes back by itself. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "lib/base/clock.h"
#include "serve/store/dialect.h"
#include "store_fixture.h"

enum { ROWS = 3000, AT_ONCE = 64, CRASHES = 4 };

static void row_save(struct fixture *f, const char *id, store_done *done, void *ctx)
{
    struct sandbox_row row = {
        .id = id, .team_id = "team", .template_id = "t", .state = "running", .created_ms = 1};
    struct event_row event = {.id = id,
                              .team_id = "team",
                              .sandbox_id = id,
                              .type = ".created",
                              .timestamp_ms = clock_wall_ms(),
                              .body = "{}"};

    store_sandbox_save(f->store, &row, &event, STORE_LAZY, done, ctx);
}

static int row_save_wait(struct fixture *f, const char *id, struct answer *answer)
{
    *answer = (struct answer){0};
    row_save(f, id, on_done, answer);
    wait_for(f, answer);
    return answer->error;
}

static void words_are_translated(void)
{
    static const char *const pairs[][2] = {
        {"SELECT a FROM t WHERE b = ? AND c > ?", "SELECT a FROM t WHERE b = $1 AND c > $2"},
        {"SELECT ?2, ?11 FROM t", "SELECT $2, $11 FROM t"},
        {"SELECT '?', 'it''s json_object(', ?", "SELECT '?', 'it''s json_object(', $1"},
        {"SELECT json_object('a', ifnull(b, 'c'))",
         "SELECT json_build_object('a', coalesce(b, 'c'))"},
        {"SELECT my_json(a), json(b)", "SELECT my_json(a), as_json(b)"},
        {"WHERE seq = last_insert_rowid()", "WHERE seq = (SELECT lastval())"},
    };

    for (size_t i = 0; i < countof(pairs); i++) {
        scoped_buf(out, DIALECT_BYTES_MAX);
        dialect_postgres(pairs[i][0], &out);
        CHECK_STR(buf_at(&out), pairs[i][1]);
    }
}

static void a_url_that_cannot_be_used_is_not_repeated(void)
{
    struct store *store = NULL;
    uv_loop_t loop;
    struct err err = {0};

    CHECK_INT(uv_loop_init(&loop), 0);
    CHECK_INT(store_open(&loop, "mysql://u:password@h/d", &store, &err), -EINVAL);
    CHECK(!strstr(err.msg, "password") && strstr(err.msg, "postgresql://"));
    CHECK_INT(store_open(&loop, "postgresql://u:password@[h/d", &store, &err), -EINVAL);
    CHECK(!strstr(err.msg, "password") && strstr(err.msg, "postgresql://"));
    CHECK_INT(uv_loop_close(&loop), 0);
}

static void a_text_that_is_not_utf8_is_repaired(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer answer;

    CHECK(fixture_init(&f, &dir));
    CHECK_INT(row_save_wait(&f, "a\xff\xfe", &answer), 0);
    CHECK_INT(count(f.path, "SELECT count(*) FROM sandboxes WHERE id = U&'a\\FFFD\\FFFD'"), 1);
    fixture_fini(&f);
}

static void a_database_that_is_away_is_told_and_comes_back(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer answer;

    CHECK(fixture_init(&f, &dir));
    CHECK_INT(row_save_wait(&f, "before", &answer), 0);
    postgres_server_crash();
    row_save(&f, "patient", NULL, NULL); /* nobody waits for it: it is kept */
    CHECK_INT(row_save_wait(&f, "refused", &answer), -EAGAIN);
    CHECK(strstr(answer.err.msg, "save sandbox") && strstr(answer.err.msg, "database is away"));
    CHECK(store_away(f.store));

    answer = (struct answer){0};
    row_save(&f, "waits", on_done, &answer);
    postgres_server_go_on();
    wait_for(&f, &answer);
    CHECK_INT(answer.error, 0);
    CHECK(!store_away(f.store));
    CHECK_INT(count(f.path, "SELECT count(*) FROM sandboxes"), 3);
    CHECK_INT(count(f.path, "SELECT count(*) FROM sandboxes WHERE id = 'refused'"), 0);
    CHECK_INT(count(f.path, "SELECT count(*) FROM events"), 3);
    fixture_fini(&f);
}

static void on_text(void *ctx, int error, const struct err *err, const char *text)
{
    (void)text;
    on_done(ctx, error, err);
}

static int list(struct fixture *f, struct answer *answer)
{
    struct event_query query = {.team_id = "team", .limit = 10};

    *answer = (struct answer){0};
    store_events_list(f->store, &query, on_text, answer);
    wait_for(f, answer);
    return answer->error;
}

static void queries_fail_with_a_sentence_and_come_back(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer answer;

    CHECK(fixture_init(&f, &dir));
    CHECK_INT(list(&f, &answer), 0);
    postgres_server_crash();
    CHECK_INT(list(&f, &answer), -EAGAIN);
    CHECK(strstr(answer.err.msg, "database is away"));
    CHECK_INT(list(&f, &answer), -EAGAIN);
    postgres_server_go_on();
    while (list(&f, &answer) == -EAGAIN) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    CHECK_INT(answer.error, 0);
    CHECK_INT(list(&f, &answer), 0); /* on a connection that was kept */
    fixture_fini(&f);
}

static void closing_does_not_wait_for_a_database_that_is_away(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer answer = {0};

    CHECK(fixture_init(&f, &dir));
    postgres_server_crash();
    for (int i = 0; i < 3; i++) {
        row_save(&f, "a", on_done, &answer);
        row_save(&f, "b", NULL, NULL);
    }
    fixture_fini(&f);
    CHECK_INT(answer.calls, 3);
    CHECK_INT(answer.error, -EAGAIN);
    postgres_server_go_on();
}

static void a_connection_that_is_cut_is_made_again(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer answer;
    char id[16];

    CHECK(fixture_init(&f, &dir));
    for (int i = 0; i < 5; i++) {
        (void)snprintf(id, sizeof(id), "s%d", i);
        CHECK_INT(row_save_wait(&f, id, &answer), 0);
        (void)count(f.path, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                            " WHERE datname = current_database() AND pid <> pg_backend_pid()");
    }
    CHECK_INT(count(f.path, "SELECT count(*) FROM sandboxes"), 5);
    CHECK_INT(count(f.path, "SELECT count(*) FROM events"), 5);
    fixture_fini(&f);
}

/* ---- crashes under load ---- */

struct load {
    struct fixture *f;
    uint8_t acknowledged[ROWS];
    int next, answered, failed;
};

struct ticket {
    struct load *load;
    int row;
};

static void on_ticket(void *ctx, int error, const struct err *err);

static void load_more(struct load *load)
{
    struct ticket *ticket;
    char id[16];

    if (load->next == ROWS || !(ticket = malloc(sizeof(*ticket)))) {
        return;
    }
    *ticket = (struct ticket){load, load->next++};
    (void)snprintf(id, sizeof(id), "s%d", ticket->row);
    row_save(load->f, id, on_ticket, ticket);
}

static void on_ticket(void *ctx, int error, const struct err *err)
{
    struct ticket *ticket = ctx;
    struct load *load = ticket->load;

    (void)err;
    load->acknowledged[ticket->row] = error == 0;
    load->failed += error != 0;
    load->answered++;
    free(ticket);
    load_more(load);
}

static void on_survivor(void *ctx, const struct sandbox_row *row)
{
    uint8_t *present = ctx;

    present[strtoul(row->id + 1, NULL, 10) % ROWS]++;
}

static void crashes_lose_nothing_and_double_nothing(void)
{
    static uint8_t present[ROWS];
    static struct load load;
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct err err;
    int crashed = 0;

    CHECK(fixture_init(&f, &dir));
    load = (struct load){.f = &f};
    for (int i = 0; i < AT_ONCE; i++) {
        load_more(&load);
    }
    while (load.answered < ROWS) {
        (void)uv_run(&f.loop, UV_RUN_ONCE);
        if (crashed < CRASHES && load.answered >= (crashed + 1) * ROWS / (CRASHES + 1)) {
            postgres_server_crash();
            postgres_server_go_on();
            crashed++;
        }
    }
    CHECK_INT(crashed, CRASHES);
    CHECK_INT(store_load_sandboxes(f.store, on_survivor, present, &err), 0);
    for (int i = 0; i < ROWS; i++) {
        CHECK_THAT(load.acknowledged[i] == present[i], "row %d: acknowledged %d, stored %d", i,
                   load.acknowledged[i], present[i]);
    }
    printf("# %d of %d rows failed\n", load.failed, ROWS);
    CHECK_INT(count(f.path, "SELECT count(*) FROM events"), ROWS - load.failed);
    CHECK_INT(count(f.path, "SELECT count(DISTINCT sandbox_id) FROM events"), ROWS - load.failed);
    fixture_fini(&f);
}

static void a_second_store_is_refused(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct store *second = NULL;
    struct answer answer;
    struct err err = {0};

    CHECK(fixture_init(&f, &dir));
    CHECK_INT(store_open(&f.loop, f.path, &second, &err), -EAGAIN);
    CHECK(strstr(err.msg, "another daemon"));
    CHECK_INT(row_save_wait(&f, "goes-on", &answer), 0);
    fixture_fini(&f);
}

/* ---- lost words ---- */

/* Stands between the store and the server, and loses what it is told to. */
static struct {
    char dir[64], socket[96], server[96];
    int listener;
    struct pair {
        int client, server;
    } pairs[16];
    atomic_int lose; /* of the next connection that says something: */
    uv_thread_t thread;
    atomic_bool stop;
} proxy;

enum { LOSE_NOTHING, LOSE_REQUEST, LOSE_ANSWER };

static int socket_to(const char *path, bool listens)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int r = listens ? bind(fd, (struct sockaddr *)&address, sizeof(address))
                    : connect(fd, (struct sockaddr *)&address, sizeof(address));
    if (fd < 0 || r < 0 || (listens && listen(fd, 16) < 0)) {
        abort();
    }
    return fd;
}

static void pair_close(struct pair *pair)
{
    (void)close(pair->client);
    (void)close(pair->server);
    *pair = (struct pair){-1, -1};
}

/* False when the connection is over. */
static bool pass(int from, int to, int lost_when)
{
    char bytes[65536];
    int expected = lost_when;
    ssize_t n = read(from, bytes, sizeof(bytes));

    if (n <= 0 || atomic_compare_exchange_strong(&proxy.lose, &expected, LOSE_NOTHING)) {
        return false;
    }
    return write(to, bytes, (size_t)n) == n;
}

static void pair_poll(struct pair *pair)
{
    struct pollfd fds[] = {{.fd = pair->client, .events = POLLIN},
                           {.fd = pair->server, .events = POLLIN}};

    if (pair->client < 0 || poll(fds, 2, 0) <= 0) {
        return;
    }
    if ((fds[0].revents && !pass(pair->client, pair->server, LOSE_REQUEST)) ||
        (fds[1].revents && !pass(pair->server, pair->client, LOSE_ANSWER))) {
        pair_close(pair);
    }
}

static void proxy_main(void *arg)
{
    struct pollfd fd = {.fd = proxy.listener, .events = POLLIN};

    (void)arg;
    while (!proxy.stop) {
        if (poll(&fd, 1, 1) > 0) {
            for (size_t i = 0; i < countof(proxy.pairs); i++) {
                if (proxy.pairs[i].client < 0) {
                    proxy.pairs[i].client = accept(proxy.listener, NULL, NULL);
                    proxy.pairs[i].server = socket_to(proxy.server, false);
                    break;
                }
            }
        }
        for (size_t i = 0; i < countof(proxy.pairs); i++) {
            pair_poll(&proxy.pairs[i]);
        }
    }
}

static void proxy_start(const struct tmpdir *dir, struct fixture *f)
{
    char *host = strstr(f->path, "host=") + strlen("host=");

    (void)snprintf(proxy.server, sizeof(proxy.server), "%s/.s.PGSQL.5432", host);
    (void)snprintf(proxy.socket, sizeof(proxy.socket), "%s/.s.PGSQL.5432", dir->path);
    (void)snprintf(host, sizeof(f->path) - (size_t)(host - f->path), "%s", dir->path);
    for (size_t i = 0; i < countof(proxy.pairs); i++) {
        proxy.pairs[i] = (struct pair){-1, -1};
    }
    proxy.stop = false;
    proxy.lose = LOSE_NOTHING;
    proxy.listener = socket_to(proxy.socket, true);
    if (uv_thread_create(&proxy.thread, proxy_main, NULL) < 0) {
        abort();
    }
}

static void proxy_stop(void)
{
    proxy.stop = true;
    (void)uv_thread_join(&proxy.thread);
    for (size_t i = 0; i < countof(proxy.pairs); i++) {
        if (proxy.pairs[i].client >= 0) {
            pair_close(&proxy.pairs[i]);
        }
    }
    (void)close(proxy.listener);
}

/* Whether it was committed or not, each row is acknowledged, and is there with one event. */
static void lost_words_are_found_out(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f = {0};
    struct answer answer;
    char direct[128], id[16];

    place_of(&dir, f.path, sizeof(f.path));
    (void)snprintf(direct, sizeof(direct), "%s", f.path);
    proxy_start(&dir, &f);
    CHECK(uv_loop_init(&f.loop) == 0 && open_store(&f));
    CHECK_INT(row_save_wait(&f, "s0", &answer), 0);
    for (int i = 1; i <= 10; i++) {
        (void)snprintf(id, sizeof(id), "s%d", i);
        proxy.lose = i % 2 ? LOSE_ANSWER : LOSE_REQUEST;
        CHECK_INT(row_save_wait(&f, id, &answer), 0);
        CHECK_INT(proxy.lose, LOSE_NOTHING);
    }
    CHECK_INT(count(direct, "SELECT count(*) FROM sandboxes"), 11);
    CHECK_INT(count(direct, "SELECT count(*) FROM events"), 11);
    CHECK_INT(count(direct, "SELECT count(DISTINCT sandbox_id) FROM events"), 11);
    fixture_fini(&f);
    proxy_stop();
}

/* Transactions of an older connection fail once the next one has taken over. */
static void a_connection_that_was_replaced_cannot_commit(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer answer;

    CHECK(fixture_init(&f, &dir));
    CHECK_INT(row_save_wait(&f, "a", &answer), 0);
    int session = count(f.path, "SELECT session FROM writer");
    (void)count(f.path, "UPDATE writer SET session = session + 1");
    CHECK_INT(row_save_wait(&f, "b", &answer), 0); /* refused, so it connects again */
    CHECK_INT(count(f.path, "SELECT session FROM writer"), session + 2);
    CHECK_INT(count(f.path, "SELECT count(*) FROM events"), 2);
    fixture_fini(&f);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"words are translated", words_are_translated},
        {"a URL that cannot be used is not repeated", a_url_that_cannot_be_used_is_not_repeated},
        {"a text that is not UTF-8 is repaired", a_text_that_is_not_utf8_is_repaired},
        {"a database that is away is told, and comes back",
         a_database_that_is_away_is_told_and_comes_back},
        {"queries fail with a sentence, and come back", queries_fail_with_a_sentence_and_come_back},
        {"closing does not wait for a database that is away",
         closing_does_not_wait_for_a_database_that_is_away},
        {"a connection that is cut is made again", a_connection_that_is_cut_is_made_again},
        {"crashes lose nothing and double nothing", crashes_lose_nothing_and_double_nothing},
        {"a second store is refused", a_second_store_is_refused},
        {"lost requests and lost answers are found out", lost_words_are_found_out},
        {"a connection that was replaced cannot commit",
         a_connection_that_was_replaced_cannot_commit},
    };

    on_postgres = true;
    return check_run(tests, countof(tests));
}
