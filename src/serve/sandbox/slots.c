/* slots.c - uid ranges in use, as a bitmap. A range is taken while its jail's processes live. */
#include <string.h>

#include "lib/base/encode.h"
#include "serve/sandbox/internal.h"

void slots_begin(struct slots *slots, const char *instance)
{
    uint8_t digest[SHA256_BYTES];
    uint32_t place;

    sha256(instance, strlen(instance), digest);
    memcpy(&place, digest, sizeof(place));
    slots->next = place % KEEPER_UID_SLOTS;
}

static bool is_used(const struct slots *slots, uint32_t slot)
{
    return slots->used[slot / 64] >> (slot % 64) & 1;
}

uint32_t slots_take(struct slots *slots)
{
    for (uint32_t tried = 0; tried < KEEPER_UID_SLOTS; tried++) {
        uint32_t slot = slots->next;
        slots->next = (slot + 1) % KEEPER_UID_SLOTS;
        if (!is_used(slots, slot)) {
            slots_mark(slots, slot);
            return slot;
        }
    }
    return SLOT_NONE;
}

void slots_mark(struct slots *slots, uint32_t slot)
{
    if (slot < KEEPER_UID_SLOTS) {
        slots->used[slot / 64] |= (uint64_t)1 << (slot % 64);
    }
}

void slots_give(struct slots *slots, uint32_t slot)
{
    if (slot < KEEPER_UID_SLOTS) {
        slots->used[slot / 64] &= ~((uint64_t)1 << (slot % 64));
    }
}
