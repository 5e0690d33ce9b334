/* volume.h - the content of a volume over HTTP, for the daemon only: /volumecontent/{id}/{path,
 * dir,file} on its own connections, in a jail that has the volume at CHANNEL_VOLUME.
 *
 * The first such request makes that place the agent's root, for good: from then on no path leaves
 * the volume, whatever links it holds. A sandbox's agent is never asked this.
 */
#ifndef AGENT_VOLUME_H
#define AGENT_VOLUME_H

#include "inside/agent/internal.h"

/* Whether the request is one; errors of this API have texts for codes. */
bool volume_is(const struct http_request *req);
bool volume_handle(struct agent *agent, struct http_exchange *ex);

#endif
