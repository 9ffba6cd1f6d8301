// A decoder in plain double arithmetic, one token after another, written from DecoderSpec's documentation and sharing
// nothing with the engine.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../../kernels/cpu/floatFormats.h"
#include "../../model/DecoderSpec.h"

namespace spillway::reference {

using Vector = std::vector<double>;

struct Tensor {
  size_t rows = 0, columns = 0;
  std::vector<float> values;
};

struct Decoder {
  const DecoderSpec& spec;
  const std::map<std::pair<int, std::string>, Tensor>& weights;
  std::vector<std::vector<Vector>> keys, values;  // [layer][position]
  std::vector<Vector> states;                     // of layers that remember one
  std::vector<std::vector<Vector>> convolved;     // [layer][position]: what goes through their convolutions

  Decoder(const DecoderSpec& spec, const std::map<std::pair<int, std::string>, Tensor>& weights)
      : spec(spec),
        weights(weights),
        keys(spec.layers),
        values(spec.layers),
        states(spec.layers),
        convolved(spec.layers) {}

  const Tensor* find(int layer, const std::string& role) const {
    const auto at = weights.find({layer, role});
    return at == weights.end() ? nullptr : &at->second;
  }
  Vector row(const Tensor& tensor, size_t index) const {
    return Vector(tensor.values.begin() + static_cast<long>(index * tensor.columns),
                  tensor.values.begin() + static_cast<long>((index + 1) * tensor.columns));
  }
  Vector linear(int layer, const std::string& name, const Vector& x) const {
    const Tensor& matrix = *find(layer, name + ".weight");
    return product(matrix, find(layer, name + ".bias"), x);
  }
  static Vector product(const Tensor& matrix, const Tensor* bias, const Vector& x) {
    Vector y(matrix.rows);
    for (size_t r = 0; r < matrix.rows; r++) {
      double sum = bias == nullptr ? 0 : bias->values[r];
      for (size_t c = 0; c < matrix.columns; c++) sum += double(matrix.values[r * matrix.columns + c]) * x[c];
      y[r] = sum;
    }
    return y;
  }
  static Vector plus(Vector a, const Vector& b) {
    for (size_t i = 0; i < a.size(); i++) a[i] += b[i];
    return a;
  }
  Vector rms(const Vector& x, const Tensor& weight) const { return rms(x, weight, spec.normEpsilon); }
  static Vector rms(const Vector& x, const Tensor& weight, double epsilon) {
    double squares = 0;
    for (double v : x) squares += v * v;
    const double scale = 1 / std::sqrt(squares / double(x.size()) + epsilon);
    Vector y(x);
    for (size_t i = 0; i < y.size(); i++) y[i] *= scale * weight.values[i];
    return y;
  }
  Vector norm(int layer, const std::string& name, const Vector& x) const {
    const Tensor& weight = *find(layer, name + ".weight");
    if (spec.norm == NormKind::Rms) return rms(x, weight);
    return centred(x, weight, find(layer, name + ".bias"));
  }
  Vector centred(const Vector& x, const Tensor& weight, const Tensor* bias) const {
    double mean = 0, variance = 0;
    for (double v : x) mean += v / double(x.size());
    for (double v : x) variance += (v - mean) * (v - mean) / double(x.size());
    Vector y(x);
    for (size_t i = 0; i < y.size(); i++) {
      y[i] = (x[i] - mean) / std::sqrt(variance + double(spec.normEpsilon)) * weight.values[i] +
             (bias == nullptr ? 0 : bias->values[i]);
    }
    return y;
  }
  double activate(double x) const {
    switch (spec.activation) {
      case Activation::Relu: return x > 0 ? x : 0;
      case Activation::ReluSquared: return x > 0 ? x * x : 0;
      case Activation::Gelu: return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
      case Activation::GeluTanh: return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      case Activation::Silu: return x / (1 + std::exp(-x));
      case Activation::Xielu: return NAN;
      case Activation::ClampedSwiglu: return std::min(x, 7.0) / (1 + std::exp(-1.702 * std::min(x, 7.0)));
    }
    return x;
  }
  void rotate(double* head, size_t layer, size_t position) const {
    const RotaryTable& table = spec.rotaryTables[spec.layerSpecs[layer].rotaryTable];
    const size_t pairs = spec.rotaryDims / 2;
    for (size_t i = 0; i < pairs; i++) {
      const double angle = float(position) * table.frequencies[i];  // the angle in float32, as documented
      const double c = std::cos(angle) * table.scale, s = std::sin(angle) * table.scale;
      double& a = spec.rotaryStyle == RotaryStyle::Pairs ? head[2 * i] : head[i];
      double& b = spec.rotaryStyle == RotaryStyle::Pairs ? head[2 * i + 1] : head[i + pairs];
      const double first = a * c - b * s;
      b = b * c + a * s;
      a = first;
    }
  }
  void prepareHeads(Vector& heads, int layer, const std::string& name, size_t position) const {
    const std::string normRole = name + ".weight";
    const LayerSpec& layerSpec = spec.layerSpecs[size_t(layer)];
    const bool rotated = spec.position == PositionKind::Rotary && layerSpec.rotaryTable != LayerSpec::kNoRotation;
    if (spec.qkNorm == QueryKeyNorm::Row) heads = rms(heads, *find(layer, normRole));
    for (size_t h = 0; h < heads.size() / spec.headDim; h++) {
      double* head = heads.data() + h * spec.headDim;
      const auto normHead = [&](Vector normed) { std::copy(normed.begin(), normed.end(), head); };
      const Vector before(head, head + spec.headDim);
      if (spec.qkNorm == QueryKeyNorm::Head) normHead(rms(before, *find(layer, normRole)));
      if (spec.qkNorm == QueryKeyNorm::Layer) {
        const auto ofHead = [&](Tensor tensor) {
          tensor.values.erase(tensor.values.begin(), tensor.values.begin() + long(h * spec.headDim));
          return tensor;
        };
        const Tensor* bias = find(layer, name + ".bias");
        const Tensor own = bias == nullptr ? Tensor{} : ofHead(*bias);
        normHead(centred(before, ofHead(*find(layer, normRole)), bias == nullptr ? nullptr : &own));
      }
      if (rotated) rotate(head, size_t(layer), position);
      if (spec.qkNorm == QueryKeyNorm::Rotated)
        normHead(rms(Vector(head, head + spec.headDim), *find(layer, normRole)));
    }
  }
  static double bfloat16(double value) {
    uint32_t bits = bitsOfFloat(float(value));
    bits += 0x7fff + ((bits >> 16) & 1);  // to nearest even
    return floatFromBits(bits & 0xffff0000u);
  }
  static double capped(double x, double cap) { return cap == 0 ? x : cap * std::tanh(x / cap); }
  double score(size_t head, double dot, size_t query, size_t key) const {
    if (spec.position != PositionKind::Alibi) return capped(dot * spec.attentionScale, spec.attentionSoftCap);
    const double slope = spec.alibiSlopes[head];
    if (!spec.alibiRoundToBfloat16) return dot * spec.attentionScale + slope * (double(key) - double(query));
    return (dot + bfloat16(bfloat16(slope) * bfloat16(double(key)))) * spec.attentionScale;
  }
  static double logistic(double x) { return 1 / (1 + std::exp(-x)); }
  static double softplus(double x) { return std::log1p(std::exp(x)); }
  static Vector part(const Vector& x, size_t first, size_t count) {
    return Vector(x.begin() + long(first), x.begin() + long(first + count));
  }
  const Tensor& role(int layer, const std::string& name) const { return *find(layer, name); }
  // Of a head's state, [key.size(), value.size()], from element `first` on.
  static void forget(Vector& state, size_t first, size_t count, double decay) {
    for (size_t i = first; i < first + count; i++) state[i] *= decay;
  }
  static void write(Vector& state, size_t first, const Vector& key, const Vector& value) {
    for (size_t k = 0; k < key.size(); k++)
      for (size_t v = 0; v < value.size(); v++) state[first + k * value.size() + v] += key[k] * value[v];
  }
  static Vector read(const Vector& state, size_t first, const Vector& key, size_t width) {
    Vector sum(width);
    for (size_t k = 0; k < key.size(); k++)
      for (size_t v = 0; v < width; v++) sum[v] += state[first + k * width + v] * key[k];
    return sum;
  }
  // The last elements of each channel by the layer's weights, then, `activated`, SiLU.
  Vector convolve(int layer, const std::string& name, const Vector& x, bool activated = true) {
    std::vector<Vector>& seen = convolved[size_t(layer)];
    seen.push_back(x);
    const size_t taps = spec.recurrent.taps;
    const Tensor &weights = role(layer, name + ".weight"), *bias = find(layer, name + ".bias");
    Vector y(x.size());
    for (size_t c = 0; c < x.size(); c++) {
      double sum = bias == nullptr ? 0 : bias->values[c];
      for (size_t k = 0; k < taps && k < seen.size(); k++)
        sum += seen[seen.size() - 1 - k][c] * weights.values[c * taps + taps - 1 - k];
      y[c] = activated ? sum * logistic(sum) : sum;
    }
    return y;
  }
  Vector lightning(int layer, const Vector& x) {
    const size_t heads = spec.recurrent.lightning.heads, dim = spec.recurrent.lightning.headDim;
    Vector &state = states[size_t(layer)], out, projected = linear(layer, "lightning_in", x);
    state.resize(heads * dim * dim);
    for (double& v : projected) v *= logistic(v);
    for (size_t h = 0; h < heads; h++) {
      forget(state, h * dim * dim, dim * dim, spec.layerSpecs[size_t(layer)].decays[h]);
      write(state, h * dim * dim, part(projected, (3 * h + 1) * dim, dim), part(projected, (3 * h + 2) * dim, dim));
      const Vector own = read(state, h * dim * dim, part(projected, 3 * h * dim, dim), dim);
      out.insert(out.end(), own.begin(), own.end());
    }
    out = rms(out, role(layer, "lightning_norm.weight"), spec.recurrent.lightning.epsilon);
    const Vector gates = linear(layer, "lightning_gate", x);
    for (size_t i = 0; i < out.size(); i++) out[i] *= logistic(gates[i]);
    return linear(layer, "lightning_out", out);
  }
  Vector deltaRule(int layer, const Vector& x) {
    const DeltaSpec& delta = spec.recurrent.delta;
    const size_t keyDim = delta.keyDim, valueDim = delta.valueDim, all = delta.keyHeads * keyDim;
    Vector &state = states[size_t(layer)], out;
    state.resize(delta.valueHeads * keyDim * valueDim);
    const Vector mixed = convolve(layer, "delta_conv", linear(layer, "delta_in", x)),
                 gates = linear(layer, "delta_gate", x), betas = linear(layer, "delta_beta", x),
                 rates = linear(layer, "delta_decay", x);
    const auto unit = [](Vector v, double scale) {
      double squares = 1e-6;
      for (double e : v) squares += e * e;
      for (double& e : v) e *= scale / std::sqrt(squares);
      return v;
    };
    for (size_t h = 0; h < delta.valueHeads; h++) {
      const size_t keyHead = h / (delta.valueHeads / delta.keyHeads), first = h * keyDim * valueDim;
      const Vector query = unit(part(mixed, keyHead * keyDim, keyDim), 1 / std::sqrt(double(keyDim))),
                   key = unit(part(mixed, all + keyHead * keyDim, keyDim), 1);
      forget(state, first, keyDim * valueDim,
             std::exp(-std::exp(double(role(layer, "decay.log").values[h])) *
                      softplus(rates[h] + role(layer, "decay.bias").values[h])));
      Vector change = part(mixed, 2 * all + h * valueDim, valueDim);
      const Vector held = read(state, first, key, valueDim);
      for (size_t v = 0; v < valueDim; v++) change[v] = (change[v] - held[v]) * logistic(betas[h]);
      write(state, first, key, change);
      const Vector own = rms(read(state, first, query, valueDim), role(layer, "delta_norm.weight"), delta.epsilon);
      for (size_t v = 0; v < valueDim; v++) {
        const double gate = gates[h * valueDim + v];
        out.push_back(own[v] * gate * logistic(gate));
      }
    }
    return linear(layer, "delta_out", out);
  }
  Vector stateSpace(int layer, const Vector& x) {
    const StateSpaceSpec& space = spec.recurrent.stateSpace;
    const size_t heads = space.heads, dim = space.headDim, elements = space.stateDim, all = heads * dim,
                 shared = space.groups * elements;
    Vector &state = states[size_t(layer)], out;
    state.resize(heads * elements * dim);
    const Vector projected = linear(layer, "state_in", x);
    const Vector mixed = convolve(layer, "state_conv", part(projected, 0, all + 2 * shared));
    for (size_t h = 0; h < heads; h++) {
      const size_t group = h / (heads / space.groups);
      const double step = softplus(projected[2 * all + 2 * shared + h] + role(layer, "decay.bias").values[h]);
      Vector input = part(mixed, h * dim, dim);
      forget(state, h * elements * dim, elements * dim,
             std::exp(-std::exp(double(role(layer, "decay.log").values[h])) * step));
      for (double& v : input) v *= step;
      write(state, h * elements * dim, part(mixed, all + group * elements, elements), input);
      const Vector own = read(state, h * elements * dim, part(mixed, all + shared + group * elements, elements), dim);
      for (size_t p = 0; p < dim; p++) {
        const double gate = projected[all + 2 * shared + h * dim + p];
        const double skipped = own[p] + mixed[h * dim + p] * role(layer, "state_skip").values[h];
        out.push_back(skipped * gate * logistic(gate));
      }
    }
    const size_t width = all / space.groups;
    Vector normed;
    for (size_t g = 0; g < space.groups; g++) {
      Tensor weight = role(layer, "state_norm.weight");
      weight.values.erase(weight.values.begin(), weight.values.begin() + long(g * width));
      const Vector own = rms(part(out, g * width, width), weight);
      normed.insert(normed.end(), own.begin(), own.end());
    }
    return linear(layer, "state_out", normed);
  }
  Vector rgLru(int layer, const Vector& x) {
    const LruSpec& lru = spec.recurrent.lru;
    Vector &state = states[size_t(layer)], gates = linear(layer, "lru_gate", x);
    const bool begins = state.empty();
    state.resize(lru.width());
    const Vector row = convolve(layer, "lru_conv", linear(layer, "lru_in", x), false);
    const auto gate = [&](const std::string& name, size_t c) {
      const size_t each = lru.blockDim, first = c - c % each;
      double sum = role(layer, name + ".bias").values[c];
      for (size_t i = first; i < first + each; i++)
        sum += row[i] * role(layer, name + ".weight").values[i * each + c % each];
      return logistic(sum);
    };
    for (size_t c = 0; c < lru.width(); c++) {
      const double left = std::exp(-8 * gate("lru_forget", c) * softplus(role(layer, "lru_rate").values[c]));
      state[c] = left * state[c] + row[c] * gate("lru_input", c) * (begins ? 1 : std::sqrt(1 - left * left));
      gates[c] = activate(gates[c]) * state[c];
    }
    return linear(layer, "lru_out", gates);
  }
  // What mixes a layer's tokens.
  Vector mixed(int layer, const Vector& x, size_t position) {
    switch (spec.layerSpecs[size_t(layer)].mixer) {
      case Mixer::LightningAttention: return lightning(layer, x);
      case Mixer::RgLru: return rgLru(layer, x);
      case Mixer::DeltaRule: return deltaRule(layer, x);
      case Mixer::StateSpace: return stateSpace(layer, x);
      default: return attention(layer, x, position);
    }
  }
  static Vector weighed(const BranchSum& sum, const Vector& kept, const Vector& added) {
    Vector y(kept);
    for (size_t i = 0; i < y.size(); i++) y[i] = sum.kept * kept[i] + sum.added * added[i];
    return y;
  }
  Vector attention(int layer, const Vector& x, size_t position) {
    Vector q = linear(layer, "q", x), k = linear(layer, "k", x), v = linear(layer, "v", x);
    prepareHeads(q, layer, "q_norm", position);
    prepareHeads(k, layer, "k_norm", position);
    keys[size_t(layer)].push_back(k);
    values[size_t(layer)].push_back(v);
    const size_t window = spec.layerSpecs[size_t(layer)].window;
    const size_t first = window == 0 || position + 1 < window ? 0 : position + 1 - window;
    Vector out(q.size());
    for (size_t h = 0; h < spec.heads; h++) {
      const size_t kv = h / (spec.heads / spec.kvHeads) * spec.headDim;
      std::vector<double> scores;
      double maximum = -INFINITY, sum = 0;
      for (size_t p = first; p <= position; p++) {
        double dot = 0;
        for (size_t i = 0; i < spec.headDim; i++) dot += q[h * spec.headDim + i] * keys[size_t(layer)][p][kv + i];
        scores.push_back(score(h, dot, position, p));
        maximum = std::max(maximum, scores.back());
      }
      for (double& s : scores) sum += s = std::exp(s - maximum);
      if (spec.attentionSinks) sum += std::exp(find(layer, "sinks")->values[h] - maximum);
      for (size_t p = first; p <= position; p++) {
        for (size_t i = 0; i < spec.headDim; i++)
          out[h * spec.headDim + i] += scores[p - first] / sum * values[size_t(layer)][p][kv + i];
      }
    }
    return linear(layer, "o", out);
  }
  Vector gated(int layer, const std::string& prefix, const Vector& x) const {
    Vector gate = linear(layer, prefix + "gate", x);
    const Vector up = linear(layer, prefix + "up", x);
    const bool clamped = spec.activation == Activation::ClampedSwiglu;
    for (size_t i = 0; i < gate.size(); i++)
      gate[i] = activate(gate[i]) * (clamped ? std::max(-7.0, std::min(7.0, up[i])) + 1 : up[i]);
    return linear(layer, prefix + "down", gate);
  }
  Vector feedForward(int layer, const Vector& x) const {
    if (spec.feedForward == FeedForwardKind::Gated) return gated(layer, "", x);
    if (spec.feedForward == FeedForwardKind::Plain) {
      Vector up = linear(layer, "up", x);
      for (double& v : up) v = activate(v);
      return linear(layer, "down", up);
    }
    const LayerSpec& layerSpec = spec.layerSpecs[size_t(layer)];
    if (layerSpec.dense) return gated(layer, "", x);
    Vector out = experts(layer, x);
    if (spec.sharedSize == 0) return out;
    const Vector shared = gated(layer, "", x);
    const double share = spec.sharedGate ? 1 / (1 + std::exp(-linear(layer, "shared_gate", x)[0])) : 1;
    for (size_t i = 0; i < out.size(); i++) out[i] += share * shared[i];
    return out;
  }
  Vector experts(int layer, const Vector& x) const {
    const RouterSpec& router = spec.router;
    Vector chances = linear(layer, "router", x);
    double total = 0;
    for (double& v : chances) {
      v = router.score == RouterScore::Softmax ? std::exp(v) : 1 / (1 + std::exp(-v));
      total += v;
    }
    if (router.score == RouterScore::Softmax)
      for (double& v : chances) v /= total;
    Vector wanted(chances);
    if (const Tensor* bias = find(layer, "router.choice_bias"))
      for (size_t e = 0; e < wanted.size(); e++) wanted[e] += bias->values[e];
    if (router.groupsPerToken < router.groups) {
      const size_t size = wanted.size() / router.groups;
      std::vector<std::pair<double, size_t>> groups;
      for (size_t g = 0; g < router.groups; g++) {
        Vector of(wanted.begin() + long(g * size), wanted.begin() + long((g + 1) * size));
        std::sort(of.rbegin(), of.rend());
        groups.push_back({router.groupScore == GroupScore::Best ? -of[0] : -of[0] - of[1], g});
      }
      std::sort(groups.begin(), groups.end());
      for (size_t g = router.groupsPerToken; g < router.groups; g++)
        std::fill_n(wanted.begin() + long(groups[g].second * size), size, -INFINITY);
    }
    std::vector<size_t> order(chances.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return wanted[a] > wanted[b]; });
    double sum = 0;
    for (size_t c = 0; c < spec.expertsPerToken; c++) sum += chances[order[c]];
    const double factor = router.scale / (router.normalised ? sum : 1);
    Vector out(x.size());
    for (size_t c = 0; c < spec.expertsPerToken; c++) {
      const Vector y = gated(layer, "expert." + std::to_string(order[c]) + ".", x);
      for (size_t i = 0; i < out.size(); i++) out[i] += chances[order[c]] * factor * y[i];
    }
    return out;
  }
  // Of a mixture's result, where it has a norm of its own.
  Vector branchNormed(int l, const Vector& x) const {
    return find(l, "post_norm2.weight") != nullptr ? norm(l, "post_norm2", x) : x;
  }
  // Logits after the next token.
  Vector step(int32_t token, size_t position) {
    const Tensor& embeddings = *find(-1, "token_embedding");
    Vector h = row(embeddings, size_t(token));
    for (double& v : h) v *= spec.embeddingScale;
    if (const Tensor* projection = find(-1, "embedding_projection")) h = product(*projection, nullptr, h);
    if (const Tensor* positions = find(-1, "position_embedding"))
      h = plus(h, row(*positions, position + spec.learnedOffset));
    if (spec.embeddingNorm) h = norm(-1, "embedding_norm", h);
    const auto plus = [this](const Vector& a, Vector b) {
      for (double& v : b) v *= spec.residualScale;
      return Decoder::plus(a, b);
    };
    for (int l = 0; l < int(spec.layers); l++) {
      const LayerSpec& own = spec.layerSpecs[size_t(l)];
      switch (spec.residual) {
        case Residual::Pre:
          h = plus(h, mixed(l, norm(l, "norm1", h), position));
          h = plus(h, branchNormed(l, feedForward(l, norm(l, "norm2", h))));
          break;
        case Residual::Post:
          h = norm(l, "norm1", weighed(own.mixerSum, h, mixed(l, h, position)));
          h = norm(l, "norm2", weighed(own.blockSum, h, feedForward(l, h)));
          break;
        case Residual::Sandwich:
          h = plus(h, norm(l, "post_norm1", attention(l, norm(l, "norm1", h), position)));
          h = plus(h, norm(l, "post_norm2", feedForward(l, norm(l, "norm2", h))));
          break;
        case Residual::Branch:
          h = plus(h, norm(l, "post_norm1", attention(l, h, position)));
          h = plus(h, norm(l, "post_norm2", feedForward(l, h)));
          break;
        case Residual::Parallel: {
          const Vector second = norm(l, find(l, "norm2.weight") != nullptr ? "norm2" : "norm1", h);
          h = plus(plus(h, attention(l, norm(l, "norm1", h), position)), feedForward(l, second));
          break;
        }
      }
    }
    if (spec.finalNorm) h = norm(-1, "final_norm", h);
    if (const Tensor* projection = find(-1, "output_projection")) h = product(*projection, nullptr, h);
    const Tensor* head = find(-1, "head.weight");
    Vector logits = product(head != nullptr ? *head : embeddings, find(-1, "head.bias"), h);
    for (double& logit : logits) logit = capped(logit * spec.logitScale, spec.logitSoftCap);
    return logits;
  }
};

inline double logProbability(const Vector& logits, int32_t token) {
  double maximum = -INFINITY, sum = 0;
  for (double v : logits) maximum = std::max(maximum, v);
  for (double v : logits) sum += std::exp(v - maximum);
  return logits[size_t(token)] - maximum - std::log(sum);
}

}  // namespace spillway::reference
