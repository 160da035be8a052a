// device_api: the functions of a device, besides kernels, that a table's host code calls: memory, copies, streams,
// events.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "libgpuhash/kit/adding.hpp"

namespace gpuhash {

// Where the i-th of `many` picked elements lies; 2 <= many <= n. Of a mixed batch, one whose operation may add its key: if a
// quarter of them do, steps of the golden section find one.
constexpr size_t picked_from(size_t i, size_t n, size_t many, const uint8_t* ops = nullptr) {
  size_t at = i * (n - 1) / (many - 1);
  for (int tries = 0; ops && tries < 64 && !adds_in_mix(ops[at]); ++tries) at = (at + n / 1000 * 618 + 1) % n;
  return at;
}

// Every entry returns 0 or an error number that error_text explains. Streams and events are NULL on the CPU, where
// everything has happened when a call returns.
struct device_api {
  int (*probe)(int ordinal, char* why, size_t size);  // may this device be used? fills why if not
  // Make it the calling thread's device. Until leave, captures of other threads forbid this thread nothing.
  int (*enter)(int ordinal, int* before);
  void (*leave)(int before);
  int (*allocate)(void** p, size_t bytes, void* stream);
  int (*release)(void* p, void* stream);
  int (*fill)(void* p, int byte, size_t bytes, void* stream);
  int (*copy)(void* to, const void* from, size_t bytes, void* stream);  // either side may be host or device memory
  int (*wait)(void* stream);
  // CUDA: adds to *sum, in device memory, how many of n operation codes may take room (adding.hpp). there, if not NULL, is
  // what a find of their keys has answered.
  int (*count_adding)(const uint8_t* ops, const uint8_t* there, size_t n, uint64_t* sum, void* stream) = nullptr;
  // CUDA: copies `many` of n keys of 4 or 8 bytes, which lie all over them, to device memory. ops, if not NULL: as above.
  int (*pick_keys)(const void* keys, const uint8_t* ops, size_t n, uint32_t key_bytes, void* to, size_t many,
                   void* stream) = nullptr;
  // CUDA: adds n such keys, or those of them whose operation may add it, to the ranks of a sketch (sketch.hpp).
  int (*sketch_keys)(const void* keys, const uint8_t* ops, size_t n, uint32_t key_bytes, uint32_t* ranks,
                     void* stream) = nullptr;
  int (*make_event)(void** event);
  void (*drop_event)(void* event);
  int (*record)(void* event, void* stream);
  bool (*finished)(void* event);
  int (*follow)(void* stream, void* event);  // work queued on stream from now on waits for event
  const char* (*error_text)(int error);
  bool (*has_wide_cas)(int ordinal);  // 16-byte compare-and-swap
  int out_of_memory;                  // the error number that means it
  // An identity of the stream that no other stream will ever have, whereas its handle may come back.
  int (*stream_id)(void* stream, uint64_t* id);
  // Lends a stream of the device. The stream is ordered after nothing but the events that the borrower has it wait for,
  // and the work that was on it when its last borrower returned it.
  int (*borrow_stream)(int ordinal, void** stream);
  void (*return_stream)(int ordinal, void* stream);  // its work goes on

  // CUDA graphs. *graph: the graph into which the stream's work is captured; NULL: it is not captured. *forbids: why a
  // capture that goes on, or that has failed, forbids the use of this stream; NULL: it does not.
  int (*captured_by)(void* stream, void** graph, const char** forbids);
  // Calls gone(note) when the graph and what was made from it are no more, on any thread. gone must not call the device.
  int (*keep_while)(void* graph, void (*gone)(void* note), void* note);
  int (*follow_in_graph)(void* stream, void* event);  // each launch waits for what was recorded last before it

  // CUDA: memory of the host that kernels may access at the address that the host uses. It comes and goes at once, in the
  // order of no stream.
  int (*allocate_pinned)(void** p, size_t bytes);
  int (*release_pinned)(void* p);

  // CUDA, or NULL: address space of the current device, which gets memory as it is needed. These calls happen at once, in the
  // order of no stream. *unit: what memory comes in; *bytes is rounded up to that.
  int (*reserve_space)(void** p, size_t* bytes, size_t* unit) = nullptr;
  int (*release_space)(void* p, size_t bytes) = nullptr;  // none of it has memory any more
  int (*map_memory)(void* p, size_t bytes) = nullptr;     // whole units of it, which had none
  // A range that was mapped, as it was. Nothing uses it any more.
  int (*unmap_memory)(void* p, size_t bytes) = nullptr;
};

}  // namespace gpuhash
