/* Shadows come from where other ranks of the host can reach them. */
#include "pmpi/stage.h"

#include "base/log.h"
#include "comm/comm.h"
#include "pmpi/handles.h"

void peali_stage_begin(peali_stage *s, peal_comm *comm, const void *send, const void *recv)
{
    peali_found found = peali_comm_find(comm, send, recv);
    s->comm = comm;
    s->device[0] = found.device[0] ? send : NULL;
    s->device[1] = found.device[1] ? recv : NULL;
    s->n = 0;
    s->error = found.wrong ? MPI_ERR_BUFFER : MPI_SUCCESS;
    if (found.wrong)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, peal_comm_rank(comm),
                  "buffer %p is no memory of this process: it is device memory that was freed, or a wrong address; nothing was "
                  "started", found.wrong);
}

const void *peali_stage_first(const peali_elements *at)
{
    MPI_Aint first = 0, extent;
    if (at->buf == MPI_IN_PLACE || at->type == MPI_DATATYPE_NULL)
        return NULL;
    if (peali_handles_bytes(at->type) == 0)
        PMPI_Type_get_true_extent(at->type, &first, &extent);
    return (const char *)at->buf + first;
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
    bool staged = buf && (buf == s->device[0] || buf == s->device[1]) && s->error == MPI_SUCCESS;
    return staged ? shadow(s, buf, bytes, use) : (void *)buf;
}

/* What elements are between, and before the first, is the user's too: it goes there and back. */
void peali_stage_elements(peali_stage *s, peali_elements *at, int copies, int use)
{
    MPI_Aint first, extent, true_first, true_extent;
    if ((!s->device[0] && !s->device[1]) || at->buf == MPI_IN_PLACE || at->type == MPI_DATATYPE_NULL)
        return;
    PMPI_Type_get_extent(at->type, &first, &extent);
    PMPI_Type_get_true_extent(at->type, &true_first, &true_extent);
    MPI_Aint bytes = ((MPI_Aint)at->count * copies - 1) * extent + true_extent;
    if (bytes <= 0)
        return;
    char *from = (char *)at->buf + true_first;
    if (!peali_bytes_plain(at))
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
