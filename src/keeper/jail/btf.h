/* btf.h - finds a function in the kernel's description of its types (/sys/kernel/btf/vmlinux).
 *
 * Pure. The bytes come from the kernel and are trusted; a length that leads out of them is an error
 * nevertheless. An unknown kind of type ends the search, because its length is unknown.
 */
#ifndef JAIL_BTF_H
#define JAIL_BTF_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/compiler.h"

/* The number of that function's type. -ENOENT when there is none, -EPROTO when the bytes are not
 * such a description. */
must_check int64_t btf_function(const uint8_t *bytes, size_t n, const char *name);

#endif
