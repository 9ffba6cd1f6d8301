#!/usr/bin/env bash
# Packs what verifies the CUDA backend on a machine that has a GPU and a driver but no toolkit, no compiler and no network.
#   scripts/bundle-gpu-check.sh OUTPUT.tar.xz [BUILD_FOLDER]      (default native/build-bundle)
# There: tar xf OUTPUT.tar.xz && spillway-gpu-check/scripts/verify-gpu.sh; the report is in spillway-gpu-check/bench/results.
# Built for all release architectures, or for those in SPILLWAY_CUDA_ARCHITECTURES. Needs cmake, a C++ compiler, GoogleTest, nvcc (as verify-gpu.sh) and xz.
# Refuses a bundle of more than 60 MiB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
output=$(realpath -m "${1:?usage: bundle-gpu-check.sh OUTPUT.tar.xz [BUILD_FOLDER]}")
build=$(realpath -m "${2:-native/build-bundle}")

options=(-DSPILLWAY_TESTS=ON -DSPILLWAY_BENCH=ON -DSPILLWAY_CUDA=ON "-DSPILLWAY_CUDA_ARCHITECTURES=${SPILLWAY_CUDA_ARCHITECTURES:-release}")
[[ -n ${SPILLWAY_CUDA_TOOLKIT:-} ]] && options+=("-DSPILLWAY_CUDA_TOOLKIT=$SPILLWAY_CUDA_TOOLKIT")
cmake -S . -B "$build" "${options[@]}" > /dev/null
cmake --build "$build" --parallel --target cuda_device_tests gpu_model_device_tests bench_cudaKernels > "$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bundle=$scratch/spillway-gpu-check
mkdir -p "$bundle"/scripts "$bundle"/prebuilt/native/{tests,bench}
cp scripts/verify-gpu.sh scripts/gpu-report.mjs "$bundle/scripts/"
cp "$build"/native/tests/{cuda_device_tests,gpu_model_device_tests} "$bundle/prebuilt/native/tests/"
cp "$build/native/bench/bench_cudaKernels" "$bundle/prebuilt/native/bench/"
cp "$(node -p process.execPath)" "$bundle/prebuilt/node"
git rev-parse HEAD > "$bundle/prebuilt/commit"
tar -C "$scratch" -c spillway-gpu-check | xz -T0 -6 > "$output"

bytes=$(stat -c %s "$output")
if ((bytes > 60 * 1024 * 1024)); then
  rm -f "$output"
  echo "the bundle has $bytes bytes, expected 60 MiB at most" >&2
  exit 1
fi
echo "$output: $((bytes / 1024 / 1024)) MiB"
