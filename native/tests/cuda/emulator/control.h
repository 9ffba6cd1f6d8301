// What tests say to the emulator, and ask it.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <stdexcept>
#include <string>

namespace spillway::emulator {

// A kernel that breaks a rule of the machine: threads of a block at different barriers, a lane that never comes, a
// race. Thrown by whichever call ran the kernel. Names kernel, block and thread.
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
// The device does nothing: whoever waits for it goes on waiting, until resume().
void pause();
void resume();
// How often a stream was told to wait for an event.
size_t streamWaits();
// A planted mistake: of the streams' waits that are yet to come one, counted from 0, is forgotten, and from then on
// that stream's work goes before all other. SIZE_MAX: none.
void forgetWait(size_t index);
// The device fails in the middle of a kernel that is yet to come, counted from 0: it and whatever is asked of the
// device from then on gives cudaErrorLaunchFailure. SIZE_MAX: it works (again).
void breakAt(size_t kernel);

// Whether the kernels in this program tell the race detector of their memory accesses (they were compiled with
// -fsanitize=thread).
bool detectsRaces();

}  // namespace spillway::emulator
