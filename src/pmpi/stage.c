/* Shadows come from where other ranks of the host can reach them. */
#include "pmpi/stage.h"

#include "comm/comm.h"

peali_stage peali_stage_begin(peal_comm *comm, const void *send, const void *recv)
{
    return (peali_stage){.comm = comm, .on = peali_comm_any_device(comm, send, recv), .error = MPI_SUCCESS};
}

static bool copy(peali_stage *s, void *to, const void *from, size_t bytes)
{
    if (peali_comm_copy(s->comm, to, from, bytes) != PEAL_OK)
        s->error = MPI_ERR_BUFFER;
    return s->error == MPI_SUCCESS;
}

static void *shadow(peali_stage *s, const void *buf, size_t bytes, int use)
{
    peali_shadow *new = &s->shadows[s->n];
    for (int i = 0; i < s->n; i++)
        if (s->shadows[i].user == buf && s->shadows[i].bytes >= bytes) {
            s->shadows[i].use |= use;
            return s->shadows[i].host;
        }
    *new = (peali_shadow){(char *)buf, peal_mem_alloc(bytes), bytes, use};
    if (!new->host) {
        s->error = MPI_ERR_NO_MEM;
        return NULL;
    }
    s->n++;
    return (use & PEALI_STAGE_READ) && !copy(s, new->host, buf, bytes) ? NULL : new->host;
}

void *peali_stage_buffer(peali_stage *s, const void *buf, size_t bytes, int use)
{
    bool stays = !s->on || s->error != MPI_SUCCESS || !buf || buf == MPI_IN_PLACE || !peali_comm_any_device(s->comm, buf, buf);
    return stays ? (void *)buf : shadow(s, buf, bytes, use);
}

/* What elements are between, and before the first, is the user's too: it goes there and back. */
void peali_stage_elements(peali_stage *s, peali_elements *at, int copies, int use)
{
    MPI_Aint first, extent, true_first, true_extent;
    if (!s->on || at->buf == MPI_IN_PLACE || at->type == MPI_DATATYPE_NULL)
        return;
    PMPI_Type_get_extent(at->type, &first, &extent);
    PMPI_Type_get_true_extent(at->type, &true_first, &true_extent);
    MPI_Aint bytes = ((MPI_Aint)at->count * copies - 1) * extent + true_extent;
    if (bytes <= 0)
        return;
    char *from = (char *)at->buf + true_first;
    if (!peali_bytes_plain(at->type))
        use |= PEALI_STAGE_READ;
    char *to = peali_stage_buffer(s, from, (size_t)bytes, use);
    if (to)
        at->buf = to - true_first;
}

int peali_stage_end(peali_stage *s, int error)
{
    for (int i = 0; i < s->n; i++) {
        peali_shadow *of = &s->shadows[i];
        if (error == MPI_SUCCESS && s->error == MPI_SUCCESS && (of->use & PEALI_STAGE_WRITTEN))
            (void)copy(s, of->user, of->host, of->bytes);
        peal_mem_free(of->host);
    }
    return error != MPI_SUCCESS ? error : s->error;
}
