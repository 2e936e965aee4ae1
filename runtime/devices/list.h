/* list.h - all backends. A new one is a folder of its own and a row here. */
#ifndef ATTNGEN_DEVICES_LIST_H
#define ATTNGEN_DEVICES_LIST_H

#include <stdbool.h>

/* X(name, numbered, in_c): its devices are called NAME, which is the first usable one, and NAME:N if they are numbered.
 * in_c: its kernels are in C, and the caller chooses their compiler. NAME_backend is its struct backend. The first row is
 * the default, and the order is that of `attngen devices`. */
#define BACKENDS(X)                                                                                                    \
    X(cpu, 0, 1)                                                                                                       \
    X(opencl, 1, 0)                                                                                                    \
    X(cuda, 1, 0)                                                                                                      \
    X(reference, 0, 0)

/* X(function, struct, device): a function of attn.h that puts a run on the caller's own queue, the struct that says how, and
 * whose devices have such queues. kernel_functions.queued of these is the struct's name. */
#define CL_DEVICE "an OpenCL device"
#define QUEUES(X) X(attn_execute_cl, attn_cl_run, CL_DEVICE)

/* The same in words, for messages and help. */
#define DEVICE_NAMES "cpu, opencl, opencl:N, cuda, cuda:N or reference"

/* The row that a name belongs to, and the number in it, -1 if it has none; -1: this is not the name of a device. It
 * needs no backend, so that a program that only emits can check its options. */
int device_parse(const char *name, int *index);
bool device_is_name(const char *name); /* "cpu", "opencl:3" */
bool device_compiles_c(const char *name);

#endif
