#!/usr/bin/env bash
# The fuzzers, with AddressSanitizer and UndefinedBehaviorSanitizer.
#
#     tests/fuzz/run.sh [operations|config|module|columns]... [--seconds N] [--sizes usual|smallest|odd]
#
# Each target (default: all) first runs the inputs of corpus/, then new ones for N seconds (default: 20; 0: none). Inputs
# that reach new code are kept in build/fuzz/corpus, an input that fails in build/fuzz/findings: put it into corpus/ with
# the fix. With other sizes (tests/sizes) short inputs reach what is for long batches; their build and inputs are in
# build/fuzz-SIZES. Needs meson, ninja, and clang with libFuzzer; without them it says so and skips, with status 77.
set -euo pipefail
cd "$(dirname "$0")/../.."

targets=() seconds=20 sizes=usual
while (($#)); do
  case $1 in
    operations | config | module | columns) targets+=("$1") ;;
    --seconds) seconds=${2?--seconds needs a number}; shift ;;
    --sizes) sizes=${2?--sizes needs a name}; shift ;;
    *) echo "usage: tests/fuzz/run.sh [operations|config|module|columns]... [--seconds N] [--sizes SIZES]; '$1' is none" >&2; exit 2 ;;
  esac
  shift
done
((${#targets[@]})) || targets=(operations config module columns)
[[ $sizes =~ ^(usual|smallest|odd)$ ]] || { echo "--sizes $sizes is neither usual nor smallest nor odd" >&2; exit 2; }
[[ $seconds =~ ^[0-9]+$ ]] || { echo "--seconds $seconds is not a whole number" >&2; exit 2; }

python=${PYTHON:-$([[ -x build/ci/venv/bin/python ]] && echo build/ci/venv/bin/python || echo python3)}
PATH=$(dirname "$(command -v "$python")"):$PATH
for tool in meson ninja; do
  command -v $tool >/dev/null || { echo "skipped: the fuzzers need $tool: pip install meson ninja" >&2; exit 77; }
done

find_clang() {
  local n
  for n in "" -20 -19 -18 -17 -16 -15; do
    if echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
      "clang++$n" -fsanitize=fuzzer -x c++ - -o /dev/null 2>/dev/null; then
      export CC=clang$n CXX=clang++$n
      return
    fi
  done
  return 1
}
find_clang || {
  echo "fetching clang with apt-get"
  apt-get update -q && apt-get install -q -y --no-install-recommends clang-16 libclang-rt-16-dev llvm-16
} >&2 || true
find_clang || { echo "skipped: there is no clang with libFuzzer, and apt-get cannot fetch one" >&2; exit 77; }

# The library's own objects are linked into the targets, so that coverage leads into them and internals can be called.
folder=build/fuzz sanitizers=address,undefined
[[ $sizes == usual ]] || folder+=-$sizes
if [[ ! -e $folder/build.ninja ]]; then
  rm -rf "$folder"
  meson setup "$folder" . -Dcuda=disabled -Dsizes=$sizes -Dbuildtype=debugoptimized -Doptimization=1 -Db_lundef=false \
    -Db_sanitize=$sanitizers -Dcpp_args="-fsanitize=fuzzer-no-link -frelaxed-template-template-args" >/dev/null
fi
ninja -C "$folder" --quiet
own_sizes=()
[[ $sizes == usual ]] || own_sizes=(-include "tests/sizes/$sizes.hpp")
modules=$(printf '%s:' "$PWD/$folder"/plugins/gpuhash_*.so)
for target in "${targets[@]}"; do
  "$CXX" -std=c++20 -O1 -g -Wall -Wextra -fsanitize=fuzzer,$sanitizers -I. -Ilibgpuhash/include "${own_sizes[@]}" \
    tests/fuzz/"$target".cpp "$folder"/libgpuhash/libgpuhash.so.0.p/*.o -rdynamic -o "$folder/fuzz_$target" -ldl -pthread
done

export GPUHASH_FUZZ_MODULES=${modules%:} GPUHASH_ISA=baseline
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export ASAN_OPTIONS=intercept_tls_get_addr=0  # as in tests/sanitizers/run.sh: LLVM 16's leak detector may crash with it
for target in "${targets[@]}"; do
  mkdir -p "$folder/corpus/$target" "$folder/findings"
  runs=()
  ((seconds)) || runs=(-runs=0)
  "$folder/fuzz_$target" -max_total_time="$seconds" "${runs[@]}" -max_len=4096 -timeout=20 -rss_limit_mb=4096 \
    -print_final_stats=1 -artifact_prefix="$folder/findings/" "$folder/corpus/$target" tests/fuzz/corpus/"$target" \
    >"$folder/$target.log" 2>&1 || { tail -n 60 "$folder/$target.log"; echo "$target: a finding, see $folder/findings"; exit 1; }
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/$target.log")
  echo "$target: $(find tests/fuzz/corpus/"$target" -type f | wc -l) regressions, $executions executions in all, nothing found"
done
