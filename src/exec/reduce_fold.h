/*
 * The loops of one element type: a template, included once for each with
 *   T        the type as it lies in memory, W the type that it is reduced in,
 *   OF(x)    the name x made this type's own: OF(take) makes a W of a T, OF(apply) reduces two, OF(give) makes the T to be stored,
 *   LOCKSTEP how many sources are read at a time, 2 or GROUP.
 * OP and K are constants wherever the loop is called, so every switch is gone from the compiled loop.
 */

/* A destination that is a source exactly is read before it is written, element by element: hence ivdep. */
static INLINE void OF(loop)(peal_op op, const struct step *s, int k)
{
    const T *in[GROUP];
    T *out = s->out, *also = k == 2 ? s->also : NULL;
    size_t count = s->count; /* no field: a store of a byte, or of the type that it has, could change it */
    for (int n = 0; n < k; n++)
        in[n] = s->in[n];
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        W x = OF(take)(op, in[0][i]);
        for (int n = 1; n < k; n++)
            x = OF(apply)(op, x, OF(take)(op, in[n][i]));
        out[i] = OF(give)(op, x);
        if (also)
            also[i] = OF(give)(op, x);
    }
}

static INLINE void OF(fold)(peal_op op, const struct step *s)
{
    if (LOCKSTEP == 2 || s->k == 2)
        OF(loop)(op, s, 2);
    else if (s->k == 3)
        OF(loop)(op, s, 3);
    else
        OF(loop)(op, s, 4);
}

#include "exec/reduce_few.h"

#undef T
#undef W
#undef OF
#undef LOCKSTEP
