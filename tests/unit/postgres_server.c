#include "postgres_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tmpdir.h"

enum { NOBODY = 65534, TRIES_MAX = 1200 };

static struct tmpdir dir = {.fd = -1};
static char programs[128]; /* the directory of PostgreSQL's programs */
static pid_t server, owner;

static void die(const char *what)
{
    printf("# PostgreSQL: %s\n", what);
    (void)fflush(stdout);
    abort();
}

/* Debian keeps each version apart. */
static void programs_find(void)
{
    glob_t found;

    if (glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) != 0) {
        die("it is not installed: tools/deps test");
    }
    const char *last = found.gl_pathv[found.gl_pathc - 1];
    (void)snprintf(programs, sizeof(programs), "%.*s", (int)(strrchr(last, '/') - last), last);
    globfree(&found);
}

/* PostgreSQL refuses to run as root. The signal comes when the test dies. */
static void child_run(const char *name, const char *const *args)
{
    char path[256];

    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)) {
        _exit(126);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (chdir(dir.path) < 0) {
        _exit(125);
    }
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)dup2(log, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    (void)snprintf(path, sizeof(path), "%s/%s", programs, name);
    (void)execv(path, (char *const *)(size_t)args);
    _exit(127);
}

static pid_t child_start(const char *name, const char *const *args)
{
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        die("fork");
    }
    if (pid == 0) {
        child_run(name, args);
    }
    return pid;
}

static void url_of(const char *name, char *url, size_t size)
{
    (void)snprintf(url, size, "postgresql://atoll@/%s?host=%s", name, dir.path);
}

static void pause_ms(int ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

void postgres_server_go_on(void)
{
    const char *args[] = {"postgres",
                          "-D",
                          "data",
                          "-k",
                          dir.path,
                          "-c",
                          "listen_addresses=",
                          "-c",
                          "fsync=off",
                          "-c",
                          "shared_buffers=16MB",
                          "-c",
                          "max_connections=40",
                          NULL};
    char url[128];

    server = child_start("postgres", args);
    url_of("postgres", url, sizeof(url));
    for (int i = 0; PQping(url) != PQPING_OK; i++) {
        if (i == TRIES_MAX || waitpid(server, NULL, WNOHANG) != 0) {
            die("it does not start; see its log");
        }
        pause_ms(50);
    }
}

/* An immediate shutdown: the next start recovers from the log of transactions. */
void postgres_server_crash(void)
{
    (void)kill(server, SIGQUIT);
    (void)waitpid(server, NULL, 0);
    server = 0;
}

static void at_end(void)
{
    if (server > 0 && getpid() == owner) { /* not in a child of the test */
        postgres_server_freeze(false);
        postgres_server_crash();
        tmpdir_removep(&dir);
    }
}

void postgres_server_start(void)
{
    const char *args[] = {
        "initdb",          "-D",         "data", "-U", "atoll", "--auth=trust", "--no-sync",
        "--encoding=UTF8", "--locale=C", NULL};
    int status = 0;

    if (dir.fd >= 0) {
        return;
    }
    programs_find();
    dir = tmpdir_make();
    if (geteuid() == 0 && chown(dir.path, NOBODY, NOBODY) < 0) {
        die("chown");
    }
    pid_t pid = child_start("initdb", args);
    if (waitpid(pid, &status, 0) < 0 || status != 0) {
        die("initdb failed");
    }
    owner = getpid();
    postgres_server_go_on();
    (void)atexit(at_end);
}

/* The children of the server are found by their parent. */
static void children_signal(int number)
{
    char path[64], line[4096];

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", server, server);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(line, sizeof(line), file)) {
        die("its processes cannot be listed");
    }
    (void)fclose(file);
    for (char *at = line, *end = NULL; strtol(at, &end, 10) > 0; at = end) {
        (void)kill((pid_t)strtol(at, NULL, 10), number);
    }
}

void postgres_server_freeze(bool frozen)
{
    int number = frozen ? SIGSTOP : SIGCONT;

    (void)kill(server, number);
    children_signal(number);
}

/* ---- databases ---- */

int postgres_server_number(const char *url, const char *sql)
{
    PGconn *conn = PQconnectdb(url);
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    int n = -1;

    if (status == PGRES_TUPLES_OK && PQntuples(result) > 0) {
        n = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);
    } else if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        printf("# %s: %s", sql, PQerrorMessage(conn));
    }
    PQclear(result);
    PQfinish(conn);
    return n;
}

void postgres_server_database(const char *name, char *url, size_t size)
{
    char sql[128];

    postgres_server_start();
    url_of("postgres", url, size);
    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM pg_database WHERE datname = '%s'", name);
    if (postgres_server_number(url, sql) == 0) {
        (void)snprintf(sql, sizeof(sql), "CREATE DATABASE \"%s\"", name);
        (void)postgres_server_number(url, sql);
    }
    url_of(name, url, size);
}
