// The kernels of AVX-VNNI: AVX2's, but for those that multiply bytes.
#include "../RowKernels.h"
#include "../matmulIsa.h"
#include "../quantisedAttention.h"

namespace spillway {

namespace avx2 {
const MatmulKernels& matmulKernels();
const RowKernels& rowKernels();
const AttentionKernels& attentionKernels();
}  // namespace avx2

namespace SPILLWAY_ISA {
namespace {

void multiplyQuantised(const MatmulBlock& block, uint8_t* workspace) {
  multiplyByType(block, workspace, avx2::matmulKernels().multiplyFloat);
}

// Attention over a 4-bit cache is 1.08 to 1.17 times as fast as AVX2's (Zen 4). Over one of 8 bits it was 0.9 times as
// fast: codes meet integers of 16 bits there, AVX2 multiplies words, and bytes take as many products.
void attendBlocks(const AttentionBlock* blocks, uint32_t count) {
  blocks->layout.type == CacheType::Q4 ? attendQuantised(blocks, count)
                                       : avx2::attentionKernels().attendBlocks(blocks, count);
}

}  // namespace

const MatmulKernels& matmulKernels() {
  const MatmulKernels& rest = avx2::matmulKernels();
  static const MatmulKernels kernels{QuantisedInput::Groups, rest.mostRowsInPlace, rest.quantiseRows,
                                     rest.quantiseEvenly,    multiplyQuantised,    rest.multiplyFloat,
                                     rest.multiplyWords};
  return kernels;
}

const RowKernels& rowKernels() { return avx2::rowKernels(); }

const AttentionKernels& attentionKernels() {
  static const AttentionKernels kernels{avx2::attentionKernels().storeToken, attendBlocks,
                                        avx2::attentionKernels().dotPanels};
  return kernels;
}

}  // namespace SPILLWAY_ISA
}  // namespace spillway
