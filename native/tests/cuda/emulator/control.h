// What tests say to the emulator, and ask it.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <stdexcept>
#include <string>

namespace spillway::emulator {

// A kernel that breaks a rule of the machine: threads of a block at different barriers, a lane that never comes, a race. Thrown by whichever call
// ran the kernel. Names kernel, block and thread.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The order of threads within a block and of work between streams is drawn from the seed. 0: in order, streams by age.
void setSeed(uint64_t seed);
// What cudaMalloc and cudaMemGetInfo take for the device's memory.
void setDeviceBytes(size_t bytes);
size_t deviceBytesInUse();
size_t pinnedBytesInUse();
// What cudaGetDeviceCount says.
void setDevices(int count);
// Whether cudaHostRegister pins what it is given.
void setPinnable(bool pinnable);
size_t registeredBytes();
// Whether all streams have done what they were given.
bool idle();
// Forgets all queued work.
void abandonStreams();

// Whether the kernels in this program tell the race detector of their memory accesses (they were compiled with -fsanitize=thread).
bool detectsRaces();

}  // namespace spillway::emulator
