// Steps of what layers remember alone: the gated delta rule and a state space, as Qwen3.5-0.8B and Granite 4.0 1B have
// them by default.
//   recurrent [rows=16] [tokens=1] [heads=16] [keyDim=128] [valueDim=128] [layers=18] [turns=15]
// Goes through the states of all rows and layers, so that they come from memory, with one thread, several times; prints
// the least nanoseconds a token and head, by the process's own time, and what of it is arithmetic: the same with one
// block's state alone.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "../backend/cpu/deltaSteps.h"
#include "../backend/cpu/stateBlocks.h"
#include "../backend/cpu/stateSteps.h"
#include "../system/Arena.h"

namespace {
using namespace spillway;

struct Settings {
  size_t rows, tokens, heads, keyDim, valueDim, layers, turns;
};

double secondsNow() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Least nanoseconds a token and head. step(block) goes through all tokens of a row. stateHeads: whose states there are.
template <typename Step>
double least(const Settings& s, size_t stateHeads, const Arena& states, Step step) {
  const size_t heads = s.rows * s.heads * s.layers;
  double best = 1e30;
  for (size_t turn = 0; turn < s.turns; turn++) {
    const double start = secondsNow();
    for (size_t head = 0; head < heads; head++) {
      float* state = reinterpret_cast<float*>(states.data()) + head % stateHeads * s.keyDim * s.valueDim;
      for (size_t b = 0; b < stateBlocks(s.valueDim); b++)
        step(stateBlock(state, s.keyDim, s.valueDim, stateHeads == 1 ? 0 : b));
    }
    best = std::min(best, (secondsNow() - start) / static_cast<double>(heads * s.tokens));
  }
  return best * 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int at, size_t otherwise) {
    return argc > at ? std::max<size_t>(1, std::strtoul(argv[at], nullptr, 10)) : otherwise;
  };
  const Settings s{argument(1, 16),  argument(2, 1),  argument(3, 16), argument(4, 128),
                   argument(5, 128), argument(6, 18), argument(7, 15)};
  const size_t stride = 2 * s.keyDim + s.valueDim + 2, heads = s.rows * s.heads * s.layers;
  const Arena states(heads * s.keyDim * s.valueDim * sizeof(float), "states");
  std::vector<float> tokens(s.tokens * stride, 0.03f), outputs(s.tokens * s.valueDim);
  std::fill_n(reinterpret_cast<float*>(states.data()), heads * s.keyDim * s.valueDim, 0.01f);
  const float *queries = tokens.data(), *keys = queries + s.keyDim, *values = keys + s.keyDim,
              *factors = values + s.valueDim;
  const auto delta = [&](const StateBlock& block) {
    deltaSteps(block.state, s.keyDim, block.columns,
               {s.tokens, stride, queries, keys, values + block.first, factors, factors + 1, false,
                outputs.data() + block.first, s.valueDim});
  };
  const auto space = [&](const StateBlock& block) {
    stateSteps(block.state, s.keyDim, block.columns,
               {s.tokens, stride, values + block.first, keys, queries, factors, factors + 1, stride,
                outputs.data() + block.first, s.valueDim});
  };
  std::printf("%zu rows of %zu tokens, %zu layers of %zu heads, states [%zu, %zu]\n", s.rows, s.tokens, s.layers,
              s.heads, s.keyDim, s.valueDim);
  std::printf("delta rule   %8.0f ns, of which arithmetic %.0f\n", least(s, heads, states, delta),
              least(s, 1, states, delta));
  std::printf("state space  %8.0f ns, of which arithmetic %.0f\n", least(s, heads, states, space),
              least(s, 1, states, space));
}
