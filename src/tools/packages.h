/* packages.h - software that tools install by a name.
 *
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_PACKAGES_H
#define TOOLS_PACKAGES_H

#include "tools/steps.h"

/* Installs a preset of install_packages as a single step: 1 when it is there afterwards, 0 when
 * not. */
must_check int packages_preset(struct steps *steps, const char *preset, struct err *err);

#endif
