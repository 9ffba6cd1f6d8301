// A mixture of experts: a router picks a few gated blocks for each token.
//
// A token's sum runs over its experts in order of their index, starting from zero, whatever its company: experts are
// computed one after another, each for all tokens that chose it.
#include <cstring>

#include "Pass.h"
#include "../../model/chooseExperts.h"

namespace spillway {

void feedForwardExperts(const Pass& pass, const LayerWeights& weights, const float* input, float* output) {
  const DecoderSpec& spec = pass.spec;
  const RowKernels& kernels = pass.compute.kernels.rows;
  const size_t width = spec.hiddenSize;
  const size_t inner = spec.feedForwardSize;
  const size_t tokens = pass.tokens();
  const size_t mark = pass.scratch.used();

  float* logits = pass.scratch.take<float>(tokens * spec.experts);
  ExpertChoice* choices = pass.scratch.take<ExpertChoice>(tokens * spec.expertsPerToken);
  uint32_t* chosen =
      pass.scratch.take<uint32_t>(tokens);  // tokens of the expert at hand, and the weight that each gives it
  float* shares = pass.scratch.take<float>(tokens);
  float* gathered = pass.scratch.take<float>(tokens * width);
  float* gate = pass.scratch.take<float>(tokens * inner);
  float* up = pass.scratch.take<float>(tokens * inner);
  float* result = pass.scratch.take<float>(tokens * width);

  pass.multiplyExactly(weights.router, input, tokens,
                       logits);  // a rounding that changes the choice of experts would change everything after it
  pass.forRows(tokens, size_t(spec.experts) * spec.expertsPerToken + width, [&](size_t t, unsigned) {
    chooseExperts(kernels, logits + t * spec.experts, spec.experts, spec.expertsPerToken,
                  choices + t * spec.expertsPerToken);
    std::fill_n(output + t * width, width, 0.0f);
  });

  for (uint32_t e = 0; e < spec.experts; e++) {
    size_t count = 0;
    if (pass.measuring) {
      count = tokens;  // the worst case: all of them choose this one
    } else {
      for (size_t c = 0; c < tokens * spec.expertsPerToken; c++) {
        if (choices[c].expert != e) continue;
        chosen[count] = static_cast<uint32_t>(c / spec.expertsPerToken);
        shares[count++] = choices[c].weight;
      }
    }
    if (count == 0) continue;
    const ExpertWeights& expert = weights.experts[e];
    pass.forRows(count, width, [&](size_t i, unsigned) {
      std::memcpy(gathered + i * width, input + chosen[i] * width, width * sizeof(float));
    });
    const ProductJob jobs[] = {{&expert.gate, nullptr, gate, inner}, {&expert.up, nullptr, up, inner}};
    pass.multiply(jobs, 2, gathered, count, width);
    pass.forRows(count, inner, [&](size_t i, unsigned) {
      kernels.activate(spec.activation, gate + i * inner, up + i * inner, inner);
    });
    pass.multiply(expert.down, nullptr, gate, count, result);
    pass.forRows(count, width, [&](size_t i, unsigned) {
      kernels.addScaled(result + i * width, shares[i], output + chosen[i] * width, width);
    });
  }
  pass.scratch.release(mark);
}

}  // namespace spillway
