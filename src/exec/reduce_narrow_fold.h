/*
 * The loops of a floating-point type that is narrower than float: a template, included once for each with
 *   T      the type as it lies in memory, an unsigned integer,
 *   V      a vector of it, which makes PARTS vectors of float,
 *   OF(x)  the name x made this type's own: OF(unpack) and OF(pack),
 *   TARGET instructions beyond those that the file is compiled for, or nothing.
 * As reduce_fold.h, but for partial results, which stay float: the PARTS vectors of one lie beside each other.
 */

/* NOUT destinations get the result; 0: it is partial. */
TARGET static INLINE void OF(vector)(peal_op op, const struct step *s, int k, bool first, int nout, size_t at)
{
    floats x[PARTS], y[PARTS];
    V v;
    for (int i = 0; i < k; i++) {
        floats *to = i == 0 ? x : y;
        if (i == 0 && !first) {
            memcpy(x, (const float *)s->in[0] + at, sizeof x);
        } else {
            memcpy(&v, (const T *)s->in[i] + at, sizeof v);
            OF(unpack)(v, to);
        }
        for (int part = 0; i > 0 && part < PARTS; part++)
            x[part] = apply_floats(op, x[part], y[part]);
    }
    if (nout == 0) {
        memcpy((float *)s->out + at, x, sizeof x);
        return;
    }
    v = OF(pack)(x);
    memcpy((T *)s->out + at, &v, sizeof v);
    if (nout == 2)
        memcpy((T *)s->also + at, &v, sizeof v);
}

/* What is left at the end is made up to a vector. Partial results have room for it, since a block holds whole vectors. */
TARGET static INLINE void OF(loop)(peal_op op, const struct step *s, int k, bool first, int nout)
{
    const struct step step = *s; /* in registers: no store can change it */
    enum { ELEMENTS = sizeof(V) / sizeof(T) };
    size_t at = 0;
#pragma GCC unroll 2 /* bench_reduce on EPYC 9004: 0.95 of STREAM instead of 0.91 at 64 KiB */
    for (; at + ELEMENTS <= step.count; at += ELEMENTS)
        OF(vector)(op, &step, k, first, nout, at);
    size_t left_bytes = (s->count - at) * sizeof(T);
    if (left_bytes == 0)
        return;
    V in[GROUP], out;
    struct step rest = {.out = nout ? (void *)&out : (float *)s->out + at, .also = &out};
    for (int i = 0; i < k; i++) {
        in[i] = (V){0};
        if (i == 0 && !first)
            rest.in[0] = (const float *)s->in[0] + at;
        else
            rest.in[i] = memcpy(&in[i], (const T *)s->in[i] + at, left_bytes);
    }
    OF(vector)(op, &rest, k, first, nout, 0);
    if (nout > 0)
        memcpy((T *)s->out + at, &out, left_bytes);
    if (nout == 2)
        memcpy((T *)s->also + at, &out, left_bytes);
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

TARGET static INLINE V OF(quotient)(V v, float n)
{
    floats x[PARTS];
    OF(unpack)(v, x);
    for (int part = 0; part < PARTS; part++)
        x[part] /= n;
    return OF(pack)(x);
}

TARGET static INLINE void OF(divide)(void *vector, size_t count, int32_t n)
{
    T *x = vector;
    size_t at = 0;
    V v = {0};
    for (; at + sizeof v / sizeof *x <= count; at += sizeof v / sizeof *x) {
        memcpy(&v, x + at, sizeof v);
        v = OF(quotient)(v, (float)n);
        memcpy(x + at, &v, sizeof v);
    }
    memcpy(&v, x + at, (count - at) * sizeof *x);
    v = OF(quotient)(v, (float)n);
    memcpy(x + at, &v, (count - at) * sizeof *x);
}

#undef OF
#undef TARGET
#undef T
#undef V
#undef PARTS
