#!/usr/bin/env bash
# Packs what verifies the CUDA backend on a machine that has a GPU and a driver but no toolkit, no compiler and no network: tests, benchmarks, the addon, the compiled package, node.
#   scripts/bundle-gpu-check.sh OUTPUT.tar.xz [BUILD_FOLDER]      (default native/build-bundle)
# There: tar xf OUTPUT.tar.xz && spillway-gpu-check/scripts/verify-gpu.sh; the report is in spillway-gpu-check/bench/results.
# Built for all release architectures, or for those in SPILLWAY_CUDA_ARCHITECTURES. Needs npm's packages, cmake, a C++ compiler, GoogleTest, nvcc (as verify-gpu.sh) and xz.
# SPILLWAY_PEER_WHEELS: a folder with wheels of FlexGen and of what it needs beside torch (flexgen, attrs), which come along for machines whose torch is without them.
# Refuses a bundle of more than 60 MiB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
output=$(realpath -m "${1:?usage: bundle-gpu-check.sh OUTPUT.tar.xz [BUILD_FOLDER]}")
build=$(realpath -m "${2:-native/build-bundle}")
jobs=${SPILLWAY_BUILD_JOBS:-$(nproc)}

options=(--CDSPILLWAY_TESTS=ON --CDSPILLWAY_BENCH=ON --CDSPILLWAY_CUDA=ON "--CDSPILLWAY_CUDA_ARCHITECTURES=${SPILLWAY_CUDA_ARCHITECTURES:-release}")
[[ -n ${SPILLWAY_CUDA_TOOLKIT:-} ]] && options+=("--CDSPILLWAY_CUDA_TOOLKIT=$SPILLWAY_CUDA_TOOLKIT")
mkdir -p "$build"
build_all() {
  npm run --silent build
  # Not `compile`, which takes a folder as it was configured before.
  npx --no-install cmake-js configure --out "$build" "${options[@]}"
  cmake --build "$build" --parallel "$jobs" --target spillway cuda_device_tests gpu_model_device_tests bench_cudaKernels bench_cudaLink
}
build_all > "$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bundle=$scratch/spillway-gpu-check
mkdir -p "$bundle"/{scripts,prebuilt/Release} "$bundle"/prebuilt/native/{tests,bench} "$bundle/test/fixtures/models"
cp -r scripts/verify-gpu.sh scripts/gpu-report.mjs scripts/gpu "$bundle/scripts/"
cp "$build/Release/spillway.node" "$bundle/prebuilt/Release/"
cp "$build"/native/tests/{cuda_device_tests,gpu_model_device_tests} "$bundle/prebuilt/native/tests/"
cp "$build"/native/bench/bench_cuda{Kernels,Link} "$bundle/prebuilt/native/bench/"
cp "$(node -p process.execPath)" "$bundle/prebuilt/node"
strip "$bundle"/prebuilt/{node,Release/spillway.node,native/tests/*,native/bench/*}
git rev-parse HEAD > "$bundle/prebuilt/commit"
node scripts/gpu/copyRuntime.mjs "$bundle"
node -e '
  import("./scripts/gpu/sizes.mjs").then(({ FIXTURES }) => {
    for (const name of FIXTURES) require("fs").cpSync(`test/fixtures/models/${name}`, `${process.argv[1]}/${name}`, { recursive: true });
  });' "$bundle/test/fixtures/models"
if [[ -n ${SPILLWAY_PEER_WHEELS:-} ]]; then
  mkdir "$bundle/peers"
  cp "$SPILLWAY_PEER_WHEELS"/*.whl "$bundle/peers/"
fi
# The binaries have the same kernels each: a window over all of them finds that.
tar -C "$scratch" -c spillway-gpu-check | xz -T1 --lzma2=preset=6,dict=192MiB > "$output"

bytes=$(stat -c %s "$output")
if ((bytes > 60 * 1024 * 1024)); then
  rm -f "$output"
  echo "the bundle has $bytes bytes, expected 60 MiB at most" >&2
  exit 1
fi
echo "$output: $((bytes / 1024 / 1024)) MiB"
