"""What compilers of CUDA 12 get wrong, and the sources therefore do without."""

import re

from cpp_sources import ROOT, sources, without_words

# nvcc 12.5 hands g++ such a lambda with another name for its parameter: "'Op' was not declared in this scope".
WITHOUT_PARAMETER_LIST = re.compile(r"\]\s*<[^<>;{}]*>\s*\{")


def test_lambdas_with_template_parameters_have_a_parameter_list():
    read = [path for path in sources("libgpuhash", "plugins") if path.suffix in (".cu", ".cuh", ".hpp")]
    read += (ROOT / "pygpuhash" / "templates").rglob("*.cu.in")
    read += (ROOT / "pygpuhash" / "templates").rglob("*.hpp.in")
    assert len(read) > 100
    texts = {str(path.relative_to(ROOT)): without_words(path.read_text()) for path in read}
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
        for name, text in texts.items()
        for match in WITHOUT_PARAMETER_LIST.finditer(text)
    ]
    assert found == []


def test_the_search_finds_them():
    for wrong in ("[&]<u32 Kind> { return 1; }", "[=]<class T, int N>\n{}"):
        assert WITHOUT_PARAMETER_LIST.search(wrong)
    assert not WITHOUT_PARAMETER_LIST.search("[&]<u32 Kind>() { return 1; }")
