// One table of kernels an instruction set; chosen once, at run time.
//
// Rules for every kernel:
// - A row's result does not depend on its company: bitwise the same for one row and for many, for any chunking and any
// number of threads.
//   So every output element is reduced in a fixed order that depends on its own inputs alone.
// - Sixteen lanes everywhere, fused multiply-adds where the source says fma, and one fixed reduction tree (simd.h): all
// instruction sets
//   then give the same bits, and the tests compare them exactly. The one exception are AMX's products of rounded
//   activations (MatmulKernels.h).
// - Files compiled for an instruction set include no STL, so that no shared inline function leaks its instructions into
// the baseline.
// - No allocation, no exceptions: arguments were validated by the caller.
#pragma once
#include "AttentionKernels.h"
#include "InstructionSet.h"
#include "MatmulKernels.h"
#include "RowKernels.h"

namespace spillway {

struct Kernels {
  InstructionSet instructionSet;
  MatmulKernels matmul;
  RowKernels rows;
  AttentionKernels attention;
};

const Kernels& kernelsFor(InstructionSet set);  // the machine must have it

class ThreadPool;
// Words: as Default, but products of float types are those of integers of 16 bits (MatmulKernels::multiplyWords).
enum class Precision { Default, Words, Float32 };

// What every operation of the model runs on.
struct Compute {
  const Kernels& kernels;
  ThreadPool& pool;
  Precision precision;
};

}  // namespace spillway
