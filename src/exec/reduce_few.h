/*
 * Reduces a few elements, one by one and from all sources at once: a template, as reduce_fold.h. It spares calls that are all
 * latency the blocks and steps.
 */

static INLINE void OF(few)(peal_op op, void *const *dst, int ndst, const void *const *src, int nsrc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        W x = OF(take)(op, ((const T *)src[0])[i]);
        for (int k = 1; k < nsrc; k++)
            x = OF(apply)(op, x, OF(take)(op, ((const T *)src[k])[i]));
        T result = OF(give)(op, x);
        for (int m = 0; m < ndst; m++)
            memcpy((T *)dst[m] + i, &result, sizeof result); /* for T might be DST's, so gcc 12 makes no scattered stores */
    }
}
