#include "inside/interpreter/internal.h"
#include "inside/interpreter/snippet.h"

int kernel_start(const struct kernel_options *options, struct kernel **out, struct err *err)
{
    return options->spec->transport == SPEC_PIPE ? pipe_kernel_start(options, out, err)
                                                 : jupyter_start(options, out, err);
}

bool kernel_has_env(const struct spec *spec)
{
    return spec->transport == SPEC_PIPE || snippet_speaks(spec->language);
}

void kernel_run(struct kernel *kernel, const struct kernel_run *run)
{
    kernel->ops->run(kernel, run);
}

void kernel_interrupt(struct kernel *kernel)
{
    kernel->ops->interrupt(kernel);
}

void kernel_flow(struct kernel *kernel, bool flows)
{
    kernel->ops->flow(kernel, flows);
}

void kernel_free(struct kernel *kernel)
{
    if (kernel) {
        kernel->ops->free(kernel);
    }
}
