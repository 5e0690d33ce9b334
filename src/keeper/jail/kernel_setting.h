/* kernel_setting.h - writes settings of the kernel: files below /proc, and of control groups.
 *
 * Owns:    nothing.
 * Blocks:  for one kernel write.
 * Threads: any.
 */
#ifndef JAIL_KERNEL_SETTING_H
#define JAIL_KERNEL_SETTING_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Writes `value` to the file `name` in dir_fd. -ENOENT when the kernel has no such setting. */
must_check int kernel_setting_write(int dir_fd, const char *name, const char *value,
                                    struct err *err);
must_check int kernel_setting_write_number(int dir_fd, const char *name, uint64_t value,
                                           struct err *err);

/* The same for a setting that not all kernels have: 0 when it is missing. */
must_check int kernel_setting_write_if(int dir_fd, const char *name, const char *value,
                                       struct err *err);
must_check int kernel_setting_write_number_if(int dir_fd, const char *name, uint64_t value,
                                              struct err *err);

#endif
