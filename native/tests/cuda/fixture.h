// Memory on the device, and running a case under several orders of threads and streams.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../kernels/cuda/gpu.h"
#if !defined(__CUDACC__) && !defined(SPILLWAY_CUDA_RUNTIME)
#include "control.h"
#endif

namespace spillway::cuda {

// Exactly n elements on the device, all ones (NaN) until something is written. What is written here is there before the
// constructor returns: a copy from pageable memory may return earlier, and streams that do not block do not wait for
// it.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : size_(n) {
    void* pointer = nullptr;
    check(cudaMalloc(&pointer, n * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(pointer);
#if defined(__CUDACC__) || defined(SPILLWAY_CUDA_RUNTIME)
    check(cudaMemset(data_, 0xff, n * sizeof(T)), "cudaMemset");  // the emulated device does it by itself
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
#endif
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~DeviceArray() {
    if (data_ != nullptr) cudaFree(data_);
  }
  DeviceArray(DeviceArray&& other) noexcept : size_(other.size_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* get() const { return data_; }
  size_t size() const { return size_; }
  // After all work so far.
  std::vector<T> values() const {
    std::vector<T> values(size_);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  size_t size_;
  T* data_ = nullptr;
};

// The stream of all cases; it lives as long as the program.
inline cudaStream_t testStream() {
  static cudaStream_t stream = [] {
    cudaStream_t created = nullptr;
    check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return created;
  }();
  return stream;
}

// Seeds from SPILLWAY_CUDA_SEEDS ("0,7"), or three of them.
inline std::vector<uint64_t> seeds() {
  const char* text = std::getenv("SPILLWAY_CUDA_SEEDS");
  std::vector<uint64_t> numbers;
  for (const char* at = text == nullptr ? "0,1,2" : text; *at != 0;) {
    char* end = nullptr;
    numbers.push_back(std::strtoull(at, &end, 10));
    at = *end == ',' ? end + 1 : end;
    if (end == at && *end != 0) break;
  }
  return numbers;
}

inline void underEverySeed(const std::function<void()>& run) {
#if defined(__CUDACC__) || defined(SPILLWAY_CUDA_RUNTIME)
  run();
#else
  for (const uint64_t seed : seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    emulator::setSeed(seed);
    run();
  }
  emulator::setSeed(0);
#endif
}

inline std::vector<float> normalNumbers(size_t n, unsigned seed, float width = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, width);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

inline void expectClose(const std::vector<float>& values, const std::vector<float>& expected, float absolute,
                        float relative, const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); i++) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(values[i])) << what << " at " << i << ": " << values[i];
    } else if (values[i] != expected[i]) {
      ASSERT_NEAR(values[i], expected[i], absolute + relative * std::fabs(expected[i])) << what << " at " << i;
    }
  }
}

inline void expectSame(const std::vector<float>& values, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  if (values.empty() || std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)) == 0) return;
  for (size_t i = 0; i < values.size(); i++)
    ASSERT_EQ(std::memcmp(&values[i], &expected[i], sizeof(float)), 0)
        << what << " at " << i << ": " << values[i] << " and " << expected[i];
}

}  // namespace spillway::cuda
