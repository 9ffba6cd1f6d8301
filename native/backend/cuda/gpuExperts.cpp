// A mixture of experts on the device. The router's choice is made on the host, which has to know how many tokens go to
// which expert; sums run over a token's experts in order of their index, as on the processor.
#include "../../model/chooseExperts.h"
#include "GpuPass.h"

namespace spillway {

void feedForwardExperts(const GpuPass& pass, const LayerWeights& weights, const float* input, float* output) {
  const DecoderSpec& spec = pass.spec;
  const size_t width = spec.hiddenSize, inner = spec.feedForwardSize, tokens = pass.tokens();
  const size_t choiceCount = tokens * spec.expertsPerToken;
  const size_t mark = pass.scratch.used(), hostMark = pass.host.used();

  float* logits = pass.scratch.take<float>(tokens * spec.experts);
  float* gathered = pass.scratch.take<float>(tokens * width);
  float* gate = pass.scratch.take<float>(tokens * inner);
  float* up = pass.scratch.take<float>(tokens * inner);
  float* result = pass.scratch.take<float>(tokens * width);
  float* hostLogits = pass.host.take<float>(tokens * spec.experts);
  ExpertChoice* choices = pass.host.take<ExpertChoice>(choiceCount);
  size_t* ends = pass.host.take<size_t>(spec.experts);  // of each expert's tokens in the two lists
  uint32_t* chosen = pass.host.take<uint32_t>(choiceCount);
  float* shares = pass.host.take<float>(choiceCount);

  pass.multiply(weights.router, nullptr, input, tokens, logits,
                ProductOf::Exact);  // a rounding that changes the choice of experts would change everything after it
  size_t listed = 0;
  if (!pass.measuring()) {
    pass.link->download(hostLogits, logits, tokens * spec.experts * sizeof(float));
    pass.forEach(tokens, [&](size_t t, unsigned) {
      chooseExperts(pass.compute.kernels.rows, hostLogits + t * spec.experts, spec.experts, spec.expertsPerToken,
                    choices + t * spec.expertsPerToken);
    });
    for (uint32_t e = 0; e < spec.experts; e++) {
      for (size_t c = 0; c < choiceCount; c++) {
        if (choices[c].expert != e) continue;
        chosen[listed] = static_cast<uint32_t>(c / spec.expertsPerToken);
        shares[listed++] = choices[c].weight;
      }
      ends[e] = listed;
    }
  }
  const uint32_t* chosenThere = pass.upload(chosen, choiceCount);
  const float* sharesThere = pass.upload(shares, choiceCount);
  pass.run([&](cudaStream_t stream) {
    cuda::check(cudaMemsetAsync(output, 0, tokens * width * sizeof(float), stream), "cudaMemsetAsync");
  });

  for (uint32_t e = 0; e < spec.experts; e++) {
    const size_t first = pass.measuring() || e == 0 ? 0 : ends[e - 1];
    const size_t count = pass.measuring() ? tokens : ends[e] - first;  // at worst all tokens choose one
    if (count == 0) continue;
    const ExpertWeights& expert = weights.experts[e];
    pass.run(
        [&](cudaStream_t stream) { cuda::gatherRows(stream, input, chosenThere + first, count, width, gathered); });
    const ProductJob jobs[] = {{&expert.gate, nullptr, gate, inner}, {&expert.up, nullptr, up, inner}};
    pass.multiply(jobs, 2, gathered, count, width, ProductOf::Others);
    pass.run([&](cudaStream_t stream) { cuda::activate(stream, spec.activation, gate, up, count * inner); });
    pass.multiply(expert.down, nullptr, gate, count, result, ProductOf::Others);
    pass.run([&](cudaStream_t stream) {
      cuda::scatterScaledRows(stream, result, sharesThere + first, chosenThere + first, count, width, output);
    });
    if (pass.measuring()) break;
  }
  pass.scratch.release(mark);
  pass.host.release(hostMark);
}

}  // namespace spillway
