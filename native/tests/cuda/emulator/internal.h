// Between the parts of the emulator.
#pragma once
#include <random>

#include "control.h"
#include "emulator.h"

namespace spillway::emulator {

// The host's random order. With seed 0 always 0.
size_t draw(size_t below);
// Runs a grid to its end, here and now.
void runGrid(const char* name, dim3 grid, dim3 block, size_t sharedBytes, const std::function<void()>& thread);
// Runs queued work until the stream is empty; null: all of it.
void drain(Stream* stream);

// A thread of the running block as the race detector sees it.
struct ThreadClock {
  uint32_t thread;
  uint32_t barriers;   // passed so far
  uint32_t warpSyncs;  // likewise, of its warp
};
// Null unless this host thread runs a kernel.
const ThreadClock* runningThread();

void noteMemory(void* begin, size_t bytes);  // from now on watched
void forgetMemory(void* begin);
void beginGridRaces();
void beginBlockRaces(void* shared, size_t sharedBytes);
void noteAccess(const void* address, size_t bytes, bool write);

}  // namespace spillway::emulator
