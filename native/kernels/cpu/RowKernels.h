// Operations on one row of activations at a time. Any n, 0 included; nothing beyond n is touched. Buffers need no
// alignment, and overlap only where it says so.
#pragma once
#include <cstddef>
#include <cstdint>

namespace spillway {

// ClampedSwiglu (gpt-oss) is one of gated blocks alone: gate is at most 7, up within +-7, and
// gate * sigmoid(1.702 gate) * (up + 1).
enum class Activation : uint8_t { Relu, ReluSquared, Gelu, GeluTanh, Silu, ClampedSwiglu, Xielu };
constexpr float kSwigluLimit = 7.0f, kSwigluSteepness = 1.702f;

struct RowKernels {
  // y = x / sqrt(mean(x²) + epsilon) * weight. y may be x.
  void (*rmsNorm)(const float* x, const float* weight, float epsilon, size_t n, float* y);
  // y = (x - mean) / sqrt(variance + epsilon) * weight + bias; bias may be null. Two passes: mean first, then squares
  // of differences.
  void (*layerNorm)(const float* x, const float* weight, const float* bias, float epsilon, size_t n, float* y);
  // Rotates the first dims elements of a head in place; cosines and sines: dims/2 each.
  void (*rotatePairs)(float* head, const float* cosines, const float* sines, size_t dims);
  void (*rotateHalves)(float* head, const float* cosines, const float* sines, size_t dims);
  // y += x
  void (*add)(const float* x, float* y, size_t n);
  // y = y * scale
  void (*scale)(float scale, float* y, size_t n);
  // y = cap * tanh(y / cap). What is not finite stays as it is.
  void (*softCap)(float cap, float* y, size_t n);
  // y += scale * x
  void (*addScaled)(const float* x, float scale, float* y, size_t n);
  // x = activation(x), times `up` elementwise where that is not null (gated feed-forward). erf GELU accurate to
  // 1e-6.
  void (*activate)(Activation activation, float* x, const float* up, size_t n);
  // Largest value, and its first index; if nothing is above -infinity: that, and index 0. Of any NaN: NaN and index 0.
  // So the value is finite where x can be sampled from: nothing in it is NaN or +infinity, and something is above
  // -infinity.
  void (*argMax)(const float* x, size_t n, float* value, size_t* index);
  bool (*allFinite)(const float* x, size_t n);
  // y = exp(x - maximum), each NaN x counting as -infinity. y may be x.
  void (*expShifted)(const float* x, float maximum, size_t n, float* y);
  // The sum of what expShifted gives.
  float (*sumExp)(const float* x, float maximum, size_t n);
  void (*toHalf)(const float* x, uint16_t* y, size_t n);  // IEEE half, round to nearest even
  void (*fromHalf)(const uint16_t* x, float* y, size_t n);
};

}  // namespace spillway
