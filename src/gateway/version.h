/* version.h - the revisions of MCP that clients may speak: those with sessions. */
#ifndef GATEWAY_VERSION_H
#define GATEWAY_VERSION_H

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

bool version_is_known(struct str name);

/* What `initialize` is answered: the one that was asked for, or the newest. */
const char *version_agree(const char *asked);

/* Newest first. */
json_t *version_names(void);

#endif
