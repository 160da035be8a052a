"""No function of the library or a plugin is longer than a screen: 70 lines, from its first brace to its last one."""

import pytest
from cpp_sources import ROOT, functions, sources

LONGEST = 70


@pytest.fixture(scope="module")
def lengths():
    if not (ROOT / "libgpuhash" / "src").is_dir():
        pytest.skip("the sources of the library are not here")
    found = {}
    for path in sources("libgpuhash", "plugins"):
        for name, _, lines in functions(path.read_text()):
            key = (path.relative_to(ROOT).as_posix(), name)
            found[key] = max(lines, found.get(key, 0))
    return found


def test_functions_fit_a_screen(lengths):
    too_long = {key: lines for key, lines in lengths.items() if lines > LONGEST}
    assert too_long == {}, f"a function has at most {LONGEST} lines: give a part of it a name of its own"


def test_functions_of_every_form_are_seen(lengths):
    text = """
#define MACRO(x) { \\
  x }
namespace a { namespace {
struct s : base<f(1)> {
  s(int x)
      : y(x), z{x} {
    if (x) {
    }
  }
  bool operator==(const s& o) const { return y == o.y; }  // { not a block
  ~s() {}
  int y = f({1, 2});
};
enum e : u32 { one, two };
template <class F, class G = decltype(f())>
__global__ void __launch_bounds__(threads(), g<F>)
    kernel(const __grid_constant__ table t,
           const char* name = "{") {
  const auto lambda = [&](int i) {
    return i;
  };
  for (;;) {
  }
}
template <class T>
concept c = requires(T t) {
  { t.f() } -> same<int>;
};
inline constexpr auto value = [] {
  return 1;
}();
constexpr int numbers[] = {1, 2};
extern "C" {
int declared(int);
int defined(int x) noexcept {

  return x;
}
}
}}
"""
    assert functions(text) == [
        ("s", 7, 4),
        ("operator==", 11, 1),
        ("~s", 12, 1),
        ("kernel", 19, 7),
        ("defined", 36, 4),
    ]
    assert len(lengths) > 1000
