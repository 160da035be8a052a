// The locks and atomics of the kit's host code: those of the standard library.
//
// tests/kit runs the kit under a scheduler of its own, which has to see every lock, wait and atomic access: it defines
// GPUHASH_SIM_KIT and supplies types of these names. Code of the kit uses no other ones.
#pragma once

#if defined(GPUHASH_SIM_KIT)
#include "tests/kit/sim_sync.hpp"
#else
#include <atomic>
#include <condition_variable>
#include <mutex>

namespace gpuhash {

using kit_mutex = std::mutex;
using kit_condition = std::condition_variable;
template <class T>
using kit_atomic = std::atomic<T>;

}  // namespace gpuhash
#endif
