/* postgres_server.h - a PostgreSQL of the test's own: Debian's program, as an unprivileged user, on
 * a socket in a temporary directory. It ends with the test, however that ends. */
#ifndef TESTS_POSTGRES_SERVER_H
#define TESTS_POSTGRES_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/* Starts one, the first time; aborts when that fails. */
void postgres_server_start(void);

/* Stops it at once, as a crash would; postgres_server_go_on() starts it again with its data. */
void postgres_server_crash(void);
void postgres_server_go_on(void);

/* Suspends all of its processes: it accepts connections and says nothing. */
void postgres_server_freeze(bool frozen);

/* The URL of a database of that name, which is made when there is none. */
void postgres_server_database(const char *name, char *url, size_t size);

/* The first number of the first row; -1: there is none, or the statement failed. */
int postgres_server_number(const char *url, const char *sql);

#endif
