#!/usr/bin/env bash
# Verifies the CUDA backend on this machine's GPU, and writes bench/results/gpu-DATE-DEVICE.md and .json:
#   link         bytes/s between memory and the device, and how long a small copy waits beside the weights'
#   kernels      the tests of the kernels and of models made of them on the device, a process a suite
#   bench        the kernels' benchmarks
#   end-to-end   the engine's greedy answers beside the processor's, copies beside computing, memory by the driver's own count
#   speed        tokens/s of the shapes of OPT-6.7B and OPT-30B under 16 GiB of GPU memory, beside the plan's own roofline
#   peers        FlexGen on the torch that is there, under the same caps
#   sanitizer    compute-sanitizer over the kernels' tests, where it is there
# in this order, so that a machine that is lent for some minutes says the most; each step prints its verdict as it ends.
#   scripts/verify-gpu.sh [--only PART,PART] [--disk FOLDER] [--results FOLDER] [--report FOLDER] [BUILD_FOLDER]
# --only: these parts, or single steps of them by name (speed-opt-30b). What other calls found stays in --results (default BUILD_FOLDER/verify) and is in the report;
# RESULTS.tar.gz beside it is all of that in one file.
# --disk: models of tens of gigabytes are made in a folder there, which is removed (default: the results' folder). --report: instead of bench/results. BUILD_FOLDER: default native/build-gpu.
# Needs an NVIDIA driver, node, npm's packages, cmake, a C++ compiler, GoogleTest, and nvcc: in PATH, in CUDACXX, or in the folder that SPILLWAY_CUDA_TOOLKIT names.
# In a bundle (scripts/bundle-gpu-check.sh) it needs the driver alone: what would be built is there. SPILLWAY_FLEXGEN_PYTHON: a Python that has torch and FlexGen.
# Each step has a time limit; all of them together take 30 minutes at most, building apart (SPILLWAY_VERIFY_PATIENCE=3: three times as long; SPILLWAY_VERIFY_MOST=170: no
# step longer than so many seconds). A step that fails or is stopped is reported, and the others run.
# Exits with 1 if a step failed; without a GPU it writes nothing and exits with 2.
# SPILLWAY_VERIFY_EMULATED names an addon on the emulated device: what needs the engine runs on it, as small as can be, to try these scripts without a GPU.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
only='' disk='' results='' report=bench/results build=native/build-gpu node=node
while (($# > 0)); do
  case $1 in
    --only | --disk | --results | --report)
      (($# > 1)) || { echo "$1: found nothing behind it" >&2; exit 1; }
      if [[ $1 == --only ]]; then only=$2; else printf -v "${1#--}" %s "$(cd "$here" && realpath -m "$2")"; fi
      shift 2 ;;
    -*) echo "found $1, expected --only, --disk, --results or --report" >&2; exit 1 ;;
    *) build=$(cd "$here" && realpath -m "$1"); shift ;;
  esac
done
build=$(realpath -m "$build")
bundled=''
if [[ -x prebuilt/node ]]; then bundled=yes build=$PWD/prebuilt node=$PWD/prebuilt/node; fi
emulated=${SPILLWAY_VERIFY_EMULATED:+$(cd "$here" && realpath -m "$SPILLWAY_VERIFY_EMULATED")} patience=${SPILLWAY_VERIFY_PATIENCE:-1} most=${SPILLWAY_VERIFY_MOST:-0}
# Steps stop themselves up to 30 s before their limit.
((most == 0 || most > 30)) || { echo "SPILLWAY_VERIFY_MOST: found $most, expected more than 30, or 0 for no bound" >&2; exit 1; }
results=${results:-$build/verify} report=$(realpath -m "$report")
disk=${disk:-$results}

mapfile -t steps < <("$node" --input-type=module -e 'import { STEPS } from "./scripts/gpu/readResults.mjs"; console.log(STEPS.join("\n"));')
IFS=, read -ra parts <<< "$only"
for part in ${parts[@]+"${parts[@]}"}; do
  [[ " ${steps[*]} " == *" $part"[\ -]* ]] || { echo "--only: found $part, expected some of: ${steps[*]}, or what they begin with" >&2; exit 1; }
done

if [[ -n $emulated ]]; then
  device='emulated GPU, 0.0, none, 1024 MiB'
  [[ $report != "$PWD/bench/results" ]] || report=$results
elif ! device=$(nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total --format=csv,noheader 2>&1 | head -n 1) || [[ $device != *,* ]]; then
  echo "no NVIDIA GPU to verify on: ${device:-nvidia-smi says nothing}" >&2
  exit 2
fi
architecture=$(cut -d, -f2 <<< "$device" | tr -d ' .')
echo "verifying on $device"
mkdir -p "$results" "$disk"
# A report is about one device and one build.
about="$device; $(cat prebuilt/commit 2> /dev/null || git rev-parse HEAD)"
if [[ -e $results/about && $(< "$results/about") != "$about" ]]; then
  echo "$results has results of $(< "$results/about"), expected those of $about, or another --results" >&2
  exit 1
fi
echo "$about" > "$results/about"
scratch=$(mktemp -d "$disk/spillway-verify-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# Whether a step is among the parts that are wanted.
wanted() {
  local part
  ((${#parts[@]} > 0)) || return 0
  for part in "${parts[@]}"; do [[ $1 != "$part" && $1 != "$part"-* ]] || return 0; done
  return 1
}

# The seconds that a step may take.
limit_of() {
  local seconds=$(($1 * patience))
  echo $((most > 0 && most < seconds ? most : seconds))
}

failed=0
# step NAME SECONDS COMMAND...: runs it within the time limit, and notes how it ended for the report.
step() {
  local name=$1 limit=$2 began=$SECONDS code=0 log=$results/$1.log
  shift 2
  limit=$(limit_of "$limit")
  wanted "$name" || return 0
  echo "=== $name"
  timeout --kill-after=15 "$limit" "$@" > "$log" 2>&1 < /dev/null || code=$?
  # What was stopped has left its model.
  rm -rf "${scratch:?}"/*
  tail -n 3 "$log"
  ((code == 0)) || { failed=1; echo "--- $name: $( ((code == 124 || code == 137)) && echo "stopped after its $limit s" || echo "exit $code"); $log" >&2; }
  printf '{"name": "%s", "code": %d, "seconds": %d, "limit": %d, "date": "%s"}\n' "$name" "$code" $((SECONDS - began)) "$limit" "$(date -u +%FT%TZ)" > "$results/$name.step.json"
  # What is known so far, should this be stopped as a whole.
  write_report > /dev/null
}
# The report; and all that it is made of in one file, for machines from which few can be taken.
write_report() {
  "$node" scripts/gpu-report.mjs "$device" "$results" "$report"
  tar -C "$results" --exclude=./cache --exclude='./spillway-verify-*' -czf "$results.tar.gz.part" .
  mv "$results.tar.gz.part" "$results.tar.gz"
}
# skip NAME REASON: notes why a step does not run.
skip() {
  wanted "$1" || return 0
  printf '{"name": "%s", "skipped": "%s"}\n' "$1" "$2" > "$results/$1.step.json"
}
# fresh NAME FILE: a file's path, with what an earlier run left there removed if the step is to run.
fresh() {
  if wanted "$1"; then rm -f "$results/$2"; fi
  echo "$results/$2"
}

build_all() {
  local options=(-DSPILLWAY_TESTS=ON -DSPILLWAY_BENCH=ON -DSPILLWAY_CUDA=ON "-DSPILLWAY_CUDA_ARCHITECTURES=$architecture")
  [[ -n ${SPILLWAY_CUDA_TOOLKIT:-} ]] && options+=("-DSPILLWAY_CUDA_TOOLKIT=$SPILLWAY_CUDA_TOOLKIT")
  [[ -d node_modules ]] || npm ci --ignore-scripts --no-audit --no-fund
  npm run --silent build
  # Not `compile`, which takes a folder as it was configured before.
  npx --no-install cmake-js configure --out "$build" "${options[@]/#-D/--CD}"
  cmake --build "$build" --parallel "$(nproc)" --target spillway cuda_device_tests gpu_model_device_tests bench_cudaKernels bench_cudaLink
}
if [[ -n $emulated ]]; then
  export SPILLWAY_ADDON=$emulated
else
  if [[ -z $bundled ]]; then
    mkdir -p "$build"
    build_all > "$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; exit 1; }
  fi
  export SPILLWAY_ADDON=$build/Release/spillway.node
  # torch brings cuBLASLt along, in places that only its Python knows.
  python=${SPILLWAY_FLEXGEN_PYTHON:-python3}
  if [[ -z ${SPILLWAY_CUBLASLT:-} ]] && ! ldconfig -p 2> /dev/null | grep -q libcublasLt && command -v "$python" > /dev/null; then
    cublaslt=$("$python" -c 'import glob, sys; print(next((f for p in sys.path for f in sorted(glob.glob(p + "/nvidia/*/lib/libcublasLt.so.1[1-3]"))), ""))' 2> /dev/null) || cublaslt=''
    [[ -z $cublaslt ]] || export SPILLWAY_CUBLASLT=$cublaslt
  fi
fi
# Profiles of this machine are measured once for all shapes, and not mixed with those of its user.
export XDG_CACHE_HOME=$results/cache

native=(link kernels-ops kernels-models bench)
sanitizers=(memcheck racecheck synccheck)
tests=$build/native/tests benches=$build/native/bench
# by_suite NAME PROGRAM [OPTIONS...]: tests, a process a suite.
by_suite() { step "$1" 120 "$node" scripts/gpu/testBySuite.mjs "$tests/$2" "$(fresh "$1" "$1.json")" "${@:3}"; }
if [[ -n $emulated ]]; then
  for name in "${native[@]}"; do skip "$name" 'the device is emulated'; done
else
  step link 60 bash -c 'exec "$0" > "$1"' "$benches/bench_cudaLink" "$(fresh link link.json)"
  by_suite kernels-ops cuda_device_tests
  # One at a time: some count the memory of the whole device.
  by_suite kernels-models gpu_model_device_tests --processes 1
  step bench 60 bash -c 'exec "$0" > "$1"' "$benches/bench_cudaKernels" "$(fresh bench bench.json)"
fi

run=("$node" scripts/gpu/run.mjs)
options=(--folder "$scratch" ${emulated:+--small})
step end-to-end-answers 150 "${run[@]}" end-to-end "$(fresh end-to-end-answers end-to-end-answers.json)" "${options[@]}"
step end-to-end-streaming 100 "${run[@]}" streaming "$(fresh end-to-end-streaming end-to-end-streaming.json)" "${options[@]}"
step speed-opt-6.7b 180 "${run[@]}" speed "$(fresh speed-opt-6.7b speed-opt-6.7b.json)" "${options[@]}" --model opt-6.7b --seconds $(($(limit_of 180) - 10))
step peers-opt-6.7b 240 "${run[@]}" peer "$(fresh peers-opt-6.7b peers-opt-6.7b.json)" "${options[@]}" --model opt-6.7b --beside "$results/speed-opt-6.7b.json" --seconds $(($(limit_of 240) - 10))
step speed-opt-30b 330 "${run[@]}" speed "$(fresh speed-opt-30b speed-opt-30b.json)" "${options[@]}" --model opt-30b --seconds $(($(limit_of 330) - 30))
step peers-opt-30b 240 "${run[@]}" peer "$(fresh peers-opt-30b peers-opt-30b.json)" "${options[@]}" --model opt-30b --beside "$results/speed-opt-30b.json" --seconds $(($(limit_of 240) - 10))

for tool in "${sanitizers[@]}"; do
  if [[ -n $emulated ]]; then skip "sanitizer-$tool" 'the device is emulated'; continue; fi
  if ! command -v compute-sanitizer > /dev/null; then skip "sanitizer-$tool" 'there is no compute-sanitizer'; continue; fi
  step "sanitizer-$tool" 60 bash scripts/gpu/sanitize.sh "$tool" "$tests/cuda_device_tests" "$(fresh "sanitizer-$tool" "sanitizer-$tool.json")" $(($(limit_of 60) - 5))
done

write_report
exit "$failed"
