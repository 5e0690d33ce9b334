/* internal.h - shared by the two transports of kernels. */
#ifndef INTERPRETER_INTERNAL_H
#define INTERPRETER_INTERNAL_H

#include "inside/interpreter/kernel.h"

struct kernel_ops {
    void (*run)(struct kernel *kernel, const struct kernel_run *run);
    void (*interrupt)(struct kernel *kernel);
    void (*flow)(struct kernel *kernel, bool flows);
    void (*free)(struct kernel *kernel);
};

struct kernel {
    const struct kernel_ops *ops;
    const struct kernel_events *events;
    void *ctx;
};

must_check int jupyter_start(const struct kernel_options *options, struct kernel **out,
                             struct err *err);
must_check int pipe_kernel_start(const struct kernel_options *options, struct kernel **out,
                                 struct err *err);

#endif
