#!/usr/bin/env bash
# One tool of compute-sanitizer over the kernels' tests on the device, part by part for as long as there is time: it makes some of them a hundred times slower.
#   scripts/gpu/sanitize.sh TOOL TESTS RESULT.json SECONDS
# Writes {"clean", "parts", "of", "testsFailed"}: how many parts of the tests were looked at; the tests' own failures are no finding of the tool. Exits with 9 for
# errors that it found, with 1 for tests that failed, with 124 if not one part came to its end.
set -euo pipefail
tool=$1 tests=$2 result=$3 limit=$4
parts=8 done_parts=0 tests_failed=false
# cuBLASLt's kernels wait for each other by other means than racecheck knows: it calls them races of theirs.
others=''
[[ $tool != racecheck ]] || others=':*CublasLt*'
save() { echo "{\"clean\": $1, \"parts\": $2, \"of\": $parts, \"testsFailed\": $tests_failed}" > "$result"; }
for ((part = 0; part < parts && SECONDS < limit; part++)); do
  code=0
  # The largest products touch nothing that smaller ones do not.
  GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part timeout --kill-after=5 $((limit - SECONDS)) \
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$tests" --gtest_brief=1 "--gtest_filter=-*feed_forward*:*head*$others" || code=$?
  if ((code == 124 || code == 137)); then break; fi
  if ((code == 9)); then save false "$part"; exit 9; fi
  ((code == 0)) || tests_failed=true
  done_parts=$((part + 1))
  save true "$done_parts"
done
((done_parts > 0)) || exit 124
echo "$tool: clean in $done_parts of $parts parts"
[[ $tests_failed == false ]]
