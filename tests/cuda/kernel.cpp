/* The kernels as C++, by emulated.h. */
#include "cuda/kernel.cu"
