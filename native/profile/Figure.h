// What profiling a machine gives: rates, each as a median with its spread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// One measured rate. Fields that say nothing about it are empty or 0.
struct Figure {
  // memory-read, memory-copy       bytes of large blocks, out of reach of the caches; a copied byte counts once
  // matmul                         operations (2 a weight and token) of x Wᵀ, for an input that is ready to be
  // multiplied attention-prefill              operations (4 a query head element and key seen) of a prompt
  // attention-decode               bytes that keys and values of single new tokens would have as 16-bit floats,
  // whatever `kind` holds them in attention-short                rows that decode times query heads, with a page of
  // context each, 16-bit keys and values cache-store                    values of keys and values that become `kind`
  // rows                           values times the operations that a layer has beside products: norm, rounding,
  // activation function, rotation, sum sample-greedy, sample-top-p    logits task                           tasks
  // through a queue, each with the parallel loops of a layer's part and nothing in them gpu-… the same on a GPU;
  // gpu-task: with that many small kernels; gpu-memory-copy: within its memory, a copied byte counts once
  // gpu-matmul-cublaslt            gpu-matmul of many tokens by cuBLASLt, with what makes halves of the weights
  // link-up, link-down             bytes in copies of `requestBytes` between pinned memory and a GPU, `depth` of them
  // given at a time and waited for together disk-read, disk-write          bytes; disk-read-pages: scattered 64 KiB
  // pages; disk-read-blocks: scattered 1 KiB, where the file system reads so little; disk-read-layers: `requestBytes`
  // are waited for together
  std::string what;
  std::string kind;            // f32, f16, q8, q4: of weights, or of the cache
  std::string instructionSet;  // what it ran on; empty on a GPU
  unsigned threads = 0;        // 0 on a GPU
  size_t tokens = 0;           // rows of x; tokens of the prompt
  size_t inputs = 0;           // of the weights
  size_t groupHeads = 0;       // query heads that share a head of keys and values
  size_t requestBytes = 0;
  unsigned depth = 0;  // requests in flight, or copies
  double perSecond = 0;
  double spread = 0;  // half the interquartile range of the samples over their median
  size_t samples = 0;
};

// What could not be measured, and why.
struct LeftOut {
  std::string what;
  std::string reason;
};

struct MachineFigures {
  std::vector<Figure> figures;
  std::vector<LeftOut> leftOut;
};

}  // namespace spillway
