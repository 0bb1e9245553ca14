/*
 * What a build without nvcc has in place of kernels. It ends with a 0, because the driver takes what is no binary for a PTX text.
 */
#include "cuda/image.h"

const unsigned char peali_cuda_image[] = "// built without nvcc\n";
const size_t peali_cuda_image_bytes = sizeof peali_cuda_image;
const int peali_cuda_toolkit = 0;
