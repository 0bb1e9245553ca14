/*
 * What a call of Peal answers: 0 ok, positive not yet, negative failure.
 */
#ifndef PEAL_STATUS_H
#define PEAL_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PEAL_PUBLIC __attribute__((visibility("default")))
#define PEAL_MUST_CHECK __attribute__((warn_unused_result))
#else
#define PEAL_PUBLIC
#define PEAL_MUST_CHECK
#endif

typedef enum peal_status {
    PEAL_OK = 0,
    PEAL_IN_PROGRESS = 1,      /* not yet; ask again */
    PEAL_ERR_INVALID = -1,     /* an argument breaks its rule; nothing was started */
    PEAL_ERR_MEMORY = -2,      /* no memory; a call says whether anything was started */
    PEAL_ERR_UNSUPPORTED = -3, /* right, but not to be had here; the log says why */
    PEAL_ERR_CONFIG = -4,      /* a PEAL_* variable has an unknown name or value, or ranks have other ones, or another libpeal */
    PEAL_ERR_NET = -5,         /* a transport failed; the communicator is of no more use */
    PEAL_ERR_TIMEOUT = -6,     /* a wait outlasted PEAL_TIMEOUT; likewise */
    PEAL_ERR_MISMATCH = -7,    /* the ranks' calls differ; likewise */
    PEAL_ERR_ABORTED = -8,     /* the communicator was aborted by another thread */
    PEAL_ERR_SYSTEM = -9,      /* the operating system refused; the log says what */
    PEAL_ERR_CUDA = -10,       /* the CUDA driver refused; the log says what */
    PEAL_ERR_CAPTURE = -11     /* not possible while a stream is captured; the log says what, and the capture is still valid */
} peal_status;

/*
 * The name and meaning of STATUS in one line, for a message.
 *
 * Returns: a constant text, never NULL, also for values that are no status.
 * Threads: any.    Blocks: no.
 */
PEAL_PUBLIC const char *peal_status_text(peal_status status);

#ifdef __cplusplus
}
#endif
#endif
