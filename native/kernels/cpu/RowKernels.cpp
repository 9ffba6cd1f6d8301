// Compiled once for each instruction set (simd.h).
#include "RowKernels.h"

#include "simd.h"
#include "tanh.h"

namespace spillway::SPILLWAY_ISA {
namespace {

constexpr float kInfinity = __builtin_inff();

// Sum of term(i, vector of x) over x: four vectors of partial sums that depend on n alone, then one tree. `fill` stands
// beyond the end of x and must give a term of zero.
template <typename Term>
static float sumTerms(const float* x, size_t n, float fill, Term term) {
  f32x16 sum[4] = {zero(), zero(), zero(), zero()};
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) sum[j] = term(load(x + i + 16 * j), sum[j]);
  }
  for (; i < n; i += 16) sum[0] = term(n - i < 16 ? loadPartial(x + i, n - i, fill) : load(x + i), sum[0]);
  return reduceAdd(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
}

// y[i] = map(x[i]) in vectors.
template <typename Map>
static void mapVectors(const float* x, float* y, size_t n, Map map) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, map(load(x + i), i, 16));
  if (i < n) storePartial(y + i, map(loadPartial(x + i, n - i), i, n - i), n - i);
}

static inline f32x16 loadFirst(const float* p, size_t n) { return n == 16 ? load(p) : loadPartial(p, n); }

void rmsNorm(const float* x, const float* weight, float epsilon, size_t n, float* y) {
  const float squares = sumTerms(x, n, 0.0f, [](f32x16 v, f32x16 sum) { return fma(v, v, sum); });
  const f32x16 factor = div(set1(1.0f), sqrt(set1(squares / static_cast<float>(n) + epsilon)));
  mapVectors(x, y, n,
             [=](f32x16 v, size_t i, size_t count) { return mul(mul(v, factor), loadFirst(weight + i, count)); });
}

void layerNorm(const float* x, const float* weight, const float* bias, float epsilon, size_t n, float* y) {
  const float mean = sumTerms(x, n, 0.0f, [](f32x16 v, f32x16 sum) { return add(sum, v); }) / static_cast<float>(n);
  const f32x16 centre = set1(mean);
  const float squares = sumTerms(x, n, mean, [=](f32x16 v, f32x16 sum) {
    const f32x16 difference = sub(v, centre);
    return fma(difference, difference, sum);
  });
  const f32x16 factor = div(set1(1.0f), sqrt(set1(squares / static_cast<float>(n) + epsilon)));
  mapVectors(x, y, n, [=](f32x16 v, size_t i, size_t count) {
    const f32x16 normed = mul(sub(v, centre), factor);
    return bias == nullptr ? mul(normed, loadFirst(weight + i, count))
                           : fma(normed, loadFirst(weight + i, count), loadFirst(bias + i, count));
  });
}

// Plain loops: products and sums rounded one by one, which is also what transformers does. The compiler's vectors
// cannot change a bit of them.
void rotatePairs(float* __restrict head, const float* __restrict cosines, const float* __restrict sines, size_t dims) {
  for (size_t i = 0; i < dims / 2; i++) {
    const float a = head[2 * i], b = head[2 * i + 1];
    head[2 * i] = a * cosines[i] - b * sines[i];
    head[2 * i + 1] = b * cosines[i] + a * sines[i];
  }
}

void rotateHalves(float* __restrict head, const float* __restrict cosines, const float* __restrict sines, size_t dims) {
  const size_t half = dims / 2;
  for (size_t i = 0; i < half; i++) {
    const float a = head[i], b = head[half + i];
    head[i] = a * cosines[i] - b * sines[i];
    head[half + i] = b * cosines[i] + a * sines[i];
  }
}

void addRow(const float* x, float* y, size_t n) {
  mapVectors(y, y, n, [=](f32x16 v, size_t i, size_t count) { return add(v, loadFirst(x + i, count)); });
}

void scaleRow(float scale, float* y, size_t n) {
  const f32x16 factor = set1(scale);
  mapVectors(y, y, n, [=](f32x16 v, size_t, size_t) { return mul(v, factor); });
}

void softCapRow(float cap, float* y, size_t n) {
  const f32x16 most = set1(cap), infinity = set1(kInfinity);
  mapVectors(y, y, n,
             [=](f32x16 v, size_t, size_t) { return selectLess(abs(v), infinity, mul(tanh(div(v, most)), most), v); });
}

void addScaled(const float* x, float scale, float* y, size_t n) {
  const f32x16 factor = set1(scale);
  mapVectors(y, y, n, [=](f32x16 v, size_t i, size_t count) { return fma(loadFirst(x + i, count), factor, v); });
}

static inline f32x16 relu(f32x16 x) { return max(zero(), x); }  // in this order a NaN stays one

static inline f32x16 reluSquared(f32x16 x) {
  const f32x16 positive = relu(x);
  return mul(positive, positive);
}

// x times the logistic function of `steepness`, for finite and infinite x: far below zero exp() is infinite and the
// quotient zero.
static inline f32x16 timesLogistic(f32x16 x, f32x16 steepness) {
  return div(max(set1(-200.0f), x), add(set1(1.0f), exp(neg(steepness))));
}

static inline f32x16 silu(f32x16 x) { return timesLogistic(x, x); }

// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)) with u = sqrt(2/pi) (x + 0.044715 x³).
static inline f32x16 geluTanh(f32x16 x) {
  const f32x16 inner = fma(mul(x, x), set1(0.0713548162726f), set1(1.59576912161f));
  return timesLogistic(x, mul(x, inner));
}

// x Phi(x) = relu(x) - |x| Q(|x|), where the upper tail Q(z) = exp(-z²/2) t P(t), t = 1 / (1 + 0.425 z). P was fitted
// by us to the error function by iteratively reweighted least squares on z |error|; the result is within 1e-7 of exact,
// the rounding of the result aside.
static inline f32x16 gelu(f32x16 x) {
  const f32x16 z = min(set1(20.0f), abs(x));  // the tail is zero long before
  const f32x16 t = div(set1(1.0f), fma(z, set1(0.425f), set1(1.0f)));
  f32x16 p = set1(-0x1.77dd28p-6f);
  p = fma(p, t, set1(0x1.46fea0p-3f));
  p = fma(p, t, set1(-0x1.a7d6f4p-2f));
  p = fma(p, t, set1(0x1.a8d2dep-2f));
  p = fma(p, t, set1(-0x1.c3f0aep-8f));
  p = fma(p, t, set1(0x1.9f62eap-3f));
  p = fma(p, t, set1(0x1.54c1d0p-3f));
  const f32x16 tail = mul(mul(p, t), exp(mul(mul(z, z), set1(-0.5f))));
  return fnma(z, tail, relu(x));
}

// What is not a number stays so: max() and min() keep their second argument.
static inline f32x16 clampedGate(f32x16 x) {
  const f32x16 gate = min(set1(kSwigluLimit), x);
  return timesLogistic(gate, mul(gate, set1(kSwigluSteepness)));
}

static void clampedSwiglu(float* x, const float* up, size_t n) {
  mapVectors(x, x, n, [=](f32x16 v, size_t i, size_t count) {
    const f32x16 factor = max(set1(-kSwigluLimit), min(set1(kSwigluLimit), loadFirst(up + i, count)));
    return mul(clampedGate(v), add(factor, set1(1.0f)));
  });
}

template <typename Function>
static void activateWith(Function function, float* x, const float* up, size_t n) {
  if (up == nullptr)
    mapVectors(x, x, n, [=](f32x16 v, size_t, size_t) { return function(v); });
  else
    mapVectors(x, x, n, [=](f32x16 v, size_t i, size_t count) { return mul(function(v), loadFirst(up + i, count)); });
}

void activate(Activation activation, float* x, const float* up, size_t n) {
  switch (activation) {
    case Activation::Relu: return activateWith([](f32x16 v) { return relu(v); }, x, up, n);
    case Activation::ReluSquared: return activateWith([](f32x16 v) { return reluSquared(v); }, x, up, n);
    case Activation::Gelu: return activateWith([](f32x16 v) { return gelu(v); }, x, up, n);
    case Activation::GeluTanh: return activateWith([](f32x16 v) { return geluTanh(v); }, x, up, n);
    case Activation::Silu: return activateWith([](f32x16 v) { return silu(v); }, x, up, n);
    case Activation::ClampedSwiglu: return clampedSwiglu(x, up, n);
    case Activation::Xielu: return;  // of a layer, which has its numbers
  }
}

void argMax(const float* x, size_t n, float* value, size_t* index) {
  constexpr size_t kChunk = 1024;  // only the chunk that holds the maximum is searched for its index
  float best = -kInfinity;
  size_t bestChunk = 0;
  f32x16 odd[2] = {zero(), zero()};  // sums of nothing above zero: NaN where a term is, and never otherwise
  for (size_t start = 0; start < n; start += kChunk) {
    const size_t count = n - start < kChunk ? n - start : kChunk;
    f32x16 highest[2] = {set1(-kInfinity), set1(-kInfinity)};  // max() keeps its second argument where the first is NaN
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
      const f32x16 first = load(x + start + i), second = load(x + start + i + 16);
      highest[0] = max(first, highest[0]);
      highest[1] = max(second, highest[1]);
      odd[0] = add(odd[0], min(zero(), first));
      odd[1] = add(odd[1], min(zero(), second));
    }
    for (; i < count; i += 16) {
      const f32x16 some = count - i < 16 ? loadPartial(x + start + i, count - i, -kInfinity) : load(x + start + i);
      highest[0] = max(some, highest[0]);
      odd[0] = add(odd[0], min(zero(), some));
    }
    const float chunk = reduceMax(max(highest[0], highest[1]));
    if (chunk > best) best = chunk, bestChunk = start;
  }
  const float nan = reduceAdd(add(odd[0], odd[1]));
  *value = nan == nan ? best : nan;
  *index = 0;
  if (nan != nan || best == -kInfinity) return;
  size_t i = bestChunk;
  while (x[i] != best) i++;
  *index = i;
  *value = x[i];  // of equal zeros the first one's sign
}

bool allFinite(const float* x, size_t n) {
  return sumTerms(x, n, 0.0f, [](f32x16 v, f32x16 sum) { return fma(v, zero(), sum); }) == 0.0f;
}

static inline f32x16 expOf(f32x16 x, f32x16 maximum) { return exp(max(sub(x, maximum), set1(-kInfinity))); }

void expShifted(const float* x, float maximum, size_t n, float* y) {
  const f32x16 highest = set1(maximum);
  mapVectors(x, y, n, [=](f32x16 v, size_t, size_t) { return expOf(v, highest); });
}

float sumExp(const float* x, float maximum, size_t n) {
  const f32x16 highest = set1(maximum);
  return sumTerms(x, n, -kInfinity, [=](f32x16 v, f32x16 sum) { return add(sum, expOf(v, highest)); });
}

void toHalf(const float* x, uint16_t* y, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) storeHalf(y + i, load(x + i));
  if (i < n) storeHalfPartial(y + i, loadPartial(x + i, n - i), n - i);
}

void fromHalf(const uint16_t* x, float* y, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, loadHalf(x + i));
  if (i < n) storePartial(y + i, loadHalfPartial(x + i, n - i), n - i);
}

}  // namespace

const RowKernels& rowKernels() {
  static const RowKernels kernels = {rmsNorm,   layerNorm,  rotatePairs, rotateHalves, addRow,
                                     scaleRow,  softCapRow, addScaled,   activate,     argMax,
                                     allFinite, expShifted, sumExp,      toHalf,       fromHalf};
  return kernels;
}

}  // namespace spillway::SPILLWAY_ISA
