/*
 * libucp by dlopen at first use. An MPI may have its own UCX loaded under the same SONAME: linking another one to Peal would bind
 * either to the wrong one, while dlopen finds the one that is there.
 */
#ifndef PEALI_UCX_LIBRARY_H
#define PEALI_UCX_LIBRARY_H

#include <stdbool.h>

#include <ucp/api/ucp.h>

#include <peal/status.h>

#define PEALI_UCX_FUNCTIONS(F)                                                                                                    \
    F(ucp_get_version)                                                                                                            \
    F(ucp_config_read)                                                                                                            \
    F(ucp_config_modify)                                                                                                          \
    F(ucp_config_release)                                                                                                         \
    F(ucp_init_version)                                                                                                           \
    F(ucp_context_query)                                                                                                          \
    F(ucp_context_print_info)                                                                                                     \
    F(ucp_mem_map)                                                                                                                \
    F(ucp_mem_unmap)                                                                                                              \
    F(ucp_cleanup)                                                                                                                \
    F(ucp_worker_create)                                                                                                          \
    F(ucp_worker_destroy)                                                                                                         \
    F(ucp_worker_get_address)                                                                                                     \
    F(ucp_worker_release_address)                                                                                                 \
    F(ucp_worker_progress)                                                                                                        \
    F(ucp_worker_set_am_recv_handler)                                                                                             \
    F(ucp_ep_create)                                                                                                              \
    F(ucp_ep_print_info)                                                                                                          \
    F(ucp_am_send_nbx)                                                                                                            \
    F(ucp_tag_send_nbx)                                                                                                           \
    F(ucp_tag_recv_nbx)                                                                                                           \
    F(ucp_tag_recv_request_test)                                                                                                  \
    F(ucp_tag_probe_nb)                                                                                                           \
    F(ucp_tag_msg_recv_nbx)                                                                                                       \
    F(ucp_request_check_status)                                                                                                   \
    F(ucp_request_cancel)                                                                                                         \
    F(ucp_request_free)                                                                                                           \
    F(ucs_status_string)

typedef struct peali_ucx_library {
#define PEALI_UCX_MEMBER(name) __typeof__(name) *name;
    PEALI_UCX_FUNCTIONS(PEALI_UCX_MEMBER)
#undef PEALI_UCX_MEMBER
} peali_ucx_library;

enum { PEALI_UCX_MAJOR = 1, PEALI_UCX_MINOR = 13 }; /* the least that has all that Peal calls, tested (FACTS) */

/* The functions; or NULL where there is no such library, and WHY (a constant text) says what is missing. Threads: any. */
const peali_ucx_library *peali_ucx_library_get(const char **why);

/* Whether UCX takes its transport tcp to DEVICE, or ("") to any that it would use by itself. Threads: any. */
bool peali_ucx_by_tcp(const char *device);

/*
 * Are there descriptors for the next thing that UCX is asked for? Where it finds none in the middle, it ends the process. Threads:
 * any.
 */
bool peali_ucx_has_descriptors(void);

#define PEALI_UCX_NO_DESCRIPTORS "fewer than 16 descriptors are left to this process; raise ulimit -n"

#endif
