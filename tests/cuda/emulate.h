/* Kernels on the CPU: see emulated.h. For C. */
#ifndef EMULATE_H
#define EMULATE_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Runs GRID CTAs of BLOCK threads of KERNEL, one CTA after the other, on the calling thread. PARAMS: its peali_cuda_call. Ends the
 * program where no kernel has that name, or where threads of a CTA wait for each other in vain.
 */
__attribute__((visibility("default"))) void peali_emulate(const char *kernel, unsigned grid, unsigned block, const void *params);

#ifdef __cplusplus
}
#endif
#endif
