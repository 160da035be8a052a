// Tables in files on a simulated disk (sim_disk.hpp): the files that a crash of the system may leave are opened, and
// repaired, by the plugin's own code, and have to be what was promised (docs/adr/0025-order-of-durability.md).
//
//   crash_test small MOST          images of small tables, at every call and after every operation: all of them where there
//                                  are no more than MOST, or so many
//   crash_test random FIRST LAST   images of larger tables, drawn: seeds
//   crash_test faults MANY         each call of the disk is refused in turn, with so many errors: the caller learns it, and
//                                  no pair is lost
//   crash_test repairs             the same while a table is repaired
//
// At the same points the process is killed, too: what the system has in memory is opened on the same boot.
// A violation says what was done, and ends the program with status 1.
#include <assert.h>
#include <stdarg.h>

#include <optional>
#include <set>

#include "libgpuhash/kit/host_device.hpp"
#include "plugins/stadium/structure.hpp"
#include "tests/stadium/sim_disk.hpp"

extern "C" const gpuhash::engine* gpuhash_stadium_engines_sim_stadium();

namespace gpuhash {

const gpuhash_host_api* host = nullptr;
constinit host_services host_team = {[](uint32_t, size_t pieces, void (*body)(void*, size_t), void* context) {
                                       for (size_t piece = 0; piece < pieces; ++piece) body(context, piece);
                                     },
                                     [] { return uint32_t(1); }, host_services::as_needed};
constinit thread_local uint32_t threads_of_call = 1;

namespace sim {
namespace {

const std::string path = "/folder/t";
const std::string fresh_path = path + ".new";

struct {
  uint64_t tables, points, images, drawn, opened, refused, repaired, faults, reported, killed;
} sum;
std::function<void()> half_filled;  // called in the middle of filling memory

std::string script;  // what was done so far

[[noreturn]] void violation(const std::string& what) {
  fprintf(stderr, "violation: %s\n  after:%s\n", what.c_str(), script.c_str());
  exit(1);
}
void want(bool good, const std::string& what) {
  if (!good) violation(what);
}

gpuhash_status fail(gpuhash_error* err, gpuhash_status code, const char* format, ...) {
  if (!err) return code;
  va_list args;
  va_start(args, format);
  vsnprintf(err->message, sizeof(err->message), format, args);
  va_end(args);
  err->code = code;
  return code;
}

// Keys and values are numbers; those of several words repeat it in each.
struct shape {
  uint32_t key_bytes, value_bytes, log_bits, log_line;
  bool sectors_hold_slots() const { return 512 % shape_of(key_bytes, value_bytes).stride == 0; }
};
using pairs = std::map<uint32_t, uint32_t>;

void put(std::vector<uint32_t>& to, uint32_t number, uint32_t bytes) {
  if (bytes == 8)
    to.insert(to.end(), {number, 0});
  else
    to.insert(to.end(), bytes / 4, number);
}
std::optional<uint32_t> number_of(const uint32_t* words, uint32_t bytes) {
  if (bytes == 0) return 0;
  for (uint32_t i = 1; i < bytes / 4; ++i)
    if (words[i] != (bytes == 8 ? 0 : words[0])) return std::nullopt;
  return words[0];
}

// The CPU as a device, which can be seen while it fills memory.
device_api slow_device() {
  device_api api = host_device;
  api.fill = [](void* p, int byte, size_t n, void*) {
    memset(p, byte, n / 2);
    if (const auto seen = std::exchange(half_filled, nullptr)) seen();
    memset(static_cast<char*>(p) + n / 2, byte, n - n / 2);
    return 0;
  };
  return api;
}
const device_api device = slow_device();

struct calls_go_to {
  explicit calls_go_to(disk& d) : outer(std::exchange(disk::here, &d)) {}
  ~calls_go_to() { disk::here = outer; }
  calls_go_to(const calls_go_to&) = delete;
  calls_go_to& operator=(const calls_go_to&) = delete;
  disk* outer;
};

class client {  // a table, as a program uses it
 public:
  client(const shape& s, disk& d) : shape_(s), disk_(d) {}
  std::string message;

  gpuhash_status open(decltype(stadium_options::file) how, bool repair) {
    gpuhash_config c = GPUHASH_CONFIG_INIT;
    c.key_bytes = shape_.key_bytes, c.value_bytes = shape_.value_bytes;
    c.max_load_factor = 0.8, c.seed = 5, c.threads = 1;
    stadium_options o;
    o.log_bits = shape_.log_bits, o.log_line = shape_.log_line, o.probe_limit = 4096;
    o.path = path, o.file = how, o.repair = repair, o.disk = &disk::api, o.ordered_from = 0;
    t_ = std::make_unique<stadium>(table::setup{c, &device, gpuhash_stadium_engines_sim_stadium()}, o);
    const gpuhash_status s = said([&](gpuhash_error* e) { return t_->create(e); });
    if (s) t_.reset();
    return s;
  }
  void close() { t_.reset(); }
  void kill() {  // what the process has in memory is gone, what the system has is not
    (void)t_.release();
    disk_.unlock_all();
  }
  stadium& table() { return *t_; }
  explicit operator bool() const { return t_ != nullptr; }

  template <class Call>
  gpuhash_status said(Call call) {
    gpuhash_error err = GPUHASH_ERROR_INIT;
    const gpuhash_status s = call(&err);
    message = s ? err.message : "";
    return s;
  }
  gpuhash_status run(uint32_t op, const std::vector<uint32_t>& numbers, uint32_t value, std::vector<uint8_t>* status) {
    std::vector<uint32_t> keys, values;
    for (const uint32_t n : numbers) {
      put(keys, n, shape_.key_bytes);
      if (shape_.value_bytes) put(values, value, shape_.value_bytes);
    }
    status->assign(numbers.size(), 0);
    gpuhash_batch b = GPUHASH_BATCH_INIT;
    b.op = op, b.n = numbers.size(), b.keys = keys.data(), b.out_status = status->data();
    if (op != GPUHASH_OP_ERASE && shape_.value_bytes) b.values = values.data();
    return said([&](gpuhash_error* e) { return t_->run(b, e); });
  }
  // All pairs; *torn: slots of which a part was written. Also tests the invariants.
  pairs all(uint64_t* torn = nullptr) {
    if (said([&](gpuhash_error* e) { return t_->check(e); })) violation("check: " + message);
    size_t n = 0;
    want(!t_->export_pairs(&n, nullptr, nullptr, nullptr, nullptr), "export");
    const uint32_t key_words = shape_.key_bytes / 4, value_words = shape_.value_bytes / 4;
    std::vector<uint32_t> keys(n * key_words + 1), values(n * value_words + 1);
    void* const out_values = value_words ? values.data() : nullptr;
    want(!t_->export_pairs(&n, keys.data(), out_values, nullptr, nullptr), "export");
    pairs found;
    for (size_t i = 0; i < n; ++i) {
      const auto key = number_of(&keys[i * key_words], shape_.key_bytes);
      const auto value = number_of(&values[i * value_words], shape_.value_bytes);
      if (key && value)
        want(found.emplace(*key, *value).second, "a key twice: " + std::to_string(*key));
      else if (torn)
        ++*torn;
      else
        violation("a torn pair");
    }
    return found;
  }

 private:
  shape shape_;
  disk& disk_;
  std::unique_ptr<stadium> t_;
};

// A table, what it has to have, and the crashes that it is put through.
class world {
 public:
  world(const shape& s, uint64_t seed, uint64_t most_images)
      : shape_(s), client_(s, disk_), random_(seed), most_images_(most_images) {
    disk::here = &disk_;
    ++sum.tables;
  }
  ~world() {
    client_.kill();
    disk::here = nullptr;
  }

  // ---- operations -----------------------------------------------------------------------------------------------------

  void insert(const std::vector<uint32_t>& keys, uint32_t value) { run("insert", GPUHASH_OP_INSERT, keys, value); }
  void assign(const std::vector<uint32_t>& keys, uint32_t value) { run("assign", GPUHASH_OP_ASSIGN, keys, value); }
  void erase(const std::vector<uint32_t>& keys) { run("erase", GPUHASH_OP_ERASE, keys, 0); }
  void clear() {
    did("clear");
    for (const auto& pair : now_) touched_.insert(pair.first), in_flight_.insert(pair.first);
    half_filled = [this] { killed(true); };
    want(!client_.table().clear(nullptr, nullptr), "clear");
    half_filled = nullptr;
    now_.clear();
    ends();
  }
  void flush() {
    did("flush");
    before_ = -1;
    rebuilt(client_.said([&](gpuhash_error* e) { return client_.table().flush(0, ~uint64_t(0), nullptr, e); }));
  }
  void reserve(uint64_t keys) {
    did("reserve");
    before_ = disk_.file_of(path);
    rebuilt(client_.said([&](gpuhash_error* e) { return client_.table().reserve(keys, nullptr, e); }));
  }
  void open() {
    if (client_) return;
    did("open");
    const phase before = phase_;
    phase_ = before == phase::none ? phase::making : before == phase::closed ? phase::opening : before;
    gpuhash_status s = client_.open(stadium_options::as_is, false);
    if (s && refused_) {
      reported();
      if (before == phase::none)
        want(disk_.file_of(path) < 0 || refused_call_ == "unlink", "what was not made is there");
      nothing_left();
      refused_ = 0;
      did("again");
      s = client_.open(stadium_options::as_is, false);
    }
    if (s && lost() && refused_before_) {
      did("with repair");
      s = client_.open(stadium_options::as_is, true);
    }
    want(!s, "opening is refused: " + client_.message);
    const bool is_kept = before != phase::killed && before != phase::unclosed;
    phase_ = phase::open;
    if (is_kept) keep();
    look();
    point();
  }
  void close() {
    if (!client_) return;
    did("close");
    phase_ = phase::closing;
    client_.close();
    if (refused_)
      phase_ = phase::unclosed;
    else
      phase_ = phase::closed, keep();
    refused_ = 0;
    nothing_left();
    point();
  }
  void kill() {
    if (!client_) return;
    did("kill");
    client_.kill();
    phase_ = phase::killed;
    point();
  }

  // Refuse the call with this number, counted from now on.
  void refuse(uint64_t at, int e) {
    refuses_ = true;
    disk_.before = [this, at, e](const char* call) {
      if (disk_.calls != at) return 0;
      refused_call_ = call;
      script += " (" + refused_call_ + " refused: " + strerror(e) + ")";
      ++sum.faults;
      refused_before_ = true;
      return refused_ = e;
    };
  }
  void cut_repairs_off(uint64_t every) { repairs_every_ = every; }
  void crash_at_calls() {
    disk_.before = [this](const char*) { return point(), 0; };
    disk_.after = [this](const char* call) {
      script += std::string(" [") + call + "]";
      point();
    };
  }
  bool reached() const { return refused_before_; }
  uint64_t calls() const { return disk_.calls; }
  const pairs& now() const { return now_; }
  bool is_open() const { return bool(client_); }
  disk& its_disk() { return disk_; }

 private:
  enum class phase { none, making, opening, open, killed, closing, closed, unclosed };

  void did(const std::string& what) { script += " " + what; }
  bool lost() const {
    return client_.message.find("was not closed before the system went down") != std::string::npos ||
           client_.message.find("was not closed before the disk refused to write it") != std::string::npos;
  }
  // A call of the disk was refused, and the call of the table with it.
  void reported() { said_why(client_.message); }
  void said_why(const std::string& message) {
    ++sum.reported;
    const std::string said = strerror(refused_);
    const bool says = message.find(said) != std::string::npos && message.find(path) != std::string::npos;
    want(says, "'" + message + "' does not say '" + said + "' of " + path);
  }
  void nothing_left() {
    if (refused_call_ != "unlink") want(disk_.file_of(fresh_path) < 0, "an unfinished file is left behind");
  }
  void look() { want(client_.all() == now_, "the table has other pairs than it should have"); }
  void keep() {
    kept_ = now_;
    touched_.clear();
  }
  void run(const char* name, uint32_t op, const std::vector<uint32_t>& keys, uint32_t value) {
    if (!shape_.value_bytes) value = 0;
    did(std::string(name) + " " + std::to_string(keys.size()));
    for (const uint32_t k : keys) {
      touched_.insert(k), in_flight_.insert(k);
      if (op != GPUHASH_OP_ERASE) ever_[k].insert(value);
    }
    std::vector<uint8_t> status;
    const gpuhash_status s = client_.run(op, keys, value, &status);
    if (s) want(refused_, "refused: " + client_.message), reported();
    for (size_t i = 0; i < keys.size(); ++i) {
      if (status[i] > GPUHASH_YES) continue;
      if (op == GPUHASH_OP_ERASE) now_.erase(keys[i]);
      if (op == GPUHASH_OP_INSERT) now_.emplace(keys[i], value);
      if (op == GPUHASH_OP_ASSIGN) now_[keys[i]] = value;
    }
    refused_ = 0;
    nothing_left();
    if (refused_before_) look();
    ends();
  }
  void ends() {  // an operation on elements
    in_flight_.clear();
    point();
  }
  void rebuilt(gpuhash_status s) {
    const bool may_be_ignored = refused_call_ == "close" || refused_call_ == "unmap" || refused_call_ == "unlock";
    if (s)
      want(refused_, "refused: " + client_.message), reported();
    else
      want(!refused_ || may_be_ignored, refused_call_ + " was refused, and the caller does not learn it");
    if (!s && disk_.file_of(path) != before_) keep();
    refused_ = 0;
    nothing_left();
    look();
    point();
  }

  // ---- crashes --------------------------------------------------------------------------------------------------------

  // The system goes down now: look at what it may have left.
  void point() {
    if (phase_ == phase::none || (refuses_ && !refused_before_)) return;
    disk_.note();
    ++sum.points;
    killed();
    disk::choice leads = disk_.names_left();
    do {
      disk::choice contents = disk_.files_left(leads);
      if (contents.many() <= double(most_images_)) {
        do try_image(leads, contents);
        while (contents.next());
        continue;
      }
      for (uint64_t i = 0; i < most_images_; ++i) {
        for (size_t d = 0; d < contents.digits.size(); ++d) contents.digits[d] = random_() % contents.bases[d];
        try_image(leads, contents);
        ++sum.drawn;
      }
    } while (leads.next());
  }

  void try_image(const disk::choice& leads, const disk::choice& contents) {
    ++sum.images;
    disk image;
    image.boot = "the next boot";
    disk_.leave(leads, contents, &image);
    const calls_go_to scope(image);
    client c(shape_, image);
    const gpuhash_status s = c.open(stadium_options::there, false);
    if (!s)
      is_whole(c);
    else if (image.file_of(path) < 0)
      want(phase_ == phase::making, "the file is gone");
    else
      is_repaired(c, image);
  }
  void killed(bool is_cleared = false) {
    disk image;
    disk_.leave_all(&image);
    const calls_go_to scope(image);
    client c(shape_, image);
    const gpuhash_status s = c.open(stadium_options::there, false);
    ++sum.killed;
    if (s) want(phase_ == phase::unclosed || phase_ == phase::making || refused_before_, "killed, and " + c.message);
    pairs found = s ? pairs() : c.all();
    want(!is_cleared || found.empty(), "a table that was killed while it was cleared has pairs");
    pairs others = now_;
    for (const uint32_t k : in_flight_) {
      const auto there = found.find(k);
      if (there != found.end()) want(ever_[k].count(there->second), "a killed batch leaves a value of nobody");
      found.erase(k), others.erase(k);
    }
    if (!s) want(found == others, "a table that was killed has other pairs");
  }
  void is_whole(client& c) {
    ++sum.opened;
    const pairs found = c.all();
    const bool may_be_now = phase_ == phase::closing || phase_ == phase::unclosed;
    want(found == kept_ || (may_be_now && found == now_),
         "a table that is opened without a word is not what was closed");
    if (c.said([&](gpuhash_error* e) { return c.table().reserve(200, nullptr, e); }))
      violation("it cannot grow: " + c.message);
    want(c.all() == found, "growth has lost pairs");
  }
  void is_repaired(client& c, disk& image) {
    ++sum.refused;
    const bool says = c.message.find("was not closed before") != std::string::npos;
    want(says, "refused with '" + c.message + "'");
    want(phase_ != phase::closed, "a table that was closed is refused: " + c.message);
    disk as_it_was;
    image.leave_all(&as_it_was);
    if (c.open(stadium_options::there, true)) violation("it cannot be repaired: " + c.message);
    const pairs found = has_kept(c);
    want(image.file_of(fresh_path) < 0, "repair leaves an unfinished file behind");
    ++sum.repaired;
    if (sum.repaired % 16 == 0) {
      c.close();
      image.boot = "the boot after that";
      if (c.open(stadium_options::there, false)) violation("what was repaired cannot be opened: " + c.message);
      uint64_t torn = 0;
      want(c.all(&torn) == found, "what was repaired is not what is opened next");
    }
    if (repairs_every_ && sum.repaired % repairs_every_ == 0)
      for (uint64_t at = 1; repair_is_cut_off(as_it_was, at);) ++at;
  }
  // Call `at` of a repair is refused, or the process is killed there. False: there are not so many.
  bool repair_is_cut_off(const disk& as_it_was, uint64_t at) {
    disk image, at_kill;
    as_it_was.leave_all(&image);
    image.before = [&](const char* call) {
      if (image.calls != at) return 0;
      refused_call_ = call;
      image.leave_all(&at_kill);
      ++sum.faults;
      return refused_ = EIO;
    };
    const calls_go_to scope(image);
    client c(shape_, image);
    const gpuhash_status s = c.open(stadium_options::there, true);
    image.before = nullptr;
    if (!refused_) return false;
    script += " [repair, " + refused_call_ + " refused]";
    if (s) said_why(c.message);
    const bool may_be_there = refused_call_ == "unlink" || as_it_was.file_of(fresh_path) >= 0;
    want(may_be_there || image.file_of(fresh_path) < 0, "repair leaves an unfinished file behind");
    refused_ = 0;
    c.close();
    can_be_repaired(image);
    can_be_repaired(at_kill);
    script.resize(script.rfind(" [repair"));
    return true;
  }
  void can_be_repaired(disk& image) {
    const calls_go_to scope(image);
    client c(shape_, image);
    if (c.open(stadium_options::there, false)) {
      want(c.message.find("was not closed before") != std::string::npos, "refused with '" + c.message + "'");
      if (c.open(stadium_options::there, true)) violation("it cannot be repaired again: " + c.message);
    }
    has_kept(c);
  }
  // What there is in a table that was repaired.
  pairs has_kept(client& c) {
    uint64_t torn = 0;
    const pairs found = c.all(&torn);
    want(!torn || !shape_.sectors_hold_slots(), "a torn pair");
    for (const auto& [k, v] : kept_) {
      if (touched_.count(k)) continue;
      const auto there = found.find(k);
      want(there != found.end(), "key " + std::to_string(k) + " was synced and is gone");
      want(there->second == v, "key " + std::to_string(k) + " was synced and has another value");
    }
    for (const auto& [k, v] : found) {
      const auto ever = ever_.find(k);
      const bool unwritten = k == 0 && v == 0;
      want(unwritten || !shape_.sectors_hold_slots() || (ever != ever_.end() && ever->second.count(v)),
           "key " + std::to_string(k) + " never had the value " + std::to_string(v));
    }
    return found;
  }

  shape shape_;
  disk disk_;
  client client_;
  std::mt19937_64 random_;
  uint64_t most_images_, repairs_every_ = 0;
  phase phase_ = phase::none;
  pairs now_, kept_;                             // now, and when all was on the disk
  std::set<uint32_t> in_flight_;                 // keys of the operation that goes on
  std::set<uint32_t> touched_;                   // keys that may have changed since
  std::map<uint32_t, std::set<uint32_t>> ever_;  // values that keys have had
  int refused_ = 0;                              // in the present operation
  bool refuses_ = false, refused_before_ = false;
  std::string refused_call_;
  int before_ = -1;  // the file before what may be a rebuild
};

// ---- what is done ------------------------------------------------------------------------------------------------------

std::vector<uint32_t> keys_from(uint32_t first, uint32_t n) {
  std::vector<uint32_t> keys(n);
  for (uint32_t i = 0; i < n; ++i) keys[i] = first + i;
  return keys;
}

constexpr shape shapes[] = {{8, 8, 4, 3}, {4, 4, 3, 3}, {4, 0, 1, 0}, {12, 8, 2, 2}};

using scenario = void (*)(world&);
constexpr scenario scenarios[] = {
    [](world& w) {  // batches, flush, close, and opened again
      w.open();
      w.insert(keys_from(1, 3), 5);
      w.insert(keys_from(3, 2), 6);
      w.assign({1, 9}, 7);
      w.erase({2});
      w.close();
      w.open();
      w.insert({2, 11}, 8);
      w.flush();
      w.insert({12}, 8);
      w.erase({12, 11});
      w.close();
    },
    [](world& w) {  // growth, by itself and asked for
      w.open();
      w.insert(keys_from(1, 70), 1);
      w.flush();
      w.insert(keys_from(60, 20), 2);
      w.reserve(150);
      w.assign({5, 6}, 3);
      w.close();
      w.open();
      w.reserve(200);
      w.close();
    },
    [](world& w) {  // the process is killed
      w.open();
      w.insert(keys_from(1, 4), 1);
      w.flush();
      w.insert({7}, 2);
      w.kill();
      w.open();
      w.erase({1});
      w.kill();
      w.open();
      w.close();
      w.open();
      w.insert({8}, 3);
      w.kill();
      w.open();
      w.flush();
      w.close();
    },
    [](world& w) {  // slots that were another key's before
      w.open();
      w.insert(keys_from(1, 20), 4);
      w.flush();
      w.clear();
      w.insert(keys_from(30, 5), 5);
      w.flush();
      w.insert({1, 2}, 6);
      w.close();
    },
    [](world& w) {  // a slot that was never written holds the key 0, as far as its ticket says
      w.open();
      w.insert({0}, 9);
      w.insert(keys_from(1, 50), 4);
      w.flush();
      w.insert(keys_from(51, 9), 5);
      w.insert(keys_from(100, 9), 5);
      w.close();
    },
};

void small(uint64_t most) {
  for (const shape& s : shapes)
    for (const scenario does : scenarios) {
      script.clear();
      world w(s, 1, most);
      w.crash_at_calls();
      does(w);
    }
}

void repairs() {
  for (const shape& s : shapes)
    for (const scenario does : scenarios) {
      script.clear();
      world w(s, 1, 8);
      w.crash_at_calls();
      w.cut_repairs_off(97);
      does(w);
    }
}

void refused_calls(uint64_t many) {
  const std::vector<int> errors{EIO, ENOSPC, EDQUOT, EACCES, ENOMEM};
  for (const shape& s : shapes)
    for (const scenario does : scenarios)
      for (size_t i = 0; i < many && i < errors.size(); ++i)
        for (uint64_t at = 1;; ++at) {
          script.clear();
          world w(s, at, 2);
          w.refuse(at, errors[i]);
          does(w);
          w.open();
          w.insert({500}, 1);
          w.close();
          w.open();
          if (!w.reached()) break;
        }
}

// Any operations, of tables of up to some thousand keys.
void any(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return uint32_t(random() % n); };
  script = " seed " + std::to_string(seed);
  world w(shapes[below(4)], seed, 4);
  const uint32_t most = 20 + below(3000);
  if (below(2))
    w.refuse(1 + below(120), below(2) ? EIO : ENOSPC);
  else
    w.crash_at_calls();
  w.open();
  for (uint32_t steps = 4 + below(12); steps; --steps) {
    w.open();
    const std::vector<uint32_t> keys = keys_from(below(most), 1 + below(below(3) ? 10 : most));
    switch (below(10)) {
      case 0: w.close(); break;
      case 1: w.kill(); break;
      case 2: w.flush(); break;
      case 3: w.reserve(below(2 * most)); break;
      case 4: w.erase(keys); break;
      case 5: w.assign(keys, below(100)); break;
      case 6: below(4) ? w.flush() : w.clear(); break;
      default: w.insert(keys, below(100));
    }
  }
  w.open();
  w.close();
}

int run(int argc, char** argv) {
  static constexpr gpuhash_memory memory{sizeof(gpuhash_memory), nullptr,
                                         [](void*, size_t n, size_t alignment, void*) {
                                           return aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment);
                                         },
                                         [](void*, void* p, size_t, size_t, void*) { free(p); }};
  static gpuhash_host_api api{};
  api.fail = fail;
  api.host_memory = &memory;
  host = &api;
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "small" && argc == 3)
    small(strtoull(argv[2], nullptr, 10));
  else if (mode == "faults" && argc == 3)
    refused_calls(strtoull(argv[2], nullptr, 10));
  else if (mode == "repairs")
    repairs();
  else if (mode == "random" && argc == 4)
    for (uint64_t seed = strtoull(argv[2], nullptr, 10), last = strtoull(argv[3], nullptr, 10); seed <= last; ++seed)
      any(seed);
  else
    return fprintf(stderr, "usage: crash_test small MOST | faults MANY | repairs | random FIRST LAST\n"), 2;
  const auto figure = [](const char* name, uint64_t n) { printf("%llu %s, ", (unsigned long long)n, name); };
  figure("tables", sum.tables), figure("points", sum.points), figure("images", sum.images);
  figure("drawn", sum.drawn), figure("opened", sum.opened), figure("repaired", sum.repaired);
  figure("killed", sum.killed), figure("faults", sum.faults), figure("reported", sum.reported);
  puts("0 violations");
  return 0;
}

}  // namespace
}  // namespace sim
}  // namespace gpuhash

int main(int argc, char** argv) { return gpuhash::sim::run(argc, argv); }
