/* snippet.h - the code that a Jupyter kernel runs before and after a cell: variables, randomness.
 *
 * The protocol has no field for an environment, so a program in the kernel's own language sets it.
 * None leaves a name in the user's namespace.
 */
#ifndef INTERPRETER_SNIPPET_H
#define INTERPRETER_SNIPPET_H

#include <stdbool.h>

#include "inside/interpreter/kernel.h"

bool snippet_speaks(const char *language);

/* The program to be run before the cell; NULL when there is nothing to do, or no way to do it. The
 * caller frees. */
char *snippet_prepare(const char *language, const struct kernel_run *run);

/* Puts back what snippet_prepare() changed for one run. */
char *snippet_restore(const char *language);

#endif
