/* warm.h - programs of the `base` template that a first command would wait for: their files are
 * read into the kernel's page cache, once for the host.
 *
 * All sandboxes of the template and of those over it share these pages. They are read and nothing
 * is run; no file of a tenant's template is touched. Runs as root, in the process that prepares
 * templates: the pages are charged to no sandbox. May block for the time that the disk takes.
 */
#ifndef DAEMON_WARM_H
#define DAEMON_WARM_H

#include "serve/daemon/paths.h"

/* A template that is not ready, a file that is not there and a host with little memory are no
 * failures: the first command reads what it needs. */
void warm_base(const struct paths *paths);

#endif
