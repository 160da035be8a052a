// Keys of an index as an Arrow array: see give.hpp.
#include "libgpuhash/columns/give.hpp"

#include <deque>
#include <memory>

#include "libgpuhash/columns/cells.hpp"

namespace gpuhash::columns {
namespace {

// The memory that an array and its schema own. Both structs of Arrow are given away as a whole: children are released
// with the parent.
struct node {
  growing<char> validity, cells, bytes;
  const void* buffers[3] = {};
  std::deque<ArrowArray> arrays;
  std::vector<ArrowArray*> pointers;
  std::vector<std::unique_ptr<node>> fields;
};
struct schema_node {
  std::string format, name;
  std::deque<ArrowSchema> schemas;
  std::vector<ArrowSchema*> pointers;
};

void release(ArrowArray* a) {
  for (int64_t i = 0; i < a->n_children; ++i)
    if (a->children[i]->release) a->children[i]->release(a->children[i]);
  delete static_cast<node*>(a->private_data);
  a->release = nullptr;
}
void release(ArrowSchema* s) {
  for (int64_t i = 0; i < s->n_children; ++i)
    if (s->children[i]->release) s->children[i]->release(s->children[i]);
  delete static_cast<schema_node*>(s->private_data);
  s->release = nullptr;
}

// ---- cells of one column, one after the other ------------------------------------------------------------------------

class column_writer {
 public:
  column_writer(const column_type& type, bool bits, size_t n) : type_(type), bits_(bits), n_(n), own_(new node) {
    own_->validity = growing<char>((n + 7) / 8);
    std::memset(own_->validity.data(), 0xff, (n + 7) / 8);
    if (type.how == layout::bits) own_->cells = growing<char>((n + 7) / 8);
    if (type.how == layout::fixed) own_->cells = growing<char>(n * type.width);
    if (type.how == layout::fixed_bytes) own_->cells.reserve(n * type.width);
    if (has_offsets()) own_->cells = growing<char>((n + 1) * 8);
  }
  void null() {
    own_->validity[at_ >> 3] = char(own_->validity[at_ >> 3] & ~(1 << (at_ & 7)));
    ++nulls_;
    if (type_.how == layout::fixed_bytes) own_->cells.append_zeros(type_.width);
    next();
  }
  void present() { next(); }  // of structs
  /// Of cells of text or bytes.
  void reserve_bytes(size_t n) { own_->bytes.reserve(n); }
  void words(const uint64_t* w) {
    char* const cell = own_->cells.data() + at_ * type_.width;
    if (type_.how == layout::bits) {
      own_->cells[at_ >> 3] = char(own_->cells[at_ >> 3] | int(w[0] & 1) << (at_ & 7));
    } else if (type_.kind == family::floating && !bits_ && type_.width < 8) {
      const double d = double_of(w[0]);
      const uint16_t half = double_to_half(d);
      const auto single = float(d);
      std::memcpy(cell, type_.width == 2 ? static_cast<const void*>(&half) : &single, type_.width);
    } else {
      std::memcpy(cell, w, type_.width);  // the low bytes come first
    }
    next();
  }
  void bytes(std::string_view s) {
    auto& to = type_.how == layout::fixed_bytes ? own_->cells : own_->bytes;
    to.append(s.data(), s.size());
    next();
  }

  /// The format of the keys that are given: text and bytes have offsets of 4 bytes if the column had, and if 4 bytes
  /// suffice.
  std::string finish(ArrowArray* a) {
    std::string format = type_.format;
    if (has_offsets()) format = narrow_offsets();
    node& own = *own_;
    static const char nothing[8] = {};
    own.buffers[0] = nulls_ ? own.validity.data() : nullptr;
    own.buffers[1] = own.cells.empty() ? nothing : own.cells.data();
    own.buffers[2] = own.bytes.empty() ? nothing : own.bytes.data();
    *a = {};
    a->length = int64_t(n_);
    a->null_count = type_.kind == family::null ? int64_t(n_) : int64_t(nulls_);
    a->n_buffers = type_.kind == family::null ? 0 : type_.kind == family::structure ? 1 : has_offsets() ? 3 : 2;
    a->buffers = own.buffers;
    a->release = release;
    a->private_data = own_.release();
    return format;
  }

 private:
  bool has_offsets() const {
    return type_.how == layout::offsets32 || type_.how == layout::offsets64 || type_.how == layout::views;
  }
  void next() {
    ++at_;
    if (has_offsets()) {
      const uint64_t end = own_->bytes.size();
      std::memcpy(own_->cells.data() + 8 * at_, &end, 8);
    }
  }
  std::string narrow_offsets() {
    const bool text = type_.kind == family::text;
    if (type_.how != layout::offsets32 || own_->bytes.size() > INT32_MAX) return text ? "U" : "Z";
    for (size_t i = 0; i <= n_; ++i) std::memmove(own_->cells.data() + 4 * i, own_->cells.data() + 8 * i, 4);
    return text ? "u" : "z";
  }

  const column_type& type_;
  const bool bits_;
  const size_t n_;
  std::unique_ptr<node> own_;
  size_t at_ = 0, nulls_ = 0;
};

// ---- the tree of columns ---------------------------------------------------------------------------------------------

struct giver {
  const row_type& type;
  std::vector<column_writer>& writers;
  size_t next = 0;

  /// Both structs as a whole. Throws bad_alloc, and they are untouched.
  void give(ArrowSchema* schema, ArrowArray* array) {
    ArrowSchema s = {};
    ArrowArray a = {};
    try {
      give_column(&s, &a);
    } catch (...) {
      if (s.release) s.release(&s);
      if (a.release) a.release(&a);
      throw;
    }
    *schema = s;
    *array = a;
  }

 private:
  // Both are complete before their fields are, so that what there is can be released.
  void give_column(ArrowSchema* s, ArrowArray* a) {
    const size_t at = next++;
    const column_type& t = type.columns[at];
    auto own = std::make_unique<schema_node>();
    own->name = t.name;
    own->format = writers[at].finish(a);
    schema_node& schemas = *own;
    node& arrays = *static_cast<node*>(a->private_data);
    s->flags = t.nullable || a->null_count ? ARROW_FLAG_NULLABLE : 0;
    s->format = own->format.c_str();
    s->name = own->name.c_str();
    s->private_data = own.release();
    s->release = release;
    schemas.pointers.reserve(t.fields);
    arrays.pointers.reserve(t.fields);
    s->children = schemas.pointers.data();
    a->children = arrays.pointers.data();
    for (uint32_t i = 0; i < t.fields; ++i) {
      schemas.pointers.push_back(&schemas.schemas.emplace_back());
      arrays.pointers.push_back(&arrays.arrays.emplace_back());
      s->n_children = a->n_children = int64_t(i) + 1;
      give_column(schemas.pointers.back(), arrays.pointers.back());
    }
  }
};

std::vector<column_writer> writers_for(const row_type& type, bool bits, size_t n) {
  std::vector<column_writer> writers;
  writers.reserve(type.columns.size());
  for (const column_type& t : type.columns) writers.emplace_back(t, bits, n);
  return writers;
}

// What encoder::write has written, field by field.
void decode(const row_type& type, std::string_view row, std::vector<column_writer>& writers) {
  const size_t columns = type.columns.size();
  const char* word = row.data() + (columns + 7) / 8;
  const char* tail = word;
  for (const column_type& t : type.columns) tail += 8 * t.words();
  for (size_t i = 0; i < columns; ++i) {
    const column_type& t = type.columns[i];
    uint64_t w[2] = {};
    std::memcpy(w, word, 8 * t.words());
    word += 8 * t.words();
    if (encoder::is_null(row.data(), i)) {
      writers[i].null();
    } else if (t.kind == family::structure) {
      writers[i].present();
    } else if (t.variable()) {
      writers[i].bytes({tail, size_t(w[0])});
      tail += w[0];
    } else {
      writers[i].words(w);
    }
  }
}

template <class Key, class Give>
void each_key(const keys_to_give<Key>& keys, Give give) {
  constexpr size_t some = 256;
  const Key* read[some];
  for (size_t first = 0; first < keys.n; first += some) {
    const size_t n = std::min(some, keys.n - first);
    keys.read(keys.context, first, n, read);
    for (size_t i = 0; i < n; ++i) give(read[i]);
  }
}

}  // namespace

gpuhash_status give_keys(const row_type& type, bool bits, const keys_to_give<word_key>& keys, ArrowSchema* schema,
                         ArrowArray* out) {
  auto writers = writers_for(type, bits, keys.n);
  each_key(keys, [&](const word_key* k) { k ? writers[0].words(&k->word) : writers[0].null(); });
  giver{type, writers}.give(schema, out);
  return GPUHASH_OK;
}

gpuhash_status give_keys(const row_type& type, bool bits, const keys_to_give<bytes_key>& keys, ArrowSchema* schema,
                         ArrowArray* out) {
  auto writers = writers_for(type, bits, keys.n);
  const bool plain = type.single() && type.columns[0].variable();
  if (plain) writers[0].reserve_bytes(keys.bytes);
  each_key(keys, [&](const bytes_key* k) {
    if (!k)
      writers[0].null();
    else if (plain)
      writers[0].bytes(k->view());
    else
      decode(type, k->view(), writers);
  });
  giver{type, writers}.give(schema, out);
  return GPUHASH_OK;
}

}  // namespace gpuhash::columns
