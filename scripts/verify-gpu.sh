#!/usr/bin/env bash
# Verifies the CUDA backend on this machine's GPU: builds it, runs the tests of the kernels and of models made of them on the device, compute-sanitizer over these where it is there, and the
# kernel benchmarks; writes bench/results/gpu-DATE-DEVICE.md and .json.
#   scripts/verify-gpu.sh [BUILD_FOLDER]      (default native/build-gpu)
# Needs an NVIDIA driver, node, cmake, a C++ compiler, GoogleTest, and nvcc: in PATH, in CUDACXX, or in the folder that SPILLWAY_CUDA_TOOLKIT names.
# In a bundle (scripts/bundle-gpu-check.sh) it needs the driver alone: what would be built is there.
# Exits with 1 if a test fails; without a GPU it writes nothing and exits with 2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath -m "${1:-native/build-gpu}")
node=node
if [[ -x prebuilt/native/tests/cuda_device_tests ]]; then build=$PWD/prebuilt node=$PWD/prebuilt/node; fi

if ! device=$(nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total --format=csv,noheader 2>&1 | head -n 1) || [[ $device != *,* ]]; then
  echo "no NVIDIA GPU to verify on: ${device:-nvidia-smi says nothing}" >&2
  exit 2
fi
architecture=$(cut -d, -f2 <<< "$device" | tr -d ' .')
echo "verifying on $device"

if [[ $build != "$PWD/prebuilt" ]]; then
  options=(-DSPILLWAY_TESTS=ON -DSPILLWAY_BENCH=ON -DSPILLWAY_CUDA=ON "-DSPILLWAY_CUDA_ARCHITECTURES=$architecture")
  [[ -n ${SPILLWAY_CUDA_TOOLKIT:-} ]] && options+=("-DSPILLWAY_CUDA_TOOLKIT=$SPILLWAY_CUDA_TOOLKIT")
  cmake -S . -B "$build" "${options[@]}" > /dev/null
  cmake --build "$build" --parallel --target cuda_device_tests gpu_model_device_tests bench_cudaKernels > "$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; exit 1; }
fi

rm -f "$build"/{tests,models,bench}.json
tests_code=0 models_code=0 bench_code=0 sanitizer=absent
"$build/native/tests/cuda_device_tests" --gtest_brief=1 "--gtest_output=json:$build/tests.json" || tests_code=$?
"$build/native/tests/gpu_model_device_tests" --gtest_brief=1 "--gtest_output=json:$build/models.json" || models_code=$?
"$build/native/bench/bench_cudaKernels" > "$build/bench.json" || bench_code=$?
if command -v compute-sanitizer > /dev/null; then
  sanitizer=clean
  # The largest products take minutes under it and touch nothing that smaller ones do not.
  for tool in memcheck racecheck synccheck; do
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/native/tests/cuda_device_tests" --gtest_brief=1 '--gtest_filter=-*feed_forward*:*head*' > "$build/$tool.log" 2>&1 || {
      sanitizer="$tool found errors"
      tail -n 20 "$build/$tool.log" >&2
      break
    }
  done
fi

"$node" scripts/gpu-report.mjs "$device" "$build/tests.json,$build/models.json" "$build/bench.json" "$sanitizer"
[[ $tests_code -eq 0 && $models_code -eq 0 && $bench_code -eq 0 && ($sanitizer == clean || $sanitizer == absent) ]]
