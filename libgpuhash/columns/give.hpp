// Keys of an index as an Arrow array of its type.
#pragma once

#include "libgpuhash/columns/keys.hpp"
#include "libgpuhash/columns/type.hpp"

namespace gpuhash::columns {

/// Keys to give, some at a time.
template <class Key>
struct keys_to_give {
  size_t n;
  uint64_t bytes;  // of all keys together, if that is known: memory for text is then had once
  const void* context;
  void (*read)(const void* context, size_t first, size_t n, const Key** out);  // NULL: the key that is null
};

/// bits: floats are kept by their bits. May throw bad_alloc.
gpuhash_status give_keys(const row_type& type, bool bits, const keys_to_give<word_key>& keys, ArrowSchema* schema,
                         ArrowArray* out);
gpuhash_status give_keys(const row_type& type, bool bits, const keys_to_give<bytes_key>& keys, ArrowSchema* schema,
                         ArrowArray* out);

}  // namespace gpuhash::columns
