/* call.h - what call.c and upload.c share. */
#ifndef CLI_CALL_H
#define CLI_CALL_H

#include "cli/cli.h"

/* A connection to the daemon. */
must_check int endpoint_dial(const struct endpoint *endpoint, struct err *err);

#endif
