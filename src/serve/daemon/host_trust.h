/* host_trust.h - certificate authorities that this machine's operator has added to it: a company's,
 * a mirror's. Sandboxes are to trust them, whatever image they come from.
 *
 * Blocks:   for a few files.
 * Threads:  any.
 */
#ifndef DAEMON_HOST_TRUST_H
#define DAEMON_HOST_TRUST_H

enum { HOST_TRUST_BYTES_MAX = 128 * 1024 }; /* of all together: more are left out, and logged */

#define HOST_TRUST_DIR "/usr/local/share/ca-certificates"

/* Those in HOST_TRUST_DIR, and in a file ("": none), as PEM; "" when there are none. Only
 * certificates are taken of a file, whatever else is in it. The caller frees it. */
char *host_trust_read(const char *extra_path);

#endif
