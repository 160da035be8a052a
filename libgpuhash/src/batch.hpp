// Checks of a batch before a plugin gets it.
#pragma once

#include "libgpuhash/src/table.hpp"

namespace gpuhash {

/// Where the arrays of a batch lie, and which of them it has.
struct batch_place {
  gpuhash_device device;
  bool values_apart = false;  ///< the values are given otherwise
  bool want_status = false;
};

/// Refuse a batch that the table cannot carry out, or whose arrays cannot be what they are said to be.
gpuhash_status check_batch(const gpuhash_table& table, const gpuhash_batch& batch, const batch_place& place,
                           gpuhash_error* err);

/// Refuse op codes that execute does not have, in memory of the host.
gpuhash_status refuse_bad_ops(const gpuhash_table& table, const gpuhash_batch& batch, gpuhash_error* err);

}  // namespace gpuhash
