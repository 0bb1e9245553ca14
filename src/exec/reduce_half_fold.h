/*
 * The loops of a 16-bit floating-point type: a template, included once for each with
 *   OF(x)  the name x made this type's own: OF(unpack) and OF(pack),
 *   TARGET instructions beyond those that the file is compiled for, or nothing.
 * As reduce_fold.h, but for partial results, which stay float: the two vectors of one of 16-bit elements lie beside each other.
 */

/* NOUT destinations get the result; 0: it is partial. */
TARGET static INLINE void OF(vector)(peal_op op, const struct step *s, int k, bool first, int nout, size_t at)
{
    floats x[2], y[2];
    halves h;
    for (int i = 0; i < k; i++) {
        floats *to = i == 0 ? x : y;
        if (i == 0 && !first) {
            memcpy(&x[0], (const float *)s->in[0] + at, sizeof x[0]);
            memcpy(&x[1], (const float *)s->in[0] + at + FLOATS, sizeof x[1]);
        } else {
            memcpy(&h, (const uint16_t *)s->in[i] + at, sizeof h);
            OF(unpack)(h, to);
        }
        for (int part = 0; i > 0 && part < 2; part++)
            x[part] = apply_floats(op, x[part], y[part]);
    }
    if (nout == 0) {
        memcpy((float *)s->out + at, &x[0], sizeof x[0]);
        memcpy((float *)s->out + at + FLOATS, &x[1], sizeof x[1]);
        return;
    }
    h = OF(pack)(x);
    memcpy((uint16_t *)s->out + at, &h, sizeof h);
    if (nout == 2)
        memcpy((uint16_t *)s->also + at, &h, sizeof h);
}

/* What is left at the end is made up to a vector. Partial results have room for it, since a block holds whole vectors. */
TARGET static INLINE void OF(loop)(peal_op op, const struct step *s, int k, bool first, int nout)
{
    const struct step step = *s; /* in registers: no store can change it */
    size_t at = 0;
#pragma GCC unroll 2 /* bench_reduce on EPYC 9004: 0.95 of STREAM instead of 0.91 at 64 KiB */
    for (; at + HALVES <= step.count; at += HALVES)
        OF(vector)(op, &step, k, first, nout, at);
    size_t left_bytes = (s->count - at) * sizeof(uint16_t);
    if (left_bytes == 0)
        return;
    halves in[GROUP], out;
    struct step rest = {.out = nout ? (void *)&out : (float *)s->out + at, .also = &out};
    for (int i = 0; i < k; i++) {
        in[i] = (halves){0};
        if (i == 0 && !first)
            rest.in[0] = (const float *)s->in[0] + at;
        else
            rest.in[i] = memcpy(&in[i], (const uint16_t *)s->in[i] + at, left_bytes);
    }
    OF(vector)(op, &rest, k, first, nout, 0);
    if (nout > 0)
        memcpy((uint16_t *)s->out + at, &out, left_bytes);
    if (nout == 2)
        memcpy((uint16_t *)s->also + at, &out, left_bytes);
}

TARGET static INLINE void OF(fold)(peal_op op, const struct step *s)
{
    if (!s->last)
        s->first ? OF(loop)(op, s, GROUP, true, 0) : OF(loop)(op, s, GROUP, false, 0);
    else if (s->also)
        OF(loop)(op, s, 2, true, 2);
    else if (s->k == 2)
        s->first ? OF(loop)(op, s, 2, true, 1) : OF(loop)(op, s, 2, false, 1);
    else if (s->k == 3)
        s->first ? OF(loop)(op, s, 3, true, 1) : OF(loop)(op, s, 3, false, 1);
    else
        s->first ? OF(loop)(op, s, 4, true, 1) : OF(loop)(op, s, 4, false, 1);
}

TARGET static INLINE halves OF(quotient)(halves h, float n)
{
    floats x[2];
    OF(unpack)(h, x);
    x[0] /= n;
    x[1] /= n;
    return OF(pack)(x);
}

TARGET static INLINE void OF(divide)(void *vector, size_t count, int32_t n)
{
    uint16_t *x = vector;
    size_t at = 0;
    halves h = {0};
    for (; at + HALVES <= count; at += HALVES) {
        memcpy(&h, x + at, sizeof h);
        h = OF(quotient)(h, (float)n);
        memcpy(x + at, &h, sizeof h);
    }
    memcpy(&h, x + at, (count - at) * sizeof *x);
    h = OF(quotient)(h, (float)n);
    memcpy(x + at, &h, (count - at) * sizeof *x);
}

#undef OF
#undef TARGET
