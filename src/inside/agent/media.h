/* media.h - the headers that tell a browser what a file is. Pure. */
#ifndef AGENT_MEDIA_H
#define AGENT_MEDIA_H

#include <stddef.h>

/* By the name's extension; application/octet-stream when it says nothing. */
const char *media_type(const char *path);

/* inline; filename=... with the path's last name: bare, quoted, or percent-encoded, as it needs. */
void media_disposition(const char *path, char *out, size_t size);

#endif
