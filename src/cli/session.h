/* session.h - a program in a sandbox at our own stdin, stdout and stderr, or at our terminal.
 *
 * Owns:     the terminal's mode while the program runs: it is put back on every way out.
 * Blocks:   until the program has ended.
 * Threads:  the first one.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/remote.h"

struct session { /* borrowed */
    const struct link *link;
    const struct remote_signals *signals;
    const char *user;        /* NULL: the sandbox's default */
    const char *cwd;         /* NULL: the user's */
    const char *const *argv; /* ends with NULL */
    const char *const *env;  /* "NAME=VALUE", env_n of them */
    int env_n;
    bool input; /* stdin is passed on */
    bool terminal;
    bool detach;
    bool spares_stdout;  /* the program's stdout goes to our stderr */
    uint32_t attach_pid; /* not 0: of a program that runs already; argv is not used */
    bool ends_at_once;
    int keep_alive_s;
};

/* Finds the daemon and a sandbox by its id, or by the beginning of it, and resumes it if it is
 * paused, for so many seconds, which is told on stderr unless -q is given. */
must_check int session_link(const struct cli *cli, const char *word, int resume_s, struct link *out,
                            struct err *err);

/* The line for a sandbox that link_open() has resumed. */
void session_tell_resumed(const struct cli *cli, const struct link *link, int resume_s);

/* The values of a repeated option, in order; at most CLI_OPTIONS_MAX. Returns how many. */
int session_values(const struct cli *cli, const char *option, const char **out);

/* -ENOTTY: a terminal is wanted, and stdin is none. */
must_check int session_run(const struct session *session, struct remote_end *end, struct err *err);

/* The exit code of the whole command after session_run() returned r: that of the program, or one of
 * our own with a sentence on stderr. */
int session_code(int r, const struct remote_end *end, const struct err *err);

/* The last line of stderr, for --json: stdout is the program's. */
void session_print_json(const char *id, int code);

/* Starts the shell of the user that it runs as: a login shell. Ends with NULL. */
extern const char *const session_shell[];

#endif
