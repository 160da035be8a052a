"""What is fetched ahead is fetched.

GCC takes a function that does nothing but __builtin_prefetch for pure, and drops calls of it. So it did with the keys
that an index compares, and text took twice the time. Calls of prefetch_line are kept.
"""

import re
import shlex
import shutil
import subprocess
from os import environ

import pytest
from cpp_sources import ROOT, sources

PROGRAM = """
#include "libgpuhash/tile/prefetch.hpp"
struct lines {
  const void* const* p;
  [[gnu::noinline]] void fetch(int n) const {
    for (int i = 0; i < n; ++i) gpuhash::prefetch_line(p[i]);
  }
};
int served(lines l, int n) {
  l.fetch(n);
  return n;
}
"""


def test_a_function_that_only_fetches_is_called():
    compiler = shlex.split(environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    command = [*compiler, "-std=c++20", "-O2", f"-I{ROOT}", "-x", "c++", "-S", "-o", "-", "-"]
    done = subprocess.run(command, input=PROGRAM, capture_output=True, text=True, check=True)
    body = done.stdout.partition("served")[2]
    assert re.search(r"\b(call|jmp|bl|b|brasl|jg)\s+\S*fetch", body), done.stdout


def test_the_builtin_has_one_place():
    naming = [p for p in sources("libgpuhash", "plugins") if "__builtin_prefetch(" in p.read_text()]
    assert naming == [ROOT / "libgpuhash/tile/prefetch.hpp"], "call prefetch_line of tile/prefetch.hpp instead"
