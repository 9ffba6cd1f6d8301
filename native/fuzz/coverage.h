#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway {

// Which basic blocks of the instrumented sources have run, one byte a block, since the addon was loaded. Only builds
// with SPILLWAY_FUZZ have it. A block's place is a hash of where it lies in the binary: the same in every process of
// one build.
constexpr size_t kCoverageBlocks = 1 << 18;
uint8_t* coveredBlocks();

}  // namespace spillway
