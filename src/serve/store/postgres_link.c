#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"
#include "serve/store/postgres.h"

enum { OPTIONS_MAX = 64, TYPE_INT8 = 20, TYPE_TEXT = 25 };

/* ---- errors ---- */

/* By the class of SQLSTATE, or the whole of it. */
static const struct {
    const char *state;
    int code;
} codes[] = {
    {"08", EAGAIN},    /* the connection */
    {"57P", EAGAIN},   /* the server stops, or starts */
    {"25006", EAGAIN}, /* it is a standby now */
    {"22012", EAGAIN}, /* the fence of postgres.c: another daemon writes */
    {"53100", EDQUOT}, /* its disk is full */
    {"53200", ENOMEM}, /* */
    {"53300", EAGAIN}, /* it has too many connections */
    {"23", EEXIST},    /* a constraint */
    {"40", EBUSY},     /* a conflict with another transaction */
    {"55P03", EBUSY},  /* a lock */
    {"54", EMSGSIZE},  /* too large for it */
    {"28", EACCES},    /* who we are */
    {"42501", EACCES}, /* what we may */
    {"3D000", ENOENT}, /* there is no such database */
};

static int errno_of(const char *state)
{
    for (size_t i = 0; state && i < countof(codes); i++) {
        if (strncmp(state, codes[i].state, strlen(codes[i].state)) == 0) {
            return codes[i].code;
        }
    }
    return EIO;
}

/* The first line, without what libpq puts before it. */
static struct str first_line(const char *text)
{
    struct str line = str_of(text ? text : "");

    line.len = str_find(line, '\n');
    return line;
}

int postgres_lost(const PGconn *conn, const char *what, struct err *err)
{
    struct str line = first_line(PQerrorMessage(conn));

    if (line.len == 0) {
        line = STR("the connection is lost");
    }
    return err_set(err, EAGAIN, "%s: the database is away: %.*s", what, (int)line.len, line.at);
}

int postgres_fail(const PGconn *conn, const PGresult *result, const char *what, struct err *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    int code = errno_of(state);

    if (PQstatus(conn) == CONNECTION_BAD && code != EAGAIN) {
        return postgres_lost(conn, what, err);
    }
    return err_set(err, code, "%s: %s%s", what, code == EAGAIN ? "the database is away: " : "",
                   message ? message : "the server did not say why");
}

/* ---- connecting ---- */

static void no_notice(void *ctx, const char *message)
{
    (void)ctx, (void)message;
}

/* False when the time is over. */
static bool wait_for_socket(const PGconn *conn, short events, int64_t until_mono_ms)
{
    struct pollfd fd = {.fd = PQsocket(conn), .events = events};
    int64_t left = until_mono_ms - clock_mono_ms();

    return fd.fd >= 0 && left > 0 && (poll(&fd, 1, (int)left) > 0 || errno == EINTR);
}

static PGconn *connect_start(const PQconninfoOption *given)
{
    /* A name that comes again replaces the one before: what the URL says counts. */
    const char *names[OPTIONS_MAX] = {"application_name", "client_encoding",
                                      "keepalives_idle",  "keepalives_interval",
                                      "keepalives_count", "tcp_user_timeout"};
    const char *values[OPTIONS_MAX] = {"atoll", "UTF8", "5", "2", "3", "5000"};
    size_t n = 6;

    for (const PQconninfoOption *option = given; option->keyword; option++) {
        if (option->val && n < OPTIONS_MAX - 1) {
            names[n] = option->keyword;
            values[n++] = option->val;
        }
    }
    return PQconnectStartParams(names, values, 0);
}

static int connect_finish(PGconn *conn, struct err *err)
{
    static const char what[] = "connect to the database";
    int64_t until = clock_mono_ms() + POSTGRES_CONNECT_MS;
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;

    if (!conn) {
        return err_set(err, ENOMEM, "%s: out of memory", what);
    }
    if (PQstatus(conn) == CONNECTION_BAD) {
        return postgres_lost(conn, what, err);
    }
    while (status != PGRES_POLLING_OK) {
        short events = status == PGRES_POLLING_READING ? POLLIN : POLLOUT;

        if (status == PGRES_POLLING_FAILED) {
            return postgres_lost(conn, what, err);
        }
        if (!wait_for_socket(conn, events, until)) {
            return err_set(err, EAGAIN, "%s: the database is away: no answer within %d s", what,
                           POSTGRES_CONNECT_MS / 1000);
        }
        status = PQconnectPoll(conn);
    }
    return 0;
}

static int server_check(const PGconn *conn, struct err *err)
{
    const char *encoding = PQparameterStatus(conn, "server_encoding");

    if (PQserverVersion(conn) < POSTGRES_VERSION_MIN) {
        return err_set(err, ENOTSUP, "the database is PostgreSQL %d: version 13 is the oldest",
                       PQserverVersion(conn) / 10000);
    }
    if (!encoding || strcmp(encoding, "UTF8") != 0) {
        return err_set(err, ENOTSUP,
                       "the database has the encoding %s: create one with ENCODING 'UTF8'",
                       encoding ? encoding : "of somebody else");
    }
    return 0;
}

/* The server, too, notices soon when this machine is gone. */
static int session_set_up(PGconn *conn, struct err *err)
{
    return postgres_exec(conn,
                         "SET standard_conforming_strings = on; SET tcp_keepalives_idle = 10;"
                         "SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3",
                         "set up a connection to the database", POSTGRES_ANSWER_MS, NULL, err);
}

int postgres_connect(const char *url, PGconn **out, struct err *err)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &why);

    PQfreemem(why); /* it may quote the URL, with its password */
    if (!options) {
        return err_set(err, EINVAL,
                       "the database's URL cannot be read: it is postgresql://USER@HOST/NAME");
    }
    PGconn *conn = connect_start(options);
    PQconninfoFree(options);
    int r = connect_finish(conn, err);
    if (r == 0) {
        (void)PQsetNoticeProcessor(conn, no_notice, NULL);
        r = PQsetnonblocking(conn, 1) == 0 ? server_check(conn, err)
                                           : postgres_lost(conn, "connect to the database", err);
    }
    r = r < 0 ? r : session_set_up(conn, err);
    if (r < 0) {
        PQfinish(conn);
        return r;
    }
    *out = conn;
    return 0;
}

/* ---- answers ---- */

int postgres_answer(PGconn *conn, int64_t limit_ms, PGresult **out, struct err *err)
{
    static const char what[] = "wait for the database";
    int64_t until = clock_mono_ms() + limit_ms;

    for (;;) {
        int unsent = PQflush(conn);

        if (unsent < 0) {
            return postgres_lost(conn, what, err);
        }
        if (!PQisBusy(conn)) {
            *out = PQgetResult(conn);
            return 0;
        }
        if (!wait_for_socket(conn, (short)(POLLIN | (unsent ? POLLOUT : 0)), until)) {
            return err_set(err, EAGAIN, "%s: the database is away: no answer within %d s", what,
                           (int)(limit_ms / 1000));
        }
        if (!PQconsumeInput(conn)) {
            return postgres_lost(conn, what, err);
        }
    }
}

static bool is_error(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE;
}

int postgres_exec(PGconn *conn, const char *sql, const char *what, int64_t limit_ms, PGresult **out,
                  struct err *err)
{
    PGresult *last = NULL, *result = NULL;
    int r = PQsendQuery(conn, sql) ? 0 : postgres_lost(conn, what, err);

    for (; r == 0; last = result) {
        r = postgres_answer(conn, limit_ms, &result, err);
        if (r < 0 || !result) {
            break;
        }
        PQclear(last);
    }
    if (r == 0 && is_error(last)) {
        r = postgres_fail(conn, last, what, err);
    }
    if (r == 0 && out) {
        *out = last;
    } else {
        PQclear(last);
    }
    return r;
}

/* ---- values ---- */

/* A file can hold any bytes in a text; PostgreSQL only UTF-8. */
static const char *text_value(struct postgres_values *values, const char *text, size_t len)
{
    struct str whole = {text, len};

    if (utf8_valid(whole)) {
        return text;
    }
    char *repaired = xcalloc(UTF8_REPLACEMENT_BYTES * len + 1, 1);
    (void)utf8_repair(whole, repaired);
    values->repaired[values->n] = repaired;
    return repaired;
}

void postgres_values_init(struct postgres_values *values, const struct store_job *job,
                          const struct store_step *step)
{
    *values = (struct postgres_values){0};
    for (size_t i = 0; step && i < step->n; i++, values->n++) {
        const struct store_value *value = &job->values[step->first + i];
        int at = values->n;

        values->types[at] = value->kind == VALUE_INT ? TYPE_INT8 : TYPE_TEXT;
        if (value->kind == VALUE_INT) {
            (void)snprintf(values->numbers[at], sizeof(values->numbers[at]), "%" PRId64,
                           value->number);
            values->texts[at] = values->numbers[at];
        } else if (value->kind == VALUE_TEXT) {
            values->texts[at] = text_value(values, store_job_text_at(job, value), value->text_len);
        }
    }
}

void postgres_values_fini(struct postgres_values *values)
{
    for (int i = 0; i < values->n; i++) {
        free(values->repaired[i]);
    }
}
