/* The kernels as nvcc made them: a fat binary, linked into the library. */
#ifndef PEALI_CUDA_IMAGE_H
#define PEALI_CUDA_IMAGE_H

#include <stddef.h>

extern const unsigned char peali_cuda_image[]; /* without nvcc: a text that no driver takes */
extern const size_t peali_cuda_image_bytes;
extern const int peali_cuda_toolkit; /* of nvcc: 1000 * major + 10 * minor; 0: built without nvcc */

#endif
