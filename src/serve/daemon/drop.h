/* drop.h - from root to the serving user, for good. */
#ifndef DAEMON_DROP_H
#define DAEMON_DROP_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "serve/daemon/prepare_host.h"

/* Afterwards: no capability, none in the bounding set, no groups but the user's own, no way to gain
 * any by exec. Checks that root cannot be regained. */
must_check int drop_privileges(const struct server_user *who, struct err *err);

#endif
