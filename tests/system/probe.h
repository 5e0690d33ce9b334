/* probe.h - what the tests and the probe agree on. */
#ifndef TESTS_SYSTEM_PROBE_H
#define TESTS_SYSTEM_PROBE_H

enum { PROBE_BYTES = 32 * 1024 }; /* longest command and longest answer */

#endif
