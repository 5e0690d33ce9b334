/* btf.h - finding a function in what the kernel tells of its own types (/sys/kernel/btf/vmlinux).
 *
 * Pure. The bytes are the kernel's, which is believed; a length that leads out of them is an error
 * all the same. Kinds of types that are not known here end the search: how long they are is not
 * known either.
 */
#ifndef JAIL_BTF_H
#define JAIL_BTF_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/compiler.h"

/* The number of that function's type; -ENOENT when there is none, -EPROTO for bytes that are no
 * such description. */
must_check int64_t btf_function(const uint8_t *bytes, size_t n, const char *name);

#endif
