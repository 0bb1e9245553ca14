/* Signatures are compared field by field and sent as they lie in memory; they have no padding. */
#include "exec/signature.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static_assert(sizeof(peali_signature) == 40, "no padding");

peali_signature peali_signature_of(const peali_job *job, uint64_t sequence)
{
    peali_signature s = {sequence, 0, job->count, 0, job->root, (uint8_t)job->kind, (uint8_t)job->type, (uint8_t)job->op,
                         PEALI_SIGNATURE_MAGIC};
    return s;
}

uint64_t peali_signature_hash(const peali_signature *s)
{
    return XXH3_64bits(s, sizeof *s);
}

int peali_signature_equal(const peali_signature *a, const peali_signature *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

int peali_signature_alike(const peali_signature *a, const peali_signature *b)
{
    peali_signature other = *b;
    other.history = a->history;
    return peali_signature_equal(a, &other);
}

static peal_kind kind_of(const peali_signature *s)
{
    return (peal_kind)(s->kind & ~PEALI_SIGNATURE_DEVICE);
}

/* ": count 1000, type float, op sum": the arguments that its kind has. */
static int arguments(const peali_signature *s, char *buf, size_t room)
{
    peal_kind kind = kind_of(s);
    char op[32] = "", root[32] = "";
    if (kind >= PEAL_BARRIER) /* and what is no collective */
        return 0;
    if (kind != PEAL_ALLGATHER && kind != PEAL_BROADCAST)
        snprintf(op, sizeof op, ", op %s", peal_op_name((peal_op)s->op));
    if (kind == PEAL_BROADCAST || kind == PEAL_REDUCE)
        snprintf(root, sizeof root, ", root %d", (int)s->root);
    return snprintf(buf, room, ": count %llu, type %s%s%s", (unsigned long long)s->count, peal_type_name((peal_type)s->type), op,
                    root);
}

static const char *name_of(const peali_signature *s)
{
    switch ((int)kind_of(s)) {
    case PEALI_SIGNATURE_REGISTER: return s->root ? "deregister" : "register";
    case PEALI_SIGNATURE_REFUSED: return "what was refused,";
    default: return peal_kind_name(kind_of(s));
    }
}

const char *peali_signature_words(const peali_signature *s, char *buf)
{
    int n = snprintf(buf, PEALI_SIGNATURE_TEXT, "%s", name_of(s));
    if (s->sequence != PEALI_SIGNATURE_ANY)
        n += snprintf(buf + n, PEALI_SIGNATURE_TEXT - (size_t)n, " number %llu", (unsigned long long)s->sequence);
    n += arguments(s, buf + n, PEALI_SIGNATURE_TEXT - (size_t)n);
    if (s->kind & PEALI_SIGNATURE_DEVICE)
        snprintf(buf + n, PEALI_SIGNATURE_TEXT - (size_t)n, kind_of(s) == PEAL_BARRIER ? " on a stream" : ", on device memory");
    return buf;
}
