#include "cli/hidden_value.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static int bytes_read(char out[HIDDEN_VALUE_BYTES], bool one_line, struct err *err)
{
    size_t n = 0;

    while (n < HIDDEN_VALUE_BYTES - 1) {
        ssize_t got = read(STDIN_FILENO, out + n, HIDDEN_VALUE_BYTES - 1 - n);
        if (got < 0 && errno == EINTR) {
            return err_set(err, EINTR, "interrupted");
        }
        if (got <= 0 || (n += (size_t)got, one_line && memchr(out, '\n', n))) {
            break;
        }
    }
    if (n == HIDDEN_VALUE_BYTES - 1) {
        return err_set(err, E2BIG, "the value is longer than %d bytes", HIDDEN_VALUE_BYTES - 2);
    }
    out[n] = '\0';
    if (strlen(out) != n) {
        return err_set(err, EINVAL, "the value has a NUL byte");
    }
    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == '\r')) {
        out[--n] = '\0';
    }
    return n > 0 ? 0 : err_set(err, EINVAL, "the value is empty");
}

static void on_signal(int signum)
{
    (void)signum; /* read() returns, and the echo is put back */
}

static int terminal_read(const char *question, char out[HIDDEN_VALUE_BYTES], struct err *err)
{
    const struct sigaction wake = {.sa_handler = on_signal};
    struct sigaction before_int, before_term;
    struct termios before, silent;

    if (tcgetattr(STDIN_FILENO, &before) < 0) {
        return err_sys(err, "ask for the value");
    }
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    (void)fprintf(stderr, "%s: ", question);
    (void)sigaction(SIGINT, &wake, &before_int);
    (void)sigaction(SIGTERM, &wake, &before_term);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    int r = bytes_read(out, true, err);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    (void)sigaction(SIGINT, &before_int, NULL);
    (void)sigaction(SIGTERM, &before_term, NULL);
    (void)fputc('\n', stderr);
    return r;
}

int hidden_value_read(const char *question, char out[HIDDEN_VALUE_BYTES], struct err *err)
{
    return isatty(STDIN_FILENO) ? terminal_read(question, out, err) : bytes_read(out, false, err);
}
