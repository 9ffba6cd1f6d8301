// What a kernel's source needs of CUDA, for a compiler that has none: qualifiers, types, built-in variables, barriers,
// warp operations, and the runtime's calls. For tests only. A block's threads are fibers, blocks run one after another,
// on the host thread that waits for the work. Several host threads may call the runtime; they take turns.
//
// Kernels take their shared memory dynamically (dynamicShared() in gpu.h): it has the exact size of the launch and is
// all ones, which is NaN, before each block. `__shared__` is not defined here, so a kernel that declares such a
// variable does not compile.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct uint2 {
  unsigned x, y;
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace spillway::emulator {

// Ends the kernel with a KernelError that names block and thread; does not return.
[[noreturn]] void fail(const char* message);
void barrier(const char* file, int line);

enum class WarpOperation { Synchronise, Shuffle, Vote, Reduce, Matrix };
// Leaves `mine` for the others and waits for all lanes of the mask; the last one to come calls `complete` on
// everybody's. Entries of lanes outside the mask are null.
void collective(unsigned mask, WarpOperation operation, void* mine, void (*complete)(void* const lanes[32]));

// The running block's shared memory.
void* sharedMemory();

// The running thread's asynchronous copies: nothing is copied before the wait that covers it.
void queueCopy(void* to, const void* from, size_t bytes, size_t zeros);
void commitCopies();
void waitForCopies(unsigned groupsLeft);

// The running thread's asynchronous products, likewise.
void queueProduct(std::function<void()> product);
void commitProducts();
void waitForProducts(unsigned groupsLeft);

template <typename T>
struct Exchange {
  T value;
  unsigned source;
  T result;
  bool missing;
};

template <typename T>
void completeExchange(void* const lanes[32]) {
  for (int i = 0; i < 32; i++) {
    if (lanes[i] == nullptr) continue;
    auto& mine = *static_cast<Exchange<T>*>(lanes[i]);
    mine.missing = lanes[mine.source] == nullptr;
    if (!mine.missing) mine.result = static_cast<Exchange<T>*>(lanes[mine.source])->value;
  }
}

template <typename T>
T shuffle(unsigned mask, T value, unsigned source) {
  Exchange<T> mine{value, source & 31, value, false};
  collective(mask, WarpOperation::Shuffle, &mine, completeExchange<T>);
  if (mine.missing) fail("a shuffle reads from a lane outside its mask");
  return mine.result;
}

unsigned laneOf();
unsigned ballot(unsigned mask, bool vote);

using cudaStream = struct Stream*;
void launch(const char* name, dim3 grid, dim3 block, size_t sharedBytes, cudaStream stream,
            std::function<void()> thread);

}  // namespace spillway::emulator

// Barriers are told apart by their place in the source, so that threads of a block that wait at different ones are
// found out.
#define __syncthreads() ::spillway::emulator::barrier(__FILE__, __LINE__)
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  char nothing = 0;
  spillway::emulator::collective(mask, spillway::emulator::WarpOperation::Synchronise, &nothing, [](void* const*) {});
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return spillway::emulator::shuffle(mask, value, static_cast<unsigned>(lane));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return spillway::emulator::shuffle(mask, value, spillway::emulator::laneOf() ^ static_cast<unsigned>(lanes));
}
// Lanes whose source would lie outside the warp keep their own value.
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta) {
  const unsigned lane = spillway::emulator::laneOf();
  return spillway::emulator::shuffle(mask, value, lane < delta ? lane : lane - delta);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
  const unsigned lane = spillway::emulator::laneOf();
  return spillway::emulator::shuffle(mask, value, lane + delta > 31 ? lane : lane + delta);
}
inline unsigned __ballot_sync(unsigned mask, bool vote) { return spillway::emulator::ballot(mask, vote); }
inline bool __any_sync(unsigned mask, bool vote) { return spillway::emulator::ballot(mask, vote) != 0; }

// No fiber is interrupted between two instructions. The race detector does not see these accesses.
#define SPILLWAY_ATOMIC __attribute__((no_sanitize_thread, noinline))
template <typename T, typename V>
SPILLWAY_ATOMIC T atomicAdd(T* address, V value) {
  const T old = *address;
  *address = static_cast<T>(old + value);
  return old;
}
template <typename T>
SPILLWAY_ATOMIC T atomicExch(T* address, T value) {
  const T old = *address;
  *address = value;
  return old;
}
template <typename T>
SPILLWAY_ATOMIC T atomicMax(T* address, T value) {
  const T old = *address;
  if (value > old) *address = value;
  return old;
}
template <typename T>
SPILLWAY_ATOMIC T atomicMin(T* address, T value) {
  const T old = *address;
  if (value < old) *address = value;
  return old;
}

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
// Four of the eight bytes of a and b, each chosen by three bits of a nibble of the selector.
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t bytes = 0;
  for (int i = 3; i >= 0; i--) bytes = bytes << 8 | static_cast<uint32_t>(both >> 8 * (selector >> 4 * i & 7) & 0xff);
  return bytes;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }

// --- The runtime. Work goes into its stream's queue and runs when somebody waits, in an order that is drawn among
// those that the events allow.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor, multiProcessorCount;
};
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventBlockingSync = 1,
                   cudaEventDisableTiming = 2, cudaHostAllocDefault = 0, cudaHostRegisterDefault = 0;

using cudaStream_t = spillway::emulator::Stream*;
using cudaEvent_t = struct spillway_emulator_event*;

cudaError_t cudaMalloc(void** pointer, size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void* pointer);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
const char* cudaGetErrorString(cudaError_t error);
