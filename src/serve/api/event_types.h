/* event_types.h - the names of events, as lists of the form ",type,type,". Pure. */
#ifndef API_EVENT_TYPES_H
#define API_EVENT_TYPES_H

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum { EVENT_TYPES_BYTES_MAX = 512 }; /* a list that names each once fits */

/* Appends a type that is not in the list yet. -EINVAL when there is no such type. */
must_check int event_types_add(struct buf *list, struct str type);

/* "sandbox.lifecycle.created, ...": for sentences. */
extern const char event_types_known[];

#endif
