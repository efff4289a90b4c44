// A libcuda.so.1 and a libcupti.so.13 of our own, enough to run the injected library in a program on a
// machine without a GPU. Device memory is host memory, mapped at the addresses it claims to have; kernels are
// host functions, found by the name in the cubin; every entry point calls the CUPTI subscriber like the real
// one, the recorder's own calls included.
//
// The program and the recorder use the real names; what only the test needs is declared here.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstddef>
#include <cstdint>

extern "C" {

// --- for the program under test
// Memory that no watched call allocates, as IPC or a graph would.
CUdeviceptr fake_hidden_alloc(size_t size);
// The page-locked memory that was had last, by whomever; 0: none.
CUdeviceptr fake_last_host_memory();
// Makes the allocation belong to another device.
void fake_set_device(CUdeviceptr address, int device);
// cuCtxSynchronize blocks until fake_release().
void fake_hang();
void fake_release();
// What the next launch call returns; what the waits after it return.
void fake_fail_launch(CUresult launch, CUresult wait);
// A kernel `scale` on this memory breaks the context.
void fake_fault_at(CUdeviceptr address);
// The next cuGraphExecUpdate fails.
void fake_fail_update();
// The next module's cubin is announced inside the launch of one of its kernels, not when it is loaded.
void fake_announce_late();
// How often a driver call came in while `context` was not idle, i.e. a snapshot read memory under a running
// kernel.
unsigned fake_reads_while_busy();

// --- for the fake CUPTI
typedef void (*fake_callback)(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*);
void fake_set_subscriber(fake_callback callback, void* user);
void fake_enable(CUpti_CallbackDomain domain, CUpti_CallbackId id, int on);
}
