#include "interpreter/internal.h"
#include <errno.h>
int pipe_kernel_start(const struct kernel_options *options, struct kernel **out, struct err *err)
{
    (void)options, (void)out;
    return err_set(err, ENOSYS, "x");
}
