/*
 * MPI packs, since only MPI knows its derived types. In the MPIs that Peal is built for a packed element is its bytes alone, in the
 * order of its signature, as one that was sent with MPI_PACKED must meet one that was not.
 */
#include "pmpi/bytes.h"

long long peali_bytes_of(int count, MPI_Datatype type)
{
    MPI_Count each = 0;
    PMPI_Type_size_x(type, &each);
    return (long long)each * count;
}

/* A derived type may be permuted inside, a pair type has a gap at its end. */
bool peali_bytes_plain(MPI_Datatype type)
{
    int integers, addresses, types, combiner, size;
    MPI_Aint first, extent;
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if (combiner != MPI_COMBINER_NAMED)
        return false;
    PMPI_Type_size(type, &size);
    PMPI_Type_get_extent(type, &first, &extent);
    return first == 0 && extent == size;
}

/* AT as elements that do not begin at MPI_BOTTOM, where MPICH neither packs nor unpacks; their type is the caller's to free. */
static int off_bottom(peali_elements *at, void *address)
{
    MPI_Aint here;
    MPI_Datatype moved;
    PMPI_Get_address(address, &here);
    MPI_Aint back = -here;
    int error = PMPI_Type_create_hindexed(1, &at->count, &back, at->type, &moved);
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
        error = PMPI_Pack(at.buf, at.count, at.type, packed, (int)bytes, &position, at.comm);
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
        error = PMPI_Unpack(packed, (int)bytes, &position, at.buf, at.count, at.type, at.comm);
    if (at.type != elements->type)
        PMPI_Type_free(&at.type);
    return error;
}
