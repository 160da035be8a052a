#!/usr/bin/env bash
# The library, its plugins and the two programs of this directory, built and run under sanitizers, with no suppressions.
#
#     tests/sanitizers/run.sh [address|undefined|thread|all] [--short]
#
# all (the default): AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer in one build, ThreadSanitizer in
# another. Build folders are kept in build/sanitizers. Needs meson, ninja and clang.
set -euo pipefail
cd "$(dirname "$0")/../.."

what=all scale=10
for argument in "$@"; do
  case $argument in
    address | undefined | thread | all) what=$argument ;;
    --short) scale=1 ;;
    *) echo "usage: tests/sanitizers/run.sh [address|undefined|thread|all] [--short]; '$argument' is neither" >&2; exit 2 ;;
  esac
done

python=${PYTHON:-$([[ -x build/ci/venv/bin/python ]] && echo build/ci/venv/bin/python || echo python3)}
PATH=$(dirname "$(command -v "$python")"):$PATH
for tool in meson ninja; do
  command -v $tool >/dev/null || { echo "tests/sanitizers/run.sh needs $tool: pip install meson ninja" >&2; exit 2; }
done

# The newest clang that is installed with its sanitizers, fetched where apt can; CC and CXX are set to it.
find_clang() {
  local n
  for n in "" -20 -19 -18 -17 -16 -15; do
    if echo 'int main() {}' | "clang++$n" -fsanitize=thread -x c++ - -o /dev/null 2>/dev/null; then
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
find_clang || { echo "tests/sanitizers/run.sh needs clang with its sanitizers: clang, libclang-rt" >&2; exit 2; }

# build SANITIZERS PROGRAMS INSTRUCTION_SETS [ARGUMENTS FOR THE COMPILER]: into build/sanitizers/SANITIZERS.
build() {
  folder=build/sanitizers/${1//,/-}
  if [[ ! -e $folder/build.ninja ]]; then
    rm -rf "$folder"
    meson setup "$folder" . -Dcuda=disabled -Dbuildtype=plain -Doptimization=1 -Db_lundef=false -Db_sanitize="$1" \
      -Disas="$3" -Dcpp_args="-frelaxed-template-template-args -gline-tables-only -w ${4-}" >/dev/null
  fi
  ninja -C "$folder" --quiet
  local program
  for program in $2; do
    "$CXX" -std=c++20 -O1 -g -Wall -Wextra -fsanitize="$1" -Ilibgpuhash/include \
      tests/sanitizers/$program.cpp -o "$folder/$program" -L"$folder/libgpuhash" -lgpuhash -ldl -pthread \
      -Wl,-rpath,"$PWD/$folder/libgpuhash"
  done
}

runner=()
# exercise PROGRAM INSTRUCTION_SET [MODULE...]: on every module, or these. Rows of the baseline are loads that sanitizers see.
exercise() {
  local program=$1 isa=$2 modules
  shift 2
  modules=("$@")
  [[ ${#modules[@]} != 0 ]] || modules=("$folder"/plugins/gpuhash_*.so)
  echo "$program, $isa:"
  GPUHASH_ISA=$isa "${runner[@]}" "$folder/$program" $scale "${modules[@]/#/$PWD/}"
}

run_address() {
  # Up to LLVM 16 the interceptor takes some threads' dynamic storage for that of an old glibc, and LeakSanitizer then
  # dies of its made-up address (google/sanitizers issue 1322); without it such storage is the heap's and still looked at.
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:intercept_tls_get_addr=0
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  # What makes the build fast: checks that end the program need no way back, checks of addresses are calls; a null
  # pointer is a fault without a check of its own, there are no polymorphic casts, and sizes are AddressSanitizer's matter.
  build "$1" "hammer faults" avx512 "-fno-sanitize-recover=all -fno-sanitize=null,object-size,vptr \
    -mllvm -asan-instrumentation-with-call-threshold=0"
  exercise hammer baseline
  exercise hammer avx512
  exercise faults baseline
}

run_thread() {
  # clang does not define __SANITIZE_THREAD__, by which the tile chooses row loads that ThreadSanitizer sees.
  build thread hammer "" -D__SANITIZE_THREAD__=1
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  # A process for each: its shadow memory does not reach for the address space that all together reserve.
  local module join
  for join in "" blocks; do
    for module in "$folder"/plugins/gpuhash_*.so; do
      GPUHASH_TEST_JOIN=$join exercise_under_tsan "$module"
    done
  done
}

# Where the system has mapped something to where ThreadSanitizer wants its memory, it cannot start: so without random
# addresses, if that is allowed. And up to LLVM 16 it may take memory beside a thread's storage for a part of that, and then
# asks for 2^48 bytes; which depends on addresses, so that other ones are tried. A finding is none of that, and ends it.
exercise_under_tsan() {
  local log=build/sanitizers/tsan.log how
  for how in "setarch -R" "" "setarch -R"; do
    if [[ $how ]] && ! $how true 2>/dev/null; then how=; fi
    read -ra runner <<<"$how"
    if exercise hammer baseline "$1" >$log 2>&1; then
      cat $log
      return
    fi
    grep -q "ThreadSanitizer failed to allocate" $log || break
    echo "again: $(grep "failed to allocate" $log)"
  done
  cat $log
  return 1
}

mkdir -p build/sanitizers
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
start=$SECONDS
case $what in
  all)  # side by side: a program's last thread, or the last file to compile, leaves a core idle
    # Not in a condition, where a failing command would not end them.
    run_address address,undefined &
    address=$!
    run_thread >build/sanitizers/thread.log 2>&1 &
    thread=$!
    failed=0
    wait $address || failed=1
    wait $thread || failed=1
    cat build/sanitizers/thread.log
    [[ $failed == 0 ]] || exit 1
    ;;
  thread) run_thread ;;
  *) run_address "$what" ;;
esac
echo "sanitizers ($what): nothing found in $((SECONDS - start)) s"
