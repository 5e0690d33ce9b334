/* launch.h - puts the program into the background, and reports its start to the caller.
 *
 * The SDK waits for the command's end, and for its outputs to be closed. So the command forks: the
 * child gets a session of its own and the log as its outputs, and tells the parent over a socket
 * when all is up, or why it cannot be. A parent that is killed before closes that socket.
 */
#ifndef GATEWAY_LAUNCH_H
#define GATEWAY_LAUNCH_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

/* Returns in the child alone, with the socket to report on. The parent ends with the report: its
 * text on standard error, and status 0 or 1. Fails before there is a child. */
must_check int launch(const char *log_path, struct err *err);

/* `fd` -1: the report goes to standard error only. */
void launch_report_up(int fd);
void launch_report_failure(int fd, const char *why, struct str said);

/* Makes the directories above a file. */
must_check int launch_directories(const char *path, struct err *err);

#endif
