// Columns of bytes on a CUDA device: hashes of rows, the comparison of rows with the first ones of their groups, and
// columns of rows that are picked.
#include "libgpuhash/columns/cuda/bytes.cuh"

#include "libgpuhash/columns/cuda/launch.cuh"

namespace gpuhash::columns {
namespace {

constexpr u32 blocks_each = 16;  // for a processor, at most

bytes_side side_of(const gpuhash_bytes_column& c) {
  return {static_cast<const u8*>(c.data), c.validity, c.offsets, c.first, c.offset_bytes, c.width, c.floats, c.n};
}

class bytes_run {
 public:
  explicit bytes_run(const bytes_call& call)
      : launch_(call.stream),
        rows{side_of(call.one), side_of(call.other)},
        known(static_cast<bytes_known*>(call.scratch)),
        strips(reinterpret_cast<unsigned long long*>(static_cast<char*>(call.scratch) + bytes_facts)),
        list(reinterpret_cast<u32*>(strips + most_strips)) {}

  unsigned blocks(u64 rows) const { return launch_.blocks((rows + bytes_threads - 1) / bytes_threads, blocks_each); }
  u64 n() const { return rows.one.n + rows.other.n; }
  void start() const { launch_.fill(known, 0, bytes_facts); }
  template <class Work>
  void words_of(const Work& w) const {
    launch_(do_short_rows<Work>, blocks(w.items), bytes_threads, 0, w, known, list);
    launch_(do_long_rows<Work>, launch_.blocks(~u64(0), blocks_each / 2), bytes_threads, 0, w, known, list);
  }
  // Prefix sums; the sum of all is brought to the host.
  template <class Sizes>
  u64 place(const Sizes& w) const {
    const u64 most = (w.items + most_strips - 1) / most_strips;
    const u64 each = (most + bytes_threads - 1) / bytes_threads * bytes_threads, used = (w.items + each - 1) / each;
    launch_.fill(strips, 0, 8 * most_strips);
    launch_(add_up_strips<Sizes>, unsigned(used), bytes_threads, 0, w, each, strips);
    launch_(place_strips<Sizes>, unsigned(used), bytes_threads, 0, w, each, strips);
    u64 of_strip[most_strips], sum = 0;
    launch_.bring(of_strip, strips, 8 * used);
    for (u64 i = 0; i < used; ++i) sum += of_strip[i];
    return sum;
  }

  const launcher launch_;
  const bytes_rows rows;
  bytes_known* const known;
  unsigned long long* const strips;
  u32* const list;
};

}  // namespace

gpuhash_status hash_bytes_on_cuda(const bytes_call& call, uint64_t seed, uint64_t* hashes, uint64_t* host_null,
                                  gpuhash_error* err) {
  return on_device(call.ordinal, err, [&] {
    const bytes_run run(call);
    if (host_null) {
      run.launch_.refuse_captured("host_null");
      *host_null = ~u64(0);
    }
    if (run.n() == 0) return;
    run.start();
    run.launch_.fill(&run.known->first_null, 0xff, sizeof(run.known->first_null));
    run.words_of(hash_work{run.rows, run.n(), seed, reinterpret_cast<u64*>(hashes), run.known});
    if (host_null) run.launch_.bring(host_null, &run.known->first_null, sizeof(*host_null));
  });
}

gpuhash_status check_bytes_on_cuda(const bytes_call& call, const int64_t* codes, uint64_t groups, int64_t* first,
                                   uint64_t* host_other, gpuhash_error* err) {
  return on_device(call.ordinal, err, [&] {
    const bytes_run run(call);
    run.launch_.refuse_captured("host_other");
    *host_other = 0;
    const u64 n = run.n();
    if (n == 0) return;
    const auto* const numbers = reinterpret_cast<const long long*>(codes);
    run.start();
    run.launch_.fill(first, 0xff, 8 * groups);
    run.launch_(note_first_rows, run.blocks(n), bytes_threads, 0, n, numbers,
                reinterpret_cast<unsigned long long*>(first));
    run.words_of(check_work{run.rows, n, numbers, reinterpret_cast<long long*>(first), run.known});
    u32 other = 0;
    run.launch_.bring(&other, &run.known->other, sizeof(other));
    *host_other = other;
  });
}

gpuhash_status place_bytes_on_cuda(const bytes_call& call, const int64_t* rows, uint64_t n, void* offsets,
                                   uint64_t* host_bytes, gpuhash_error* err) {
  return on_device(call.ordinal, err, [&] {
    const bytes_run run(call);
    run.launch_.refuse_captured("host_bytes");
    *host_bytes = 0;
    run.launch_.fill(offsets, 0, call.one.offset_bytes);
    if (n) *host_bytes = run.place(place_sizes{run.rows, n, reinterpret_cast<const long long*>(rows), offsets});
  });
}

gpuhash_status take_bytes_on_cuda(const bytes_call& call, const int64_t* rows, uint64_t n, const void* offsets,
                                  void* data, uint8_t* validity, gpuhash_error* err) {
  return on_device(call.ordinal, err, [&] {
    if (n == 0) return;
    const bytes_run run(call);
    const take_work w{run.rows, n, reinterpret_cast<const long long*>(rows), offsets, static_cast<u8*>(data)};
    run.start();
    run.words_of(w);
    if (validity) run.launch_(take_validity, run.blocks((n + 7) / 8), bytes_threads, 0, w, validity);
  });
}

gpuhash_status keep_bytes_on_cuda(const bytes_call& call, int64_t* rows, uint64_t* host_rows, gpuhash_error* err) {
  return on_device(call.ordinal, err, [&] {
    const bytes_run run(call);
    run.launch_.refuse_captured("host_rows");
    *host_rows = 0;
    const u64 n = run.n();
    if (n) *host_rows = run.place(keep_rows{run.rows, n, reinterpret_cast<long long*>(rows)});
  });
}

}  // namespace gpuhash::columns
