// Files that are opened as modules, and the variable that says where modules are.
//
// A file that passes the library's own test is not given to the dynamic linker here: that one runs what is in it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.hpp"
#include "libgpuhash/src/search_path.hpp"
#include "libgpuhash/src/shared_object.hpp"

namespace {

void try_file(bytes in) {
  const int file = memfd_create("module", 0);
  if (file < 0 || write(file, in.at, in.left) != ssize_t(in.left)) wrong("no file in memory");
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  gpuhash_error err = GPUHASH_ERROR_INIT, same = GPUHASH_ERROR_INIT;
  const gpuhash_status status = gpuhash::check_shared_object(path.c_str(), &err);
  expect_explained(status, err);
  if (status != GPUHASH_OK) {
    const gpuhash_status opened = gpuhash_backend_open(path.c_str(), nullptr, &same);
    if (opened != status) wrong("the test says %d, opening says %d: %s", status, opened, same.message);
    expect_explained(opened, same);
  }
  close(file);
}

// Only absolute directories are taken from the variable, as they stand there.
void try_search_path(bytes in) {
  const std::string given = in.text();
  setenv("GPUHASH_PLUGIN_PATH", given.c_str(), 1);
  auto found = gpuhash::plugin_directories();
  if (found.empty()) wrong("the directory beside the library is missing");
  found.pop_back();
  size_t expected = 0, from = 0;
  for (size_t end = 0; end <= given.size(); ++end) {
    if (end < given.size() && given[end] != ':') continue;
    const std::string element = given.substr(from, end - from);
    from = end + 1;
    if (element.empty() || element[0] != '/') continue;
    if (expected >= found.size() || found[expected++] != element) wrong("'%s' is lost from the path", element.c_str());
  }
  if (expected != found.size()) wrong("%zu directories of '%s', expected %zu", found.size(), given.c_str(), expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bytes in{data, size};
  if (in.byte() == ':')
    try_search_path(in);
  else
    try_file(in);
  return 0;
}
