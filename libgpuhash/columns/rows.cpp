// The rows of an ArrowArray, checked: see rows.hpp.
#include "libgpuhash/columns/rows.hpp"

#include <algorithm>

namespace gpuhash::columns {
namespace {

constexpr int64_t longest = int64_t(1) << 48;  // rows of one array, and their offset: no address space holds more

struct reader {
  const row_type& type;
  rows* out;
  gpuhash_error* err;
  size_t next = 0;  // of type.columns

  gpuhash_status wrong(size_t column, const char* what) const {
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "the ArrowArray of %s %s; it does not belong to its ArrowSchema, or was "
                "released",
                place(type, column).c_str(), what);
  }

  // What all arrays have. begin, length: of the cells that are asked for, of the parent's rows.
  gpuhash_status check(const ArrowArray* a, size_t at, int64_t begin, int64_t length, int64_t least_buffers) const {
    if (a == nullptr || a->release == nullptr) return wrong(at, "is NULL or was released");
    if (a->length < 0 || a->offset < 0 || a->length > longest || a->offset > longest)
      return wrong(at, "has a length or an offset out of range");
    if (a->null_count < -1 || a->null_count > a->length) return wrong(at, "has a count of nulls out of range");
    if (begin > a->length || length > a->length - begin) return wrong(at, "is shorter than its struct");
    if (a->n_buffers < least_buffers || (least_buffers > 0 && a->buffers == nullptr))
      return wrong(at, "has too few buffers");
    return GPUHASH_OK;
  }

  static int64_t buffers_of(const column_type& t) {
    if (t.dictionary) return 2;
    switch (t.how) {
      case layout::none: return t.kind == family::structure ? 1 : 0;
      case layout::offsets32:
      case layout::offsets64:
      case layout::views: return 3;
      default: return 2;
    }
  }

  gpuhash_status read(const ArrowArray* a, int64_t begin, int64_t length) {
    const size_t at = next++;
    const column_type& t = type.columns[at];
    const int64_t n_buffers = buffers_of(t);
    if (const gpuhash_status s = check(a, at, begin, length, n_buffers)) return s;
    column_view view;
    view.type = &t;
    view.first = a->offset + begin;
    view.length = length;
    if (n_buffers > 0 && a->null_count != 0) view.validity = static_cast<const uint8_t*>(a->buffers[0]);
    if (a->null_count > 0 && view.validity == nullptr && n_buffers > 0)
      return wrong(at, "has nulls and no bitmap that says which");
    if (t.kind == family::structure) {
      if (a->n_children != int64_t(t.fields) || (t.fields > 0 && a->children == nullptr))
        return wrong(at, "has another number of fields");
      out->columns.push_back(std::move(view));
      for (uint32_t i = 0; i < t.fields; ++i)
        if (const gpuhash_status s = read(a->children[i], a->offset + begin, length)) return s;
      return GPUHASH_OK;
    }
    if (const gpuhash_status s = read_cells(a, t, at, &view)) return s;
    if (t.dictionary)
      if (const gpuhash_status s = read_dictionary(a, at, &view)) return s;
    out->columns.push_back(std::move(view));
    return GPUHASH_OK;
  }

  gpuhash_status read_cells(const ArrowArray* a, const column_type& t, size_t at, column_view* view) const {
    if (t.dictionary || t.how == layout::fixed || t.how == layout::bits || t.how == layout::fixed_bytes) {
      view->data = a->buffers[1];
      const bool has_no_bytes = !t.dictionary && t.how == layout::fixed_bytes && t.width == 0;
      if (view->data == nullptr && view->length > 0 && !has_no_bytes) return wrong(at, "has no buffer of cells");
      return GPUHASH_OK;
    }
    if (t.how == layout::views) return read_views(a, at, view);
    if (t.how == layout::none) return GPUHASH_OK;
    view->offsets = a->buffers[1];
    view->data = a->buffers[2];
    if (view->length == 0) return GPUHASH_OK;
    if (view->offsets == nullptr) return wrong(at, "has no buffer of offsets");
    return t.how == layout::offsets32 ? check_offsets<int32_t>(at, view) : check_offsets<int64_t>(at, view);
  }

  template <class Offset>
  gpuhash_status check_offsets(size_t at, column_view* view) const {
    const auto* p = static_cast<const Offset*>(view->offsets) + view->first;
    using number = std::make_unsigned_t<Offset>;  // whose differences wrap
    constexpr Offset most = std::is_same_v<Offset, int32_t> ? INT32_MAX : Offset(longest);
    Offset back = p[view->length];  // negative where an offset is, or goes back
    for (int64_t i = 0; i < view->length; ++i) back |= Offset(number(p[i + 1]) - number(p[i])) | p[i];
    if (p[view->length] > most || back < 0) return wrong(at, "has offsets that go back");
    if (sizeof(Offset) == 8) {
      Offset wide = 0;
      for (int64_t i = 0; i < view->length; ++i) wide |= p[i + 1] - p[i] > Offset(UINT32_MAX - 1) ? 1 : 0;
      if (wide) return wrong(at, "has an element of 4 GiB or more");
    }
    if (view->data == nullptr && p[view->length] > 0) return wrong(at, "has no buffer of bytes");
    static const char nothing[1] = {};
    if (view->data == nullptr) view->data = nothing;
    view->end = static_cast<const char*>(view->data) + p[view->length];
    return GPUHASH_OK;
  }

  gpuhash_status read_views(const ArrowArray* a, size_t at, column_view* view) const {
    view->data = a->buffers[1];
    view->heaps = a->buffers + 2;
    if (view->length == 0) return GPUHASH_OK;
    if (view->data == nullptr) return wrong(at, "has no buffer of views");
    const int64_t heaps = a->n_buffers - 3;
    const auto* sizes = static_cast<const int64_t*>(a->buffers[a->n_buffers - 1]);
    if (heaps > 0 && sizes == nullptr) return wrong(at, "has no sizes of its buffers");
    for (int64_t i = 0; i < view->length; ++i) {
      const view_cell* v = static_cast<const view_cell*>(view->data) + view->first + i;
      if (uint32_t(v->length) <= 12 || !view->valid(i)) continue;
      if (v->length < 0 || v->heap < 0 || v->heap >= heaps || v->offset < 0 ||
          int64_t(v->offset) + v->length > sizes[v->heap] || view->heaps[v->heap] == nullptr)
        return wrong(at, "has a view that points beyond its buffers");
    }
    return GPUHASH_OK;
  }

  gpuhash_status read_dictionary(const ArrowArray* a, size_t at, column_view* view) const {
    auto values = std::make_unique<column_view>();
    const column_type& t = *view->type;
    if (a->dictionary == nullptr) return wrong(at, "has no dictionary");
    column_type plain = t;
    plain.dictionary = false;
    const int64_t n_buffers = buffers_of(plain);
    if (const gpuhash_status s = check(a->dictionary, at, 0, 0, n_buffers)) return s;
    values->type = &t;
    values->first = a->dictionary->offset;
    values->length = a->dictionary->length;
    if (n_buffers > 0 && a->dictionary->null_count != 0)
      values->validity = static_cast<const uint8_t*>(a->dictionary->buffers[0]);
    if (a->dictionary->null_count > 0 && values->validity == nullptr && n_buffers > 0)
      return wrong(at, "has a dictionary with nulls and no bitmap that says which");
    if (const gpuhash_status s = read_cells(a->dictionary, plain, at, values.get())) return s;
    view->values = std::move(values);
    const int64_t n = view->values->length;
    bool all = true;
    for (int64_t i = 0; i < view->length; ++i)
      all &= !view->valid(i) || uint64_t(view->dictionary_index(i)) < uint64_t(n);
    return all ? gpuhash_status(GPUHASH_OK) : wrong(at, "has an index beyond its dictionary");
  }
};

}  // namespace

gpuhash_status read_rows(const ArrowArray* array, const row_type& type, rows* out, gpuhash_error* err) {
  if (array == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "the ArrowArray is NULL");
  out->columns.reserve(type.columns.size());
  out->length = array->length;
  return reader{type, out, err}.read(array, 0, array->length);
}

}  // namespace gpuhash::columns
