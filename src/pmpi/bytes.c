/*
 * MPI packs, since only MPI knows its derived types. In the MPIs that Peal is built for a packed element is its bytes alone, in the
 * order of its signature, as one that was sent with MPI_PACKED must meet one that was not.
 */
#include "pmpi/bytes.h"

#include <limits.h>

#include "pmpi/handles.h"

long long peali_bytes_of(long long count, MPI_Datatype type)
{
    MPI_Count each = peali_handles_bytes(type);
    long long all;
    if (each == 0)
        PMPI_Type_size_x(type, &each);
    return __builtin_mul_overflow((long long)each, count, &all) ? LLONG_MAX : all;
}

enum {
    FIELDS = 32, /* that are looked at, whatever a type is built of; what has more is packed */
    LOOK = 8192  /* bytes from which on that is worth a look: for less, packing takes less time */
};

static bool plain(MPI_Datatype type, long long count, int *left);

/* Are its handles MPI's own, not to be freed? Those of Fortran's kinds are. */
static bool basic(int combiner)
{
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_INTEGER || combiner == MPI_COMBINER_F90_REAL ||
           combiner == MPI_COMBINER_F90_COMPLEX;
}

/* Each field is plain and begins where the one before it ends. LENS and AT are those of a struct. */
static bool in_order(int combiner, int n, const MPI_Datatype *fields, const int *lens, const MPI_Aint *at, int *left)
{
    bool all = true;
    MPI_Aint end = 0;
    for (int i = 0; i < n && all; i++) {
        all = plain(fields[i], INT_MAX, left) && (combiner != MPI_COMBINER_STRUCT || at[i] == end);
        if (all && combiner == MPI_COMBINER_STRUCT)
            end += (MPI_Aint)peali_bytes_of(lens[i], fields[i]);
    }
    return all;
}

/* Types that are built in ways which may permute them are packed, without a further look. */
static bool built_in_order(MPI_Datatype type, int integers, int addresses, int types, int combiner, int *left)
{
    int ints[FIELDS + 1];
    MPI_Aint at[FIELDS];
    MPI_Datatype fields[FIELDS];
    bool known = combiner == MPI_COMBINER_CONTIGUOUS || combiner == MPI_COMBINER_DUP || combiner == MPI_COMBINER_STRUCT;
    if (!known || types > *left)
        return false;
    *left -= types;
    PMPI_Type_get_contents(type, integers, addresses, types, ints, at, fields);
    bool ordered = in_order(combiner, types, fields, ints + 1, at, left);
    for (int i = 0; i < types; i++)
        if (!basic(peali_handles_built(fields[i], &integers, &addresses, &(int){0})))
            PMPI_Type_free(&fields[i]);
    return ordered;
}

/* As peali_bytes_plain, of COUNT elements. The next one follows at once: a pair type has a gap at its end. LEFT: of FIELDS. */
static bool plain(MPI_Datatype type, long long count, int *left)
{
    int integers, addresses, types, size, combiner = peali_handles_built(type, &integers, &addresses, &types);
    MPI_Aint first, extent;
    PMPI_Type_size(type, &size);
    PMPI_Type_get_extent(type, &first, &extent);
    if (extent != size)
        return false;
    bool looks = (double)size * (double)count >= LOOK;
    return basic(combiner) || (looks && built_in_order(type, integers, addresses, types, combiner, left));
}

bool peali_bytes_plain(const peali_elements *at)
{
    int left = FIELDS;
    return peali_handles_bytes(at->type) > 0 || plain(at->type, at->count, &left);
}

/* AT as elements that do not begin at MPI_BOTTOM, where MPICH neither packs nor unpacks; their type is the caller's to free. */
static int off_bottom(peali_elements *at, void *address)
{
    MPI_Aint here;
    MPI_Datatype moved;
    PMPI_Get_address(address, &here);
    MPI_Aint back = -here;
    int error = PMPI_Type_create_hindexed(1, &(int){(int)at->count}, &back, at->type, &moved);
    if (error != MPI_SUCCESS)
        return error;
    *at = (peali_elements){address, 1, moved, at->comm};
    return PMPI_Type_commit(&at->type);
}

int peali_bytes_pack(const peali_elements *elements, void *packed, size_t bytes)
{
    int position = 0;
    peali_elements at = *elements;
    bool bottom = at.buf == MPI_BOTTOM;
    int error = bottom ? off_bottom(&at, packed) : MPI_SUCCESS;
    if (error == MPI_SUCCESS)
        error = PMPI_Pack(at.buf, (int)at.count, at.type, packed, (int)bytes, &position, at.comm);
    if (at.type != elements->type)
        PMPI_Type_free(&at.type);
    return error;
}

int peali_bytes_unpack(const peali_elements *elements, void *packed, size_t bytes)
{
    int position = 0;
    peali_elements at = *elements;
    bool bottom = at.buf == MPI_BOTTOM;
    int error = bottom ? off_bottom(&at, packed) : MPI_SUCCESS;
    if (error == MPI_SUCCESS)
        error = PMPI_Unpack(packed, (int)bytes, &position, at.buf, (int)at.count, at.type, at.comm);
    if (at.type != elements->type)
        PMPI_Type_free(&at.type);
    return error;
}
