// Keys of an index as an Arrow array of its type.
#pragma once

#include <vector>

#include "libgpuhash/columns/keys.hpp"
#include "libgpuhash/columns/type.hpp"

namespace gpuhash::columns {

/// NULL stands for the key that is null, of rows of one column. bits: floats are kept by their bits. May throw
/// bad_alloc.
gpuhash_status give_keys(const row_type& type, bool bits, const std::vector<const word_key*>& keys, ArrowSchema* schema,
                         ArrowArray* out);
gpuhash_status give_keys(const row_type& type, bool bits, const std::vector<const bytes_key*>& keys,
                         ArrowSchema* schema, ArrowArray* out);

}  // namespace gpuhash::columns
