/*
 * One table of types and one of ops, searched from the front, where the common ones stand.
 *
 * A type is known by what its elements mean; its width is asked of MPI, since a Fortran INTEGER or an MPI_AINT has the width that
 * this MPI was built with. The ops that a type takes are those of MPI 4.1, section 6.9.2: a byte has no sum, a Fortran integer
 * no logic, a bool only logic, a complex number no order, and characters have none at all. A Fortran LOGICAL is passed on: what
 * its bits mean is the compiler's affair.
 */
#include <float.h>
#include <stdbool.h>

#include "base/thread.h"
#include "pmpi/behind.h"
#include "pmpi/handles.h"

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

/* INTEGER: of Fortran, or of both languages. LONG, LONG_COMPLEX: C's long double, which Fortran's 16 bytes are not everywhere. */
enum sort { SIGNED, UNSIGNED, INTEGER, REAL, LONG, COMPLEX, LONG_COMPLEX, BYTE, BOOL, CHARACTER };

static struct named {
    MPI_Datatype mpi;
    enum sort sort;
    peal_type type; /* PEAL_TYPE_COUNT: no Peal type of that width, or characters */
} named[] = {
    {MPI_DOUBLE, REAL, 0},
    {MPI_INT, SIGNED, 0},
    {MPI_FLOAT, REAL, 0},
    {MPI_LONG, SIGNED, 0},
    {MPI_DOUBLE_PRECISION, REAL, 0},
    {MPI_INTEGER, INTEGER, 0},
    {MPI_REAL, REAL, 0},
    {MPI_REAL8, REAL, 0},
    {MPI_INT64_T, SIGNED, 0},
    {MPI_UINT64_T, UNSIGNED, 0},
    {MPI_LONG_LONG, SIGNED, 0}, /* MPI_LONG_LONG_INT is the same type */
    {MPI_UNSIGNED_LONG_LONG, UNSIGNED, 0},
    {MPI_UNSIGNED, UNSIGNED, 0},
    {MPI_UNSIGNED_LONG, UNSIGNED, 0},
    {MPI_INT32_T, SIGNED, 0},
    {MPI_UINT32_T, UNSIGNED, 0},
    {MPI_SHORT, SIGNED, 0},
    {MPI_UNSIGNED_SHORT, UNSIGNED, 0},
    {MPI_SIGNED_CHAR, SIGNED, 0},
    {MPI_UNSIGNED_CHAR, UNSIGNED, 0},
    {MPI_INT8_T, SIGNED, 0},
    {MPI_UINT8_T, UNSIGNED, 0},
    {MPI_INT16_T, SIGNED, 0},
    {MPI_UINT16_T, UNSIGNED, 0},
    {MPI_AINT, INTEGER, 0},
    {MPI_OFFSET, INTEGER, 0},
    {MPI_COUNT, INTEGER, 0},
    {MPI_BYTE, BYTE, 0},
    {MPI_CHAR, CHARACTER, 0},
    {MPI_C_BOOL, BOOL, 0},
    {MPI_CXX_BOOL, BOOL, 0},
    {MPI_REAL4, REAL, 0},
    {MPI_INTEGER1, INTEGER, 0},
    {MPI_INTEGER2, INTEGER, 0},
    {MPI_INTEGER4, INTEGER, 0},
    {MPI_INTEGER8, INTEGER, 0},
    {MPI_REAL16, REAL, 0},
    {MPI_LONG_DOUBLE, LONG, 0},
    {MPI_C_FLOAT_COMPLEX, COMPLEX, 0}, /* MPI_C_COMPLEX is the same type */
    {MPI_C_DOUBLE_COMPLEX, COMPLEX, 0},
    {MPI_COMPLEX, COMPLEX, 0},
    {MPI_DOUBLE_COMPLEX, COMPLEX, 0},
    {MPI_COMPLEX8, COMPLEX, 0},
    {MPI_COMPLEX16, COMPLEX, 0},
    {MPI_COMPLEX32, COMPLEX, 0},
    {MPI_CXX_FLOAT_COMPLEX, COMPLEX, 0},
    {MPI_CXX_DOUBLE_COMPLEX, COMPLEX, 0},
    {MPI_C_LONG_DOUBLE_COMPLEX, LONG_COMPLEX, 0},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, LONG_COMPLEX, 0},
#if defined(MPI_REAL2)
    {MPI_REAL2, REAL, 0},
#endif
#if defined(MPIX_C_FLOAT16)
    {MPIX_C_FLOAT16, REAL, 0},
#endif
};

static const struct known {
    MPI_Op mpi;
    peal_op op;
} ops[] = {
    {MPI_SUM, PEAL_SUM},   {MPI_MAX, PEAL_MAX},   {MPI_MIN, PEAL_MIN}, {MPI_PROD, PEAL_PROD}, {MPI_LAND, PEAL_LAND},
    {MPI_LOR, PEAL_LOR},   {MPI_LXOR, PEAL_LXOR}, {MPI_BAND, PEAL_BAND}, {MPI_BOR, PEAL_BOR},   {MPI_BXOR, PEAL_BXOR},
};

enum { NAMED = sizeof(named) / sizeof(named[0]), OPS = sizeof(ops) / sizeof(ops[0]) };

static int lengths[NAMED]; /* bytes of an element; 0: they do not lie one right behind the other */

static peal_type integer(enum sort sort, int bytes)
{
    static const peal_type wide[9] = {[1] = PEAL_INT8, [2] = PEAL_INT16, [4] = PEAL_INT32, [8] = PEAL_INT64};
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return PEAL_TYPE_COUNT;
    return wide[bytes] + (sort == UNSIGNED); /* PEAL_UINTn follows PEAL_INTn */
}

/* Fortran's 16 bytes are IEEE's quadruple precision. */
static peal_type real(int bytes)
{
    switch (bytes) {
    case 2: return PEAL_FP16;
    case sizeof(float): return PEAL_FLOAT;
    case sizeof(double): return PEAL_DOUBLE;
    default: return bytes == sizeof(long double) && LDBL_MANT_DIG == 113 ? PEAL_LONG_DOUBLE : PEAL_TYPE_COUNT;
    }
}

static peal_type complex_of(peal_type part)
{
    switch (part) {
    case PEAL_FLOAT: return PEAL_COMPLEX_FLOAT;
    case PEAL_DOUBLE: return PEAL_COMPLEX_DOUBLE;
    case PEAL_LONG_DOUBLE: return PEAL_COMPLEX_LONG_DOUBLE;
    default: return PEAL_TYPE_COUNT;
    }
}

static peal_type of_width(enum sort sort, int bytes)
{
    switch (sort) {
    case BYTE: return PEAL_BYTE;
    case BOOL: return bytes == 1 ? PEAL_BOOL : PEAL_TYPE_COUNT;
    case CHARACTER: return PEAL_TYPE_COUNT;
    case REAL: return real(bytes);
    case COMPLEX: return complex_of(real(bytes / 2));
    case LONG: return bytes == sizeof(long double) ? PEAL_LONG_DOUBLE : PEAL_TYPE_COUNT;
    case LONG_COMPLEX: return bytes == 2 * sizeof(long double) ? PEAL_COMPLEX_LONG_DOUBLE : PEAL_TYPE_COUNT;
    default: return integer(sort, bytes);
    }
}

void peali_handles_init(void)
{
    for (int i = 0; i < NAMED; i++) {
        int bytes = 0;
        MPI_Aint first = 0, extent = 0;
        if (named[i].mpi != MPI_DATATYPE_NULL) { /* what this MPI's Fortran does not have */
            PMPI_Type_size(named[i].mpi, &bytes);
            PMPI_Type_get_extent(named[i].mpi, &first, &extent);
        }
        named[i].type = of_width(named[i].sort, bytes);
        lengths[i] = first == 0 && extent == bytes ? bytes : 0;
    }
}

int peali_handles_bytes(MPI_Datatype mpi)
{
    for (int i = 0; i < NAMED; i++)
        if (named[i].mpi == mpi)
            return lengths[i];
    return 0;
}

static enum peali_pass find_op(MPI_Op mpi, peal_op *op)
{
    for (int i = 0; i < OPS; i++)
        if (ops[i].mpi == mpi) {
            *op = ops[i].op;
            return PEALI_TAKE;
        }
    if (mpi == MPI_OP_NULL)
        return PEALI_PASS_HANDLE;
    if (mpi == MPI_MINLOC || mpi == MPI_MAXLOC || mpi == MPI_REPLACE || mpi == MPI_NO_OP)
        return PEALI_PASS_OP;
    return PEALI_PASS_USER_OP;
}

int peali_handles_built(MPI_Datatype type, int *integers, int *addresses, int *types)
{
    int combiner;
#if MPI_VERSION >= 4
    if (peali_behind.type_get_envelope_c) {
        MPI_Count ints, at, counts, fields;
        peali_behind.type_get_envelope_c(type, &ints, &at, &counts, &fields, &combiner);
        *integers = (int)ints;
        *addresses = (int)at;
        *types = (int)fields;
        return counts > 0 ? PEALI_HANDLES_LARGE : combiner;
    }
#endif
    PMPI_Type_get_envelope(type, integers, addresses, types, &combiner);
    return combiner;
}

static enum peali_pass other_type(MPI_Datatype mpi)
{
    const MPI_Datatype pairs[] = {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
                                  MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER};
    int integers, addresses, types;
    if (mpi == MPI_DATATYPE_NULL)
        return PEALI_PASS_HANDLE;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (pairs[i] == mpi)
            return PEALI_PASS_PAIR;
    const bool is_named = peali_handles_built(mpi, &integers, &addresses, &types) == MPI_COMBINER_NAMED;
    return is_named ? PEALI_PASS_TYPE : PEALI_PASS_DERIVED;
}

static enum peali_pass find_type(MPI_Datatype mpi, struct named *type)
{
    for (int i = 0; i < NAMED; i++)
        if (named[i].mpi == mpi && named[i].type != PEAL_TYPE_COUNT) {
            *type = named[i];
            return PEALI_TAKE;
        }
    return other_type(mpi);
}

static int takes(const struct named *type, peal_op op)
{
    int logical = op == PEAL_LAND || op == PEAL_LOR || op == PEAL_LXOR;
    return peal_op_takes(op, type->type) && !(logical && type->sort == INTEGER);
}

/* What a thread found last is most often what it looks for. MPI's own handles are for ever. */
enum peali_pass peali_handles_find(MPI_Datatype mpi_type, MPI_Op mpi_op, peal_type *type, peal_op *op)
{
    static PEALI_THREAD_LOCAL struct {
        bool found;
        MPI_Datatype mpi_type;
        MPI_Op mpi_op;
        peal_type type;
        peal_op op;
    } last;
    struct named found;
    if (last.found && last.mpi_type == mpi_type && last.mpi_op == mpi_op) {
        *type = last.type;
        *op = last.op;
        return PEALI_TAKE;
    }
    enum peali_pass why = find_type(mpi_type, &found);
    if (why == PEALI_TAKE)
        why = find_op(mpi_op, op);
    if (why != PEALI_TAKE)
        return why;
    *type = found.type;
    if (!takes(&found, *op))
        return PEALI_PASS_OP_TYPE;
    last.found = true;
    last.mpi_type = mpi_type;
    last.mpi_op = mpi_op;
    last.type = *type;
    last.op = *op;
    return PEALI_TAKE;
}
