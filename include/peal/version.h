/* The version of these headers. */
#ifndef PEAL_VERSION_H
#define PEAL_VERSION_H

#define PEAL_VERSION_MAJOR 0
#define PEAL_VERSION_MINOR 1
#define PEAL_VERSION_PATCH 0
#define PEAL_VERSION "0.1.0"

#endif
