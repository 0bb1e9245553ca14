/* Public memory counts who looks at it, because a rank may leave its communicator while a slower one still reads a flag. */
#include "exec/reach.h"

peali_public *peali_public_create(long readers, int32_t areas, size_t land_bytes)
{
    peali_arena arena = {0};
    peali_public *p = peali_arena_get(&arena, 1, sizeof *p);
    if (!p)
        return NULL;
    *p = (peali_public){.refs = readers, .areas = areas, .land_bytes = land_bytes};
    if (areas > 0) {
        p->land = peali_arena_get(&arena, (size_t)areas, land_bytes);
        p->land_flags = peali_arena_get(&arena, (size_t)areas * PEALI_REACH_SLOTS, sizeof *p->land_flags);
    }
    if (areas > 0 && (!p->land || !p->land_flags)) {
        peali_arena_free(&arena);
        return NULL;
    }
    p->arena = arena;
    return p;
}

void peali_public_drop(peali_public *shown)
{
    peali_arena arena = shown->arena; /* it lies in its own arena */
    peali_arena_free(&arena);
}

void peali_public_release(peali_public *shown)
{
    /* The last release acquires what every other one released, so nobody reads freed memory. */
    if (__atomic_sub_fetch(&shown->refs, 1, __ATOMIC_ACQ_REL) == 0)
        peali_public_drop(shown);
}
